/* Kernels in which each element is on its own. A thread has four elements that follow one another, which it
   reads and writes at once where they lie at multiples of 16 bytes. */
#include "device/arithmetic.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"
#include <assert.h>
#include <limits.h>

enum { THREADS = 256, QUAD = 4 };

/* The elements of this thread: first .. first + number - 1; whole: four, that may be read at once. */
struct mine {
    size_t first;
    unsigned number;
    bool whole;
};

__device__ static inline struct mine mine(size_t count, bool aligned)
{
    struct mine m;
    m.first = ((size_t)blockIdx.x * THREADS + threadIdx.x) * QUAD;
    const size_t left = m.first < count ? count - m.first : 0;
    m.number = left < QUAD ? (unsigned)left : (unsigned)QUAD;
    m.whole = aligned && m.number == QUAD;
    return m;
}

__device__ static inline void read(float v[QUAD], const float *x, const struct mine &m)
{
    if (m.whole) {
        const float4 four = *(const float4 *)(x + m.first);
        v[0] = four.x, v[1] = four.y, v[2] = four.z, v[3] = four.w;
    } else {
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++) v[k] = k < m.number ? x[m.first + k] : 0.0f;
    }
}

__device__ static inline void write(float *x, const float v[QUAD], const struct mine &m)
{
    if (m.whole) {
        *(float4 *)(x + m.first) = make_float4(v[0], v[1], v[2], v[3]);
    } else {
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++)
            if (k < m.number) x[m.first + k] = v[k];
    }
}

static __global__ void __launch_bounds__(THREADS)
    gelu_forward(size_t count, bool aligned, const float *__restrict__ u, float *__restrict__ g)
{
    const struct mine m = mine(count, aligned);
    float v[QUAD];
    read(v, u, m);
#pragma unroll
    for (unsigned k = 0; k < QUAD; k++) v[k] = pl_gelu(v[k], pl_gelu_exponential(v[k]));
    write(g, v, m);
}

/* du may be dg. */
static __global__ void __launch_bounds__(THREADS)
    gelu_backward(size_t count, bool aligned, const float *u, const float *dg, float *g, float *du)
{
    const struct mine m = mine(count, aligned);
    float v[QUAD], d[QUAD], made[QUAD];
    read(v, u, m);
    read(d, dg, m);
#pragma unroll
    for (unsigned k = 0; k < QUAD; k++) {
        const float e = pl_gelu_exponential(v[k]);
        made[k] = pl_gelu(v[k], e);
        d[k] = d[k] * pl_gelu_derivative(v[k], e);
    }
    write(g, made, m);
    write(du, d, m);
}

/* A thread has one counter's four numbers, of which the first has index 4 * counter: `skipped` of the first
   thread's are not wanted. */
static __global__ void __launch_bounds__(THREADS) random_numbers(
    size_t count, bool aligned, struct random key, unsigned skipped, float width, float *__restrict__ x)
{
    const size_t thread = (size_t)blockIdx.x * THREADS + threadIdx.x, first = thread * QUAD;
    const uint64_t block = key.first_index / QUAD + thread;
    uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32) | key.purpose << 16, c = key.layer,
             d = key.step;
#pragma unroll
    for (int round = 0; round < PL_PHILOX_ROUNDS; round++)
        pl_philox_round(&a, &b, &c, &d, pl_philox_key0(key.seed, round), pl_philox_key1(key.seed, round));
    const float v[QUAD] = { pl_fma(width, pl_uniform(a), key.centre),
        pl_fma(width, pl_uniform(b), key.centre), pl_fma(width, pl_uniform(c), key.centre),
        pl_fma(width, pl_uniform(d), key.centre) };
    if (aligned && first + QUAD <= count) { /* skipped is 0 */
        *(float4 *)(x + first) = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (unsigned k = 0; k < QUAD; k++)
        if (first + k >= skipped && first + k < count + skipped) x[first + k - skipped] = v[k];
}

static __global__ void __launch_bounds__(THREADS) round_bf16(size_t count, bool aligned, float *x)
{
    const struct mine m = mine(count, aligned);
    float v[QUAD];
    read(v, x, m);
#pragma unroll
    for (unsigned k = 0; k < QUAD; k++) v[k] = pl_from_bf16(pl_to_bf16(v[k]));
    write(x, v, m);
}

static __global__ void __launch_bounds__(THREADS)
    to_bf16(size_t count, bool aligned, const float *__restrict__ x, uint16_t *__restrict__ y)
{
    const struct mine m = mine(count, aligned);
    float v[QUAD];
    read(v, x, m);
    if (m.whole) {
        *(ushort4 *)(y + m.first) =
            make_ushort4(pl_to_bf16(v[0]), pl_to_bf16(v[1]), pl_to_bf16(v[2]), pl_to_bf16(v[3]));
    } else {
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++)
            if (k < m.number) y[m.first + k] = pl_to_bf16(v[k]);
    }
}

