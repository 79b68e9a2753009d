#include "fibres.h"
#include "failure.h"
#include "sanitizers.h"
#include <sys/mman.h>
#include <unistd.h>

/* Stacks that all began at the same place of a page would share a few sets of the cache, and a block has
   hundreds of them: each begins so many bytes lower than the one before it, up to so many times. */
enum { STAGGER_BYTES = 384, STAGGERS = 32 };

static struct fibre *left; /* by the last switch */
static struct fibre *entered;

#if !FIBRES_BY_UCONTEXT
/* double_switch(&save, to): pushes what a called function must keep, saves the stack pointer, takes the
 * other. */
extern "C" void double_switch(void **save, void *to);
#if defined(__x86_64__)
enum { SAVED_WORDS = 6 }; /* below the return address */
asm(".text\n.globl double_switch\n.hidden double_switch\n.type double_switch,@function\ndouble_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n"
    ".size double_switch,.-double_switch\n");
#else
enum { SAVED_WORDS = 20 }; /* x19 .. x30, d8 .. d15 */
asm(".text\n.globl double_switch\n.hidden double_switch\n.type double_switch,%function\ndouble_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp, #0]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\nstp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp, #0]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\nldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n"
    ".size double_switch,.-double_switch\n");
#endif
#endif

/* On the new stack, right after a switch. */
static void arrived(struct fibre *here)
{
    if (__sanitizer_finish_switch_fiber)
        __sanitizer_finish_switch_fiber(here->fake_stack, &left->stack, &left->stack_bytes);
}

static void first_entry()
{
    struct fibre *here = entered;
    arrived(here);
    here->entry();
    failure("a fibre returned");
}

struct fibre *fibre_new(size_t stack_bytes, void (*entry)(), const char *name)
{
    static size_t stacks;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    stack_bytes += STAGGERS * STAGGER_BYTES;
    char *memory = static_cast<char *>(mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) failure("no memory for a stack");
    char *const end = memory + page + stack_bytes - stacks++ % STAGGERS * STAGGER_BYTES;
    struct fibre *fibre = new struct fibre();
    fibre->stack = memory + page;
    fibre->stack_bytes = stack_bytes;
    fibre->entry = entry;
    if (under_tsan()) {
        fibre->tsan = __tsan_create_fiber(0);
        __tsan_set_fiber_name(fibre->tsan, name);
    }
#if FIBRES_BY_UCONTEXT
    getcontext(&fibre->context);
    fibre->context.uc_stack.ss_sp = memory + page;
    fibre->context.uc_stack.ss_size = (size_t)(end - memory) - page;
    fibre->context.uc_link = nullptr;
    makecontext(&fibre->context, first_entry, 0);
#elif defined(__x86_64__)
    void **top = reinterpret_cast<void **>(end);
    *--top = nullptr; /* so that first_entry's frame is aligned as after a call */
    *--top = reinterpret_cast<void *>(first_entry);
    for (int i = 0; i < SAVED_WORDS; i++) *--top = nullptr;
    fibre->stack_pointer = top;
#else
    void **top = reinterpret_cast<void **>(end) - SAVED_WORDS;
    for (int i = 0; i < SAVED_WORDS; i++) top[i] = nullptr;
    top[11] = reinterpret_cast<void *>(first_entry); /* x30 */
    fibre->stack_pointer = top;
#endif
    return fibre;
}

void fibre_free(struct fibre *fibre)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (fibre->tsan) __tsan_destroy_fiber(fibre->tsan);
    munmap(static_cast<char *>(const_cast<void *>(fibre->stack)) - page, fibre->stack_bytes + page);
    delete fibre;
}

struct fibre *fibre_here()
{
    return entered;
}

void fibre_switch(struct fibre *from, struct fibre *to)
{
    left = from;
    entered = to;
    if (__sanitizer_start_switch_fiber)
        __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
    if (under_tsan()) {
        from->tsan = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(to->tsan, 1); /* 1: orders nothing */
    }
#if FIBRES_BY_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    double_switch(&from->stack_pointer, to->stack_pointer);
#endif
    arrived(from);
}
