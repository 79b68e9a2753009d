/* Memory of the program that the double itself reads or writes, told to ThreadSanitizer by its own name. That
   it watches memcpy is not enough: with ignore_noninstrumented_modules=1, which the MPI libraries need, it
   takes no notice of calls of the C library, on Linux not even of the program's own. */
#pragma once
#include <cstddef>
#include <cstring>

extern "C" {
void __tsan_read_range(void *memory, unsigned long bytes) __attribute__((weak));
void __tsan_write_range(void *memory, unsigned long bytes) __attribute__((weak));
}

static inline void touch_read(const void *memory, size_t bytes)
{
    if (bytes && __tsan_read_range) __tsan_read_range(const_cast<void *>(memory), bytes);
}

static inline void touch_write(void *memory, size_t bytes)
{
    if (bytes && __tsan_write_range) __tsan_write_range(memory, bytes);
}

/* From the program's memory into the double's, and back. */
static inline void copy_in(void *own, const void *memory, size_t bytes)
{
    touch_read(memory, bytes);
    memcpy(own, memory, bytes);
}

static inline void copy_out(void *memory, const void *own, size_t bytes)
{
    touch_write(memory, bytes);
    memcpy(memory, own, bytes);
}

static inline void fill_with_nans(void *memory, size_t bytes)
{
    touch_write(memory, bytes);
    memset(memory, 0xff, bytes);
}
