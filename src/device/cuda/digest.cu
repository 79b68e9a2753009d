/* The fingerprint of a tensor, in one pass: integer sums and a maximum, whose order does not matter. Blocks
   leave partial digests; one block combines them. Per element the work is kept to what the sums need: at
   memory rate an SM has some 25 instructions for each. */
#include "device/arithmetic.h"
#include "device/cuda/kernels.h"
#include "device/cuda/launch.h"

enum { THREADS = 256, WARPS = THREADS / 32, QUADS = 4 /* loads of 16 bytes under way in a thread */ };

/* Sums of a thread. Of the digest's second sum, over bits * (2 mix + 1), only bits * mix is summed: the rest
   is the first sum. */
struct part {
    uint64_t sum, product, nan;
    uint32_t
        largest; /* bits of the largest magnitude: for numbers >= 0 they are ordered as the numbers are */
};

__device__ static inline void add_bits(struct part *part, uint32_t bits, uint32_t index_word)
{
    part->sum += bits;
    part->product += (uint64_t)bits * pl_mix_word(index_word);
}

/* Any element. */
__device__ static inline void add_element(struct part *part, float x, uint64_t index)
{
    const uint32_t bits = pl_canonical_bits(x), magnitude = bits & 0x7fffffffu;
    const bool nan = magnitude > 0x7f800000u;
    add_bits(part, bits, pl_index_word(index));
    part->nan += nan;
    part->largest = !nan && magnitude > part->largest ? magnitude : part->largest;
}

__device__ static inline uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Four elements. Nearly always there is no NaN among them, and their indices have one upper half, so that
   their index words follow one another. */
__device__ static inline void add_quad(struct part *part, float4 x, uint64_t index)
{
    const uint32_t a = pl_bits(x.x), b = pl_bits(x.y), c = pl_bits(x.z), d = pl_bits(x.w);
    const uint32_t largest =
        larger(larger(a & 0x7fffffffu, b & 0x7fffffffu), larger(c & 0x7fffffffu, d & 0x7fffffffu));
    if (largest > 0x7f800000u || (uint32_t)index > 0xfffffffcu) {
        add_element(part, x.x, index);
        add_element(part, x.y, index + 1);
        add_element(part, x.z, index + 2);
        add_element(part, x.w, index + 3);
        return;
    }
    const uint32_t word = pl_index_word(index);
    add_bits(part, a, word);
    add_bits(part, b, word + 1);
    add_bits(part, c, word + 2);
    add_bits(part, d, word + 3);
    part->largest = larger(part->largest, largest);
}

__device__ static inline uint64_t from_lane(uint64_t x, int distance)
{
    const uint32_t low = __shfl_xor_sync(0xffffffffu, (uint32_t)x, distance);
    const uint32_t high = __shfl_xor_sync(0xffffffffu, (uint32_t)(x >> 32), distance);
    return (uint64_t)high << 32 | low;
}

__device__ static inline void add_digest(struct digest *sum, const struct digest &d)
{
    sum->sum += d.sum;
    sum->weighted += d.weighted;
    sum->nan += d.nan;
    sum->absmax = pl_max(d.absmax, sum->absmax);
}

/* The sum of all threads' digests: thread 0 writes it. of_warp: shared memory. */
__device__ static inline void write_block(
    struct digest d, struct digest of_warp[WARPS], struct digest *result)
{
    for (int distance = 16; distance > 0; distance /= 2) {
        const struct digest other = { from_lane(d.sum, distance), from_lane(d.weighted, distance),
            from_lane(d.nan, distance), __shfl_xor_sync(0xffffffffu, d.absmax, distance), 0 };
        add_digest(&d, other);
    }
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = d;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (int w = 1; w < WARPS; w++) add_digest(&d, of_warp[w]);
    *result = d;
}

/* `head` elements come before the first at a multiple of 16 bytes; they and those past the last whole quad
   are the first threads'. */
static __global__ void __launch_bounds__(THREADS) digest_parts(
    size_t count, const float *__restrict__ x, uint64_t first_index, unsigned head, struct digest *partial)
{
    __shared__ struct digest of_warp[WARPS];
    const size_t thread = (size_t)blockIdx.x * THREADS + threadIdx.x, threads = (size_t)gridDim.x * THREADS;
    const size_t quads = (count - head) / 4, rest = head + 4 * quads;
    const float4 *quad = (const float4 *)(x + head);
    const uint64_t quad_index = first_index + head;
    struct part part = { 0, 0, 0, 0 };
    size_t q = thread;
    for (; q + (QUADS - 1) * threads < quads; q += QUADS * threads) {
        float4 value[QUADS];
#pragma unroll
        for (unsigned k = 0; k < QUADS; k++) value[k] = quad[q + k * threads];
#pragma unroll
        for (unsigned k = 0; k < QUADS; k++) add_quad(&part, value[k], quad_index + 4 * (q + k * threads));
    }
    for (; q < quads; q += threads) add_quad(&part, quad[q], quad_index + 4 * q);
    if (thread < head) add_element(&part, x[thread], first_index + thread);
    if (rest + thread < count) add_element(&part, x[rest + thread], first_index + rest + thread);
    const struct digest d = { part.sum, 2 * part.product + part.sum, part.nan, pl_float(part.largest), 0 };
    write_block(d, of_warp, partial + blockIdx.x);
}

static __global__ void __launch_bounds__(THREADS)
    digest_whole(unsigned parts, const struct digest *__restrict__ partial, struct digest *result)
{
    __shared__ struct digest of_warp[WARPS];
    struct digest sum = { 0, 0, 0, 0.0f, 0 };
    for (unsigned p = threadIdx.x; p < parts; p += THREADS) add_digest(&sum, partial[p]);
    write_block(sum, of_warp, result);
}

void cuda_digest(cudaStream_t stream, size_t count, const float *x, uint64_t first_index,
    struct digest *partial, struct digest *result)
{
    const size_t past = (uintptr_t)x % 16 / 4, whole = past ? 4 - past : 0;
    const unsigned head = (unsigned)(whole < count ? whole : count);
    const size_t wanted = count / (4 * THREADS) + 1;
    const unsigned parts = wanted < CUDA_DIGEST_PARTS ? (unsigned)wanted : (unsigned)CUDA_DIGEST_PARTS;
    LAUNCH(digest_parts, parts, THREADS, 0, stream, count, x, first_index, head, partial);
    cuda_launched("digest_parts");
    LAUNCH(digest_whole, 1, THREADS, 0, stream, parts, partial, result);
    cuda_launched("digest_whole");
}
