/* The portable product: fp32, each element of C one chain of fma along ascending k, whatever the tile. k is
   neither split nor padded: where the slice depth does not divide k, the first slice is the short one, so
   that all others are whole and read ahead without a question. The next slice travels from global memory in
   registers while the present one is computed with; two slices in shared memory make one barrier a slice
   enough. */
#include "device/cuda/gemm.h"
#include "device/cuda/gemm_tile.cuh"
#include "device/cuda/launch.h"
#include <assert.h>

/* So many tiles one below another are begun together: their blocks find each other's operands in the cache.
 */
static constexpr unsigned BAND = 16;

/* Where a thread's elements begin in C. */
struct gemm_place {
    size_t tile_row, tile_column; /* of the block's tile */
    int row, column;              /* of the thread, within it */
};

template <class T>
__device__ static __forceinline__ struct gemm_place gemm_thread_place(
    size_t m, size_t n, unsigned block, unsigned thread)
{
    const unsigned down = (unsigned)((m + T::ROWS - 1) / T::ROWS);
    const unsigned across = (unsigned)((n + T::COLUMNS - 1) / T::COLUMNS);
    const unsigned band = down < BAND ? down : BAND;
    const unsigned first = block / (band * across) * band, within = block % (band * across);
    const unsigned height = down - first < band ? down - first : band;
    return { (size_t)(first + within % height) * T::ROWS, (size_t)(within / height) * T::COLUMNS,
        thread_row<T>(thread), thread_column<T>(thread) };
}

/* The four elements at x, of which the first `count` exist. */
template <bool VECTOR>
__device__ static __forceinline__ void get_existing(const float *x, size_t count, float (&four)[4])
{
    if (VECTOR) {
        get_four(x, four);
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++) four[e] = (size_t)e < count ? x[e] : 0.0f;
    }
}

template <bool VECTOR>
__device__ static __forceinline__ void put_existing(float *x, size_t count, const float (&four)[4])
{
    if (VECTOR) {
        put_four(x, four);
    } else {
#pragma unroll
        for (int e = 0; e < 4; e++)
            if ((size_t)e < count) x[e] = four[e];
    }
}

/* x, of which the compiler does not know that it is x. So what follows from it is computed anew, not kept in
   registers through a loop that has better use for them. */
__device__ static __forceinline__ unsigned forgotten(unsigned x)
{
#if defined(__CUDACC__)
    asm volatile("" : "+r"(x));
#endif
    return x;
}

/* How the chains begin. */
template <class T, bool VECTOR>
__device__ static __forceinline__ void begin_sums(
    const struct gemm &g, struct gemm_place at, float (&sum)[T::ROW_QUADS * 4][T::COLUMN_QUADS][4])
{
#pragma unroll
    for (int i = 0; i < T::ROW_QUADS * 4; i++) {
        const size_t row = at.tile_row + at.row + i / 4 * T::ROW_STRIDE + i % 4;
#pragma unroll
        for (int q = 0; q < T::COLUMN_QUADS; q++) {
            const size_t column = at.tile_column + at.column + q * T::COLUMN_STRIDE;
#pragma unroll
            for (int e = 0; e < 4; e++) sum[i][q][e] = 0.0f;
            if (g.accumulate && row < g.m && column < g.n)
                get_existing<VECTOR>(&g.c[row * g.n + column], g.n - column, sum[i][q]);
        }
    }
}

/* What follows the chains. */
template <class T, bool VECTOR>
__device__ static __forceinline__ void finish_sums(
    const struct gemm &g, struct gemm_place at, float (&sum)[T::ROW_QUADS * 4][T::COLUMN_QUADS][4])
{
#pragma unroll
    for (int i = 0; i < T::ROW_QUADS * 4; i++) {
        const size_t row = at.tile_row + at.row + i / 4 * T::ROW_STRIDE + i % 4;
#pragma unroll
        for (int q = 0; q < T::COLUMN_QUADS; q++) {
            const size_t column = at.tile_column + at.column + q * T::COLUMN_STRIDE, left = g.n - column;
            float more[4];
            if (row >= g.m || column >= g.n) continue;
            if (g.bias) {
                get_existing<VECTOR>(&g.bias[column], left, more);
#pragma unroll
                for (int e = 0; e < 4; e++) sum[i][q][e] = sum[i][q][e] + more[e];
            }
            if (g.residual) {
                get_existing<VECTOR>(&g.residual[row * g.n + column], left, more);
#pragma unroll
                for (int e = 0; e < 4; e++) sum[i][q][e] = more[e] + sum[i][q][e];
            }
            put_existing<VECTOR>(&g.c[row * g.n + column], left, sum[i][q]);
        }
    }
}

