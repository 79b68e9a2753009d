/* exp of many numbers. Each is a chain of some 30 operations; a processor that looks at a few dozen ahead
   finds two or three such chains to work on and waits for them. So all numbers of a block go through one
   stage, then through the next: within a stage no number waits for another. Bits are those of pl_exp. */
#pragma once
#include "device/arithmetic.h"
#include <stddef.h>

enum { EXPONENTIALS = 128 }; /* numbers of a block: they and the kernels' own stay in a first cache */

/* e[i] = exp(x[i]), i < count, at most EXPONENTIALS. e holds pl_exp_at_least(x[i]): the first stage, which
 * what makes an x has room for. */
static inline void exponentials_block(size_t count, float *e)
{
    float shifted[EXPONENTIALS];
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        const float within = pl_exp_at_most(e[i]);
        shifted[i] = pl_exp_shifted(within);
        e[i] = pl_exp_rest(within, shifted[i]);
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++) e[i] = pl_exp_scaled(pl_exp_of_rest(e[i]), shifted[i]);
}

/* The same for any count. */
static inline void exponentials(size_t count, float *e)
{
    for (size_t i = 0; i < count; i += EXPONENTIALS)
        exponentials_block(count - i < EXPONENTIALS ? count - i : EXPONENTIALS, e + i);
}
