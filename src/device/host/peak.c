/* The fp32 peak as this variant can reach it: fused multiply-adds on registers alone. */
#include "device/host/kernels.h"
#include "device/host/tile.h"
#include <omp.h>

enum {
    CHAINS = TILE_ROWS * TILE_VECTORS, /* as many as a tile has, so as to hide the latency of each */
    BATCH = 20000,                     /* steps between two looks at the clock */
    TRIALS = 5
};
static const double trial_seconds = 0.02;

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

double KERNEL(peak)(int threads)
{
    double best = 0.0, total = 0.0;
    for (int trial = 0; trial < TRIALS; trial++) {
        double rate = 0.0;
#pragma omp parallel num_threads(threads) reduction(+ : rate, total)
        {
            double taken = 0.0;
#pragma omp barrier
            const double steps = steps_done(trial_seconds, &total, &taken);
            rate += steps * CHAINS * LANES * 2.0 / taken;
        }
        if (rate > best) best = rate;
    }
    assert(total > 0.0);
    return best;
}
