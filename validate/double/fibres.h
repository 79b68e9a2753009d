/* Stacks to switch between, in one host thread at a time. */
#pragma once
#include <cstddef>

#if defined(DOUBLE_UCONTEXT) || !(defined(__x86_64__) || defined(__aarch64__))
#define FIBRES_BY_UCONTEXT 1
#include <ucontext.h>
#endif

/* A fibre, or, zero-initialised, the place of one that is left for a fibre and returned to. */
struct fibre {
#if FIBRES_BY_UCONTEXT
    ucontext_t context;
#else
    void *stack_pointer;
#endif
    const void *stack; /* its lowest address and size, for AddressSanitizer */
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
    void *tsan;       /* ThreadSanitizer's fibre */
    void (*entry)();
};

/* A new fibre, which will call entry() when first switched to; entry must never return. A guard page lies
   below its stack. Never freed: the callers keep and reuse fibres. */
struct fibre *fibre_new(size_t stack_bytes, void (*entry)(), const char *name);
/* For the fibres of a stream that is destroyed. */
void fibre_free(struct fibre *fibre);
/* Leaves `from`, which runs now, for `to`. Nothing is ordered by it. */
void fibre_switch(struct fibre *from, struct fibre *to);
/* The one that was entered last. */
struct fibre *fibre_here();
