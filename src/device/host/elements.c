/* Kernels in which each element is on its own: GELU and the random numbers. Threads share out blocks of
 * elements. */
#include "device/host/ahead.h"
#include "device/host/exponentials.h"
#include "device/host/kernels.h"
#include "device/host/stream.h"

static size_t at_most(size_t count, size_t limit)
{
    return count < limit ? count : limit;
}

/* What GELU's kernels do with a block, of at most EXPONENTIALS elements: inlined where the count is known and
   where it is not. e[i] = pl_gelu_exponential(u[i]). */
#define BLOCK __attribute__((always_inline)) static inline

BLOCK void gelu_exponentials(size_t count, const float *u, float *e)
{
    const float least = limit(PL_GELU_LEAST), most = limit(PL_GELU_MOST);
#pragma omp simd
    for (size_t i = 0; i < count; i++) e[i] = pl_at_most(pl_at_least(pl_gelu_exponent(u[i]), least), most);
    exponentials_block(count, e, PL_EXP_BIAS_UP);
}

BLOCK void gelu_forward_block(size_t count, const float *u, float *g)
{
    float e[EXPONENTIALS];
    gelu_exponentials(count, u, e);
#pragma omp simd
    for (size_t i = 0; i < count; i++) g[i] = pl_gelu(u[i], e[i]);
}

BLOCK void gelu_backward_block(size_t count, const float *u, const float *dg, float *g, float *du)
{
    float e[EXPONENTIALS];
    gelu_exponentials(count, u, e);
    const float least = limit(-PL_GELU_WITHIN), most = limit(PL_GELU_WITHIN), finite = limit(FLT_MAX);
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        g[i] = pl_gelu(u[i], e[i]);
        const float within = pl_at_most(pl_at_least(u[i], least), most);
        const float slope = pl_gelu_derivative_within(within, e[i], pl_at_most(e[i], finite));
        du[i] = dg[i] * slope; /* du may be dg */
    }
}

void KERNEL(gelu_forward)(size_t count, const float *u, float *g)
{
    const bool streamed = is_streamed(count, EXPONENTIALS, g);
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < count; first += EXPONENTIALS) {
        _Alignas(64) float part[EXPONENTIALS];
        const size_t block = at_most(count - first, EXPONENTIALS);
        float *const to = streamed ? part : g + first;
        ask_for(EXPONENTIALS, u + first + AHEAD);
        if (!streamed) ask_to_write(EXPONENTIALS, g + first + AHEAD);
        if (block == EXPONENTIALS)
            gelu_forward_block(EXPONENTIALS, u + first, to);
        else
            gelu_forward_block(block, u + first, to);
        if (streamed) stream(block, g + first, part);
    }
    stream_end();
#pragma omp barrier
}

/* g alone is streamed: du is most often written where dg was read. */
void KERNEL(gelu_backward)(size_t count, const float *u, const float *dg, float *g, float *du)
{
    const bool streamed = is_streamed(count, EXPONENTIALS, g);
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < count; first += EXPONENTIALS) {
        _Alignas(64) float part[EXPONENTIALS];
        const size_t block = at_most(count - first, EXPONENTIALS);
        float *const to = streamed ? part : g + first;
        ask_for(EXPONENTIALS, u + first + AHEAD);
        ask_for(EXPONENTIALS, dg + first + AHEAD);
        if (!streamed) ask_to_write(EXPONENTIALS, g + first + AHEAD);
        if (block == EXPONENTIALS)
            gelu_backward_block(EXPONENTIALS, u + first, dg + first, to, du + first);
        else
            gelu_backward_block(block, u + first, dg + first, to, du + first);
        if (streamed) stream(block, g + first, part);
    }
    stream_end();
#pragma omp barrier
}

/* One Philox counter gives 4 numbers; GROUP counters are computed side by side. */
enum { GROUP = 16 };

/* numbers[4 GROUP]: those of the counters first .. first + GROUP - 1. */
static void random_group(const struct random *key, uint64_t first, float width, float *numbers)
{
    uint32_t a[GROUP], b[GROUP], c[GROUP], d[GROUP]; /* the four words of each counter */
    for (size_t i = 0; i < GROUP; i++) {
        a[i] = (uint32_t)(first + i);
        b[i] = (uint32_t)((first + i) >> 32) | key->purpose << 16;
        c[i] = key->layer;
        d[i] = key->step;
    }
    for (int round = 0; round < PL_PHILOX_ROUNDS; round++) {
        const uint32_t key0 = pl_philox_key0(key->seed, round), key1 = pl_philox_key1(key->seed, round);
        for (size_t i = 0; i < GROUP; i++) pl_philox_round(&a[i], &b[i], &c[i], &d[i], key0, key1);
    }
    const float centre = key->centre;
    for (size_t i = 0; i < GROUP; i++) {
        numbers[4 * i] = pl_fma(width, pl_uniform(a[i]), centre);
        numbers[4 * i + 1] = pl_fma(width, pl_uniform(b[i]), centre);
        numbers[4 * i + 2] = pl_fma(width, pl_uniform(c[i]), centre);
        numbers[4 * i + 3] = pl_fma(width, pl_uniform(d[i]), centre);
    }
}

void KERNEL(random)(const struct random *key, size_t count, float *x)
{
    const float width = pl_uniform_width(key->deviation);
    const size_t skipped = key->first_index % 4; /* numbers of the first counter that are not wanted */
    const size_t whole = count + skipped;
#pragma omp for schedule(static)
    for (size_t first = 0; first < whole; first += 4 * GROUP) {
        float numbers[4 * GROUP];
        random_group(key, key->first_index / 4 + first / 4, width, numbers);
        const size_t end = at_most(whole - first, 4 * GROUP);
        for (size_t i = first ? 0 : skipped; i < end; i++) x[first + i - skipped] = numbers[i];
    }
}
