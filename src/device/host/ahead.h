/* Asking memory for what a kernel needs next, while it computes. Any address may be asked for. */
#pragma once
#include <stddef.h>

enum { AHEAD = 512 }; /* floats: how far a pass from end to end asks ahead of itself, two kilobytes */

/* `count` floats that will be read. */
static inline void ask_for(size_t count, const float *x)
{
    for (size_t i = 0; i < count; i += 16) __builtin_prefetch(x + i);
}

/* `count` floats that will be written. */
static inline void ask_to_write(size_t count, const float *x)
{
    for (size_t i = 0; i < count; i += 16) __builtin_prefetch(x + i, 1);
}
