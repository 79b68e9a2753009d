/* What the double tells AddressSanitizer and ThreadSanitizer. The functions are there only in a program
   linked with the sanitizer, so one object file serves all builds. The double's own files are compiled
   without -fsanitize: their switching and bookkeeping is not to be judged, nor to order anything. */
#pragma once
#include <cstddef>

extern "C" {
/* sanitizer/tsan_interface.h */
void *__tsan_get_current_fiber(void) __attribute__((weak));
void *__tsan_create_fiber(unsigned flags) __attribute__((weak));
void __tsan_destroy_fiber(void *fiber) __attribute__((weak));
void __tsan_switch_to_fiber(void *fiber, unsigned flags) __attribute__((weak));
void __tsan_set_fiber_name(void *fiber, const char *name) __attribute__((weak));
void __tsan_acquire(void *address) __attribute__((weak));
void __tsan_release(void *address) __attribute__((weak));
/* ThreadSanitizer's interface for managed heaps: the one way to make it forget what happened in a range of
   memory (fresh) and which threads were ordered through an address in it (free). The range must lie in the
   heap of `init`. */
void __tsan_java_init(unsigned long begin, unsigned long size) __attribute__((weak));
void __tsan_java_alloc(unsigned long begin, unsigned long size) __attribute__((weak));
void __tsan_java_free(unsigned long begin, unsigned long size) __attribute__((weak));
/* From begin to end, ThreadSanitizer leaves out what the current fibre reads and writes. */
void AnnotateIgnoreReadsBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreReadsEnd(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreWritesBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreWritesEnd(const char *file, int line) __attribute__((weak));
/* sanitizer/common_interface_defs.h and asan_interface.h */
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t size) __attribute__((weak));
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *size)
    __attribute__((weak));
void __asan_poison_memory_region(const volatile void *begin, size_t size) __attribute__((weak));
void __asan_unpoison_memory_region(const volatile void *begin, size_t size) __attribute__((weak));
}

static inline bool under_tsan()
{
    return __tsan_create_fiber != nullptr;
}
static inline void order_after(void *what)
{
    if (under_tsan()) __tsan_acquire(what);
}
static inline void order_before(void *what)
{
    if (under_tsan()) __tsan_release(what);
}
/* For library functions that the double calls, which ThreadSanitizer sees. */
static inline void look_away(bool begin)
{
    if (!under_tsan()) return;
    (begin ? AnnotateIgnoreReadsBegin : AnnotateIgnoreReadsEnd)(__FILE__, __LINE__);
    (begin ? AnnotateIgnoreWritesBegin : AnnotateIgnoreWritesEnd)(__FILE__, __LINE__);
}