static __global__ void __launch_bounds__(THREADS)
    from_bf16(size_t count, bool aligned, const uint16_t *__restrict__ x, float *__restrict__ y)
{
    const struct mine m = mine(count, aligned);
    float v[QUAD];
    if (m.whole) {
        const ushort4 four = *(const ushort4 *)(x + m.first);
        v[0] = pl_from_bf16(four.x), v[1] = pl_from_bf16(four.y);
        v[2] = pl_from_bf16(four.z), v[3] = pl_from_bf16(four.w);
    } else {
#pragma unroll
        for (unsigned k = 0; k < QUAD; k++) v[k] = k < m.number ? pl_from_bf16(x[m.first + k]) : 0.0f;
    }
    write(y, v, m);
}

static __global__ void __launch_bounds__(32) flip_bit(float *x, uint64_t element, int bit)
{
    if (threadIdx.x == 0) x[element] = pl_float(pl_bits(x[element]) ^ 1u << bit);
}

/* The host reads the word while the device works. */
static __global__ void __launch_bounds__(32) store_word(int *word, int value)
{
    if (threadIdx.x != 0) return;
#if defined(__CUDACC__)
    *(volatile int *)word = value;
    __threadfence_system();
#else
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
#endif
}

static unsigned blocks(size_t count)
{
    const size_t needed = count / (THREADS * QUAD) + (count % (THREADS * QUAD) != 0);
    assert(needed <= INT_MAX);
    return (unsigned)needed;
}

static bool is_aligned(const void *memory, size_t bytes)
{
    return (uintptr_t)memory % bytes == 0;
}

void cuda_gelu_forward(cudaStream_t stream, size_t count, const float *u, float *g)
{
    const bool aligned = is_aligned(u, sizeof(float4)) && is_aligned(g, sizeof(float4));
    if (count == 0) return;
    LAUNCH(gelu_forward, blocks(count), THREADS, 0, stream, count, aligned, u, g);
    cuda_launched("gelu_forward");
}

void cuda_gelu_backward(
    cudaStream_t stream, size_t count, const float *u, const float *dg, float *g, float *du)
{
    const bool aligned = is_aligned(u, sizeof(float4)) && is_aligned(dg, sizeof(float4)) &&
                         is_aligned(g, sizeof(float4)) && is_aligned(du, sizeof(float4));
    if (count == 0) return;
    LAUNCH(gelu_backward, blocks(count), THREADS, 0, stream, count, aligned, u, dg, g, du);
    cuda_launched("gelu_backward");
}

void cuda_random(cudaStream_t stream, const struct random *key, size_t count, float *x)
{
    const unsigned skipped = (unsigned)(key->first_index % QUAD);
    const bool aligned = skipped == 0 && is_aligned(x, sizeof(float4));
    if (count == 0) return;
    LAUNCH(random_numbers, blocks(count + skipped), THREADS, 0, stream, count, aligned, *key, skipped,
        pl_uniform_width(key->deviation), x);
    cuda_launched("random");
}

void cuda_flip_bit(cudaStream_t stream, float *x, uint64_t element, int bit)
{
    LAUNCH(flip_bit, 1, 32, 0, stream, x, element, bit);
    cuda_launched("flip_bit");
}

void cuda_store_word(cudaStream_t stream, int *word, int value)
{
    LAUNCH(store_word, 1, 32, 0, stream, word, value);
    cuda_launched("store_word");
}

void cuda_round_bf16(cudaStream_t stream, size_t count, float *x)
{
    if (count == 0) return;
    LAUNCH(round_bf16, blocks(count), THREADS, 0, stream, count, is_aligned(x, sizeof(float4)), x);
    cuda_launched("round_bf16");
}

void cuda_to_bf16(cudaStream_t stream, size_t count, const float *x, uint16_t *y)
{
    const bool aligned = is_aligned(x, sizeof(float4)) && is_aligned(y, sizeof(ushort4));
    if (count == 0) return;
    LAUNCH(to_bf16, blocks(count), THREADS, 0, stream, count, aligned, x, y);
    cuda_launched("to_bf16");
}

void cuda_from_bf16(cudaStream_t stream, size_t count, const uint16_t *x, float *y)
{
    const bool aligned = is_aligned(x, sizeof(ushort4)) && is_aligned(y, sizeof(float4));
    if (count == 0) return;
    LAUNCH(from_bf16, blocks(count), THREADS, 0, stream, count, aligned, x, y);
    cuda_launched("from_bf16");
}
