/* The shared memory of the block that runs: static variables, as kernel_table.cpp finds them, and one pool
   for what launches ask for. */
#include "state.h"
#include <cstring>

char *double_dynamic_shared;

/* Aligned as CUDA promises, and no better. What lies behind the bytes asked for must not change. */
enum { POOL_OFFSET = 16, GUARD_BYTES = 64, GUARD = 0xa5 };
alignas(4096) static char pool[POOL_OFFSET + SHARED_OPT_IN + GUARD_BYTES];

/* ThreadSanitizer forgets who used this memory, and what its addresses ordered. */
void forget(void *begin, size_t bytes)
{
    static bool heap_known;
    if (!under_tsan() || bytes == 0) return;
    if (!heap_known) {
        const shared_range data = program_data();
        const unsigned long first = (unsigned long)data.begin & ~7ul;
        __tsan_java_init(first, ((unsigned long)data.begin + data.bytes - first + 7) & ~7ul);
        heap_known = true;
    }
    const unsigned long from = (unsigned long)begin & ~7ul, to = ((unsigned long)begin + bytes + 7) & ~7ul;
    __tsan_java_free(from, to - from);
    __tsan_java_alloc(from, to - from);
    __tsan_java_free(from, to - from); /* so that reports call it by its name, not a block of a heap */
}

void clear_shared(const kernel_facts &facts, size_t dynamic_bytes)
{
    look_away(true); /* filling is nobody's write */
    for (const shared_range &variable : facts.variables) {
        forget(variable.begin, variable.bytes);
        memset(variable.begin, 0xff, variable.bytes);
    }
    forget(double_dynamic_shared, dynamic_bytes);
    memset(double_dynamic_shared, 0xff, dynamic_bytes);
    look_away(false);
}

void take_dynamic(size_t bytes)
{
    double_dynamic_shared = pool + POOL_OFFSET;
    look_away(true);
    memset(double_dynamic_shared + bytes, GUARD, GUARD_BYTES);
    look_away(false);
    const size_t end = (POOL_OFFSET + bytes + 7) & ~(size_t)7;
    if (__asan_poison_memory_region) __asan_poison_memory_region(pool + end, sizeof pool - end);
}

bool give_dynamic(size_t bytes)
{
    if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(pool, sizeof pool);
    for (int i = 0; i < GUARD_BYTES; i++)
        if (double_dynamic_shared[bytes + (size_t)i] != (char)GUARD) return false;
    return true;
}
