/* The 32 partial sums of a row sum in registers: vectors as wide as the variant's, by the vector extension
   that gcc and clang share. Lane t is element t % WIDTH of part t / WIDTH. */
#pragma once
#include "device/arithmetic.h"

#if defined(__AVX512F__)
#define LANES_WIDTH 16
#elif defined(__AVX2__)
#define LANES_WIDTH 8
#else
#define LANES_WIDTH 4
#endif
enum { LANES_PARTS = PL_LANES / LANES_WIDTH };

typedef float vector __attribute__((vector_size(4 * LANES_WIDTH)));
typedef float vector_in_memory __attribute__((vector_size(4 * LANES_WIDTH), aligned(4), may_alias));

struct lanes {
    vector part[LANES_PARTS];
};

static inline vector vector_load(const float *x)
{
    return *(const vector_in_memory *)x;
}

static inline void vector_store(float *x, vector v)
{
    *(vector_in_memory *)x = v;
}

/* The lanes as an array, to which the caller adds the columns past the last multiple of 32 before
 * pl_lane_sum. */
static inline void lanes_store(float lane[PL_LANES], const struct lanes *lanes)
{
    for (int p = 0; p < LANES_PARTS; p++) vector_store(lane + p * LANES_WIDTH, lanes->part[p]);
}
