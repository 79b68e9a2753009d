/* The softmax of vendor attention, which stands between matrix products: rows of scores to probabilities, and
   back. Sums follow the 32-lane rule. Keys after the query are passed over and become 0. */
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"

/* A row of scores: one query of one head. */
struct score_row {
    size_t at;    /* its first element in the scores */
    size_t saved; /* its place in maximum, inverse and row_dot */
    size_t known; /* keys up to the query itself */
};

__device__ static inline struct score_row score_row_of(
    size_t row, size_t sequence, size_t first, size_t queries, size_t keys)
{
    const size_t head = row / queries, query = first + row % queries;
    struct score_row r;
    r.at = row * keys;
    r.saved = head * sequence + query;
    r.known = query < keys ? query + 1 : keys;
    return r;
}

/* Element `at` of what products read. */
__device__ static inline void write(void *operand, size_t at, float value, bool half)
{
    if (half)
        ((uint16_t *)operand)[at] = pl_to_bf16(value);
    else
        ((float *)operand)[at] = value;
}

/* The largest of a warp's numbers, none of which is a NaN. */
__device__ static inline float lane_maximum(float x)
{
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
        x = pl_max(__shfl_xor_sync(0xffffffffu, x, distance), x);
    return x;
}

/* n rows. Shared memory: the scaled scores, then exp(score - maximum). */
template <int WARPS, bool HELD>
static __global__ void __launch_bounds__(ROW_THREADS) softmax(size_t n, size_t sequence, size_t first,
    size_t queries, size_t keys, float scale, const float *__restrict__ scores, void *__restrict__ p,
    bool half, float *__restrict__ maximum, float *__restrict__ inverse)
{
    DYNAMIC_SHARED(float, shared);
    typedef row_place<WARPS> place;
    if (place::row() >= n) return; /* a whole warp */
    const struct score_row row = score_row_of(place::row(), sequence, first, queries, keys);
    const unsigned t = place::thread();
    float *facts = place::facts(shared), *held = place::held(shared, keys);

    /* A NaN score is passed over here; it reaches the row through the denominator. */
    const auto scaled = [=](size_t j) { return scores[row.at + j] * scale; };
    float m = -INFINITY;
    each_element<place::STEP>(t, row.known, scaled, [&](size_t j, float s) {
        m = pl_max(s, m);
        if (HELD) held[j] = s;
    });
    m = lane_maximum(m);
    if (t % 32 == 0) facts[t / 32] = m;
    place::join();
    for (int w = 0; w < WARPS; w++) m = pl_max(facts[w], m);
    m += 0.0f; /* -0 becomes +0: the maximum does not depend on the order it is taken in */

    const auto exponential = [=](size_t j) {
        return pl_softmax_exponential((HELD ? held[j] : scaled(j)) - m);
    };
    if (HELD) {
        each_element<place::STEP>(t, row.known, exponential, [=](size_t j, float e) { held[j] = e; });
        place::join();
    }
    const auto kept = [=](size_t j) { return HELD ? held[j] : exponential(j); };
    if (t < 32) {
        float sum = 0.0f;
        each_element<32>(t, row.known, kept, [&](size_t, float e) { sum += e; });
        sum = lane_sum(sum);
        if (t == 0) {
            facts[ROW_WARPS] = inverse[row.saved] = 1.0f / sum;
            maximum[row.saved] = m;
        }
    }
    place::join();
    const float factor = facts[ROW_WARPS];
    each_element<place::STEP>(
        t, keys, [=](size_t j) { return j < row.known ? kept(j) * factor : 0.0f; },
        [=](size_t j, float v) { write(p, row.at + j, v, half); });
}

/* Each element on its own: P again, and dS, which is made of P before it is rounded. */
template <int WARPS>
static __global__ void __launch_bounds__(ROW_THREADS) softmax_backward(size_t n, size_t sequence,
    size_t first, size_t queries, size_t keys, float scale, const float *__restrict__ scores,
    const float *__restrict__ dp, const float *__restrict__ maximum, const float *__restrict__ inverse,
    const float *__restrict__ row_dot, void *__restrict__ p, void *__restrict__ ds, bool half)
{
    typedef row_place<WARPS> place;
    if (place::row() >= n) return;
    const struct score_row row = score_row_of(place::row(), sequence, first, queries, keys);
    const float m = maximum[row.saved], factor = inverse[row.saved], dot = row_dot[row.saved];
    struct element {
        float score, dp;
    };
    each_element<place::STEP>(
        place::thread(), keys,
        [=](size_t j) {
            return j < row.known ? element{ scores[row.at + j], dp[row.at + j] } : element{ 0.0f, 0.0f };
        },
        [=](size_t j, element e) {
            const float probability = pl_softmax_exponential(e.score * scale - m) * factor;
            const float gradient = probability * (e.dp - dot) * scale;
            write(p, row.at + j, j < row.known ? probability : 0.0f, half);
            write(ds, row.at + j, j < row.known ? gradient : 0.0f, half);
        });
}

void cuda_softmax_rows(cudaStream_t stream, size_t heads, size_t sequence, size_t first, size_t queries,
    size_t keys, float scale, const float *scores, void *p, bool half, float *maximum, float *inverse)
{
    const size_t n = heads * queries;
    LAUNCH_ROWS(softmax, stream, n, keys, keys, n, sequence, first, queries, keys, scale, scores, p, half,
        maximum, inverse);
}

void cuda_softmax_rows_backward(cudaStream_t stream, size_t heads, size_t sequence, size_t first,
    size_t queries, size_t keys, float scale, const float *scores, const float *dp, const float *maximum,
    const float *inverse, const float *row_dot, void *p, void *ds, bool half)
{
    const size_t n = heads * queries;
    if (n == 0) return;
    if (keys <= SHORT_ROW)
        LAUNCH(softmax_backward<1>, row_blocks(n, ROW_WARPS), ROW_THREADS, 0, stream, n, sequence, first,
            queries, keys, scale, scores, dp, maximum, inverse, row_dot, p, ds, half);
    else
        LAUNCH(softmax_backward<ROW_WARPS>, row_blocks(n, 1), ROW_THREADS, 0, stream, n, sequence, first,
            queries, keys, scale, scores, dp, maximum, inverse, row_dot, p, ds, half);
    cuda_launched("softmax_backward");
}