template <class T, enum gemm_form FORM, bool VECTOR>
__global__ void __launch_bounds__(T::THREADS, T::RESIDENT) gemm_kernel(const struct gemm g)
{
    DYNAMIC_SHARED(float, shared); /* two slices, each A's [DEPTH][ROWS], then B's [DEPTH][COLUMNS] */
    const struct gemm_place at = gemm_thread_place<T>(g.m, g.n, blockIdx.x, threadIdx.x);
    float sum[T::ROW_QUADS * 4][T::COLUMN_QUADS][4];
    begin_sums<T, VECTOR>(g, at, sum);

    operand_slice<T::ROWS, T::DEPTH, T::THREADS, FORM != GEMM_TN, VECTOR> a;
    operand_slice<T::COLUMNS, T::DEPTH, T::THREADS, FORM == GEMM_NT, VECTOR> b;
    a.begin(g.a, FORM == GEMM_TN ? g.m : g.k, g.m, at.tile_row);
    b.begin(g.b, FORM == GEMM_NT ? g.k : g.n, g.n, at.tile_column);

    unsigned whole = (unsigned)((g.k - 1) / T::DEPTH); /* slices to come after the first */
    const int steps = (int)(g.k - (size_t)whole * T::DEPTH);
    a.load_short(steps);
    b.load_short(steps);
    a.store(shared);
    b.store(shared + T::DEPTH * T::ROWS);
    __syncthreads();
    if (whole > 0) {
        a.load();
        b.load();
    }
#pragma unroll 1
    for (int k = 0; k < steps; k++) multiply_step<T>(shared, k, at.row, at.column, sum);

    int offset = 0;
#pragma unroll 1
    for (; whole > 0; whole--) {
        offset = T::SLICE - offset; /* those who are not yet through the barrier still read the other slice */
        a.store(shared + offset);
        b.store(shared + offset + T::DEPTH * T::ROWS);
        __syncthreads();
        if (whole > 1) {
            a.load();
            b.load();
        }
#pragma unroll
        for (int k = 0; k < T::DEPTH; k++) multiply_step<T>(shared + offset, k, at.row, at.column, sum);
    }
    finish_sums<T, VECTOR>(
        g, gemm_thread_place<T>(g.m, g.n, forgotten(blockIdx.x), forgotten(threadIdx.x)), sum);
}

/* ROWS, COLUMNS, DEPTH, ROW_QUADS, COLUMN_QUADS, RESIDENT. Each keeps the unrolled loop over a slice near 600
   instructions, within the innermost instruction cache; a smaller tile takes deeper slices, as it has less to
   compute while the next slice travels. */
typedef tile_shape<128, 128, 8, 2, 2, 2> large_tile;
typedef tile_shape<64, 64, 16, 2, 1, 4> medium_tile;
typedef tile_shape<32, 32, 32, 1, 1, 8> small_tile;
typedef tile_shape<64, 64, 8, 2, 1, 3> any_tile;

/* share: of the FMA rate that the tile can reach with all SMs busy, by the ratio of its fmas to its reads of
   shared memory; only to choose by. */
#define TILE(name, shape, vector, share)                                                                     \
    {                                                                                                        \
        name, shape::ROWS, shape::COLUMNS, shape::THREADS, 2 * shape::SLICE * sizeof(float), vector, share,  \
        {                                                                                                    \
            gemm_kernel<shape, GEMM_NN, vector>, gemm_kernel<shape, GEMM_NT, vector>,                        \
                gemm_kernel<shape, GEMM_TN, vector>                                                          \
        }                                                                                                    \
    }
static const struct tile {
    const char *name;
    int rows, columns, threads;
    size_t shared_bytes;
    bool vector;
    double share;
    void (*kernel[3])(const struct gemm); /* by form */
} tiles[CUDA_GEMM_TILES] = {
    TILE("128x128", large_tile, true, 0.9),
    TILE("64x64", medium_tile, true, 0.7),
    TILE("32x32", small_tile, true, 0.4),
    TILE("64x64-any", any_tile, false, 0.5),
};

static int sm_count; /* of the device that cuda_gemm_prepare saw */

void cuda_gemm_prepare(void)
{
    int device;
    cudaError_t result = cudaGetDevice(&device);
    if (result == cudaSuccess)
        result = cudaDeviceGetAttribute(&sm_count, cudaDevAttrMultiProcessorCount, device);
    if (result != cudaSuccess) fail("the GPU's number of SMs is unknown: %s", cudaGetErrorString(result));
}

const char *cuda_gemm_tile_name(enum cuda_gemm_tile tile)
{
    return tiles[tile].name;
}

bool cuda_gemm_fits(enum cuda_gemm_tile tile, const struct gemm *gemm)
{
    const uintptr_t addresses = (uintptr_t)gemm->a | (uintptr_t)gemm->b | (uintptr_t)gemm->c |
                                (uintptr_t)gemm->bias | (uintptr_t)gemm->residual;
    const size_t rows = gemm->n | (gemm->form == GEMM_TN ? gemm->m : gemm->k);
    return !tiles[tile].vector || (addresses % 16 == 0 && rows % 4 == 0);
}

static size_t blocks(const struct tile *tile, const struct gemm *gemm)
{
    return ((gemm->m + tile->rows - 1) / tile->rows) * ((gemm->n + tile->columns - 1) / tile->columns);
}

void cuda_gemm_by(cudaStream_t stream, const struct gemm *gemm, enum cuda_gemm_tile tile)
{
    const struct tile *t = &tiles[tile];
    assert(gemm->m > 0 && gemm->n > 0 && gemm->k > 0 && gemm->k <= UINT32_MAX);
    assert(cuda_gemm_fits(tile, gemm) && blocks(t, gemm) <= INT32_MAX);
    LAUNCH(t->kernel[gemm->form], (unsigned)blocks(t, gemm), t->threads, t->shared_bytes, stream, *gemm);
    cuda_launched("gemm");
}

/* The tile with which the busiest SM is done first. */
void cuda_gemm(cudaStream_t stream, const struct gemm *gemm)
{
    assert(sm_count > 0);
    enum cuda_gemm_tile best = CUDA_GEMM_ANY;
    double least = INFINITY;
    for (int i = 0; i < CUDA_GEMM_TILES; i++) {
        const struct tile *t = &tiles[i];
        const size_t each = (blocks(t, gemm) + sm_count - 1) / sm_count;
        const double time = (double)each * t->rows * t->columns / t->share;
        if (cuda_gemm_fits((enum cuda_gemm_tile)i, gemm) && time < least) {
            best = (enum cuda_gemm_tile)i;
            least = time;
        }
    }
    cuda_gemm_by(stream, gemm, best);
}
