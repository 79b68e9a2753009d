/* The fp32 peak as this variant can reach it: fused multiply-adds on registers alone. */
#include "device/host/kernels.h"
#include "device/host/tile.h"

enum {
    CHAINS = TILE_ROWS * TILE_VECTORS, /* as many as a tile has, so as to hide the latency of each */
    BATCH = 20000                      /* steps between two looks at the clock, some 0.1 ms */
};

/* Steps until `seconds` have gone by; every value stays near 1. The sum keeps the compiler from dropping the
 * work. */
static double steps_done(double seconds, double *sum, double *taken)
{
    volatile float factor = 0.999f, term = 0.001f;
    const vector a = vector_all(factor), b = vector_all(term);
    vector x[CHAINS];
    for (int i = 0; i < CHAINS; i++) x[i] = vector_all(1.0f);
    const double begin = seconds_now();
    double steps = 0.0, now = begin;
    while (now - begin < seconds) {
        for (int step = 0; step < BATCH; step++) {
#pragma GCC unroll 32
            for (int i = 0; i < CHAINS; i++) x[i] = vector_fma(x[i], a, b);
        }
        steps += BATCH;
        now = seconds_now();
    }
    for (int i = 0; i < CHAINS; i++) {
        float lane[LANES];
        vector_store(lane, x[i]);
        *sum += (double)lane[0];
    }
    *taken = now - begin;
    return steps;
}

void KERNEL(peak)(double seconds, double *rate)
{
    double sum = 0.0, taken = 0.0;
#pragma omp barrier
    const double steps = steps_done(seconds, &sum, &taken);
    assert(sum > 0.0);
#pragma omp atomic
    *rate += steps * CHAINS * LANES * 2.0 / taken;
}
