/* exp of many numbers. Each is a chain of some 20 operations; a processor that looks at a few dozen ahead
   finds two or three such chains to work on and waits for them. So all numbers of a block go through one
   stage, then through the next: within a stage no number waits for another. Bits are those of pl_exp. */
#pragma once
#include "device/arithmetic.h"
#include <stddef.h>

enum { EXPONENTIALS = 128 }; /* numbers of a block: they and the kernels' own stay in a first cache */

/* A limit for pl_at_least and pl_at_most that compilers do not know. With one that they know gcc 12 makes a
 * comparison and a selection of what is one operation. */
static inline float limit(float x)
{
    const volatile float unknown = x;
    return unknown;
}

/* e[i] = pl_exp(e[i], bias), i < count, at most EXPONENTIALS. Inlined, so that a whole block is loops of a
 * known length, which compilers unroll. */
__attribute__((always_inline)) static inline void exponentials_block(size_t count, float *e, int bias)
{
    float shifted[EXPONENTIALS];
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        shifted[i] = pl_exp_shifted(e[i], bias);
        e[i] = pl_exp_rest(e[i], shifted[i], bias);
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++) e[i] = pl_exp_scaled(pl_exp_of_rest(e[i]), shifted[i], bias);
}

/* The same for any count. */
static inline void exponentials(size_t count, float *e, int bias)
{
    size_t i = 0;
    for (; i + EXPONENTIALS <= count; i += EXPONENTIALS) exponentials_block(EXPONENTIALS, e + i, bias);
    if (i < count) exponentials_block(count - i, e + i, bias);
}
