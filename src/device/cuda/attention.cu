/* Causal attention whose every bit is that of definition_attention_forward and _backward. Sums are made in
   the one order that rule 4 gives; what is parallel is rows, keys and columns. Nothing of size sequence^2
   leaves the multiprocessor. */
#include "device/cuda/attention.h"
#include "device/cuda/attention_backward.cuh"
#include "device/cuda/attention_forward.cuh"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_device.h"
#include <assert.h>
#include <limits.h>

/* The kernels by the head size they are made for. A smaller head fits, with less speed. The wide ones, last,
   take any, and need least shared memory: they are also for GPUs that have not enough for the others. */
enum { FORWARD, BY_QUERIES, BY_KEYS, KERNELS };

struct variant {
    int columns;
    bool wide;
    struct {
        void (*kernel)(struct attention, struct shape);
        size_t shared; /* bytes a block */
        bool fits;     /* this GPU */
    } kernels[KERNELS];
};

#define VARIANT(columns, wide)                                                                               \
    {                                                                                                        \
        columns, wide,                                                                                       \
        {                                                                                                    \
            { forward_kernel<columns, wide>, forward_shared<columns, wide>(), false },                       \
                { by_queries_kernel<columns, wide>, by_queries_shared<columns, wide>(), false },             \
                { by_keys_kernel<columns, wide>, by_keys_shared<columns, wide>(), false },                   \
        }                                                                                                    \
    }
static struct variant variants[] = { VARIANT(32, false), VARIANT(64, false), VARIANT(96, false),
    VARIANT(128, false), VARIANT(WIDE_COLUMNS, true) };
enum { VARIANTS = sizeof variants / sizeof *variants };

void cuda_attention_prepare_for(size_t shared_bytes)
{
    for (int v = 0; v < VARIANTS; v++) {
        for (int k = 0; k < KERNELS; k++) {
            auto &it = variants[v].kernels[k];
            it.fits = it.shared + sizeof(struct work) <= shared_bytes;
            if (!it.fits) continue;
            CUDA_CALL(cudaFuncSetAttribute(
                (const void *)it.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)it.shared));
            /* as many blocks side by side as their registers allow */
            CUDA_CALL(cudaFuncSetAttribute((const void *)it.kernel,
                cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared));
        }
    }
}

void cuda_attention_prepare(void)
{
    int device, bytes;
    CUDA_CALL(cudaGetDevice(&device));
    CUDA_CALL(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    cuda_attention_prepare_for((size_t)bytes);
}

static void launch(cudaStream_t stream, const struct attention *a, int kernel, const char *name)
{
    if (a->batch == 0 || a->sequence == 0 || a->hidden == 0) return;
    const size_t size = a->hidden / a->heads;
    assert((uintptr_t)a->qkv % 16 == 0 && (uintptr_t)a->out % 16 == 0);
    assert(a->hidden % a->heads == 0 && a->sequence <= INT_MAX - TILE && size <= INT_MAX - WIDE_COLUMNS);
    int v = 0;
    while (v < VARIANTS - 1 && (size > (size_t)variants[v].columns || !variants[v].kernels[kernel].fits)) v++;
    const auto &chosen = variants[v].kernels[kernel];
    /* The wide kernels fit every GPU from compute capability 7.0 on. */
    assert(chosen.fits && "cuda_attention_prepare comes first");
    struct shape shape = {};
    shape.sequence = (int)a->sequence;
    shape.size = (int)size;
    shape.tiles = (shape.sequence + TILE - 1) / TILE;
    shape.slices = (shape.size + SLICE_COLUMNS - 1) / SLICE_COLUMNS;
    shape.chunks = variants[v].wide ? (shape.size + WIDE_COLUMNS - 1) / WIDE_COLUMNS : 1;
    shape.quads = size % 4 == 0; /* so is hidden */
    shape.scale = attention_scale(size);
    shape.qkv_stride = 3 * a->hidden;
    shape.out_stride = a->hidden;
    const size_t blocks = (size_t)shape.tiles * shape.chunks * a->heads * a->batch;
    assert(blocks <= INT_MAX);
    LAUNCH(chosen.kernel, (unsigned)blocks, THREADS, chosen.shared, stream, *a, shape);
    cuda_launched(name);
}

void cuda_attention_forward(cudaStream_t stream, const struct attention *attention)
{
    launch(stream, attention, FORWARD, "attention forward");
}

void cuda_attention_backward(cudaStream_t stream, const struct attention *attention)
{
    cuda_row_dot(stream, attention);
    launch(stream, attention, BY_QUERIES, "attention backward by queries");
    launch(stream, attention, BY_KEYS, "attention backward by keys");
}

/* A warp for each token and head; neighbours take the heads of one token, which lie side by side. */
enum { DOT_WARPS = 8 };

__global__ void __launch_bounds__(DOT_WARPS * 32) row_dot_kernel(struct attention a, size_t rows, size_t size)
{
    const size_t row = (size_t)blockIdx.x * DOT_WARPS + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (row >= rows) return;
    const float *out = a.out + row * size, *dout = a.dout + row * size;
    float sum = 0.0f;
    for (size_t c = lane; c < size; c += PL_LANES) sum += dout[c] * out[c];
#pragma unroll
    for (int width = PL_LANES / 2; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, width);
    const size_t token = row / a.heads, head = row % a.heads;
    const size_t batch = token / a.sequence, position = token % a.sequence;
    if (lane == 0) a.row_dot[(batch * a.heads + head) * a.sequence + position] = sum;
}

void cuda_row_dot(cudaStream_t stream, const struct attention *a)
{
    const size_t rows = a->batch * a->sequence * a->heads, blocks = (rows + DOT_WARPS - 1) / DOT_WARPS;
    if (rows == 0) return;
    assert(blocks <= INT_MAX);
    LAUNCH(row_dot_kernel, (unsigned)blocks, DOT_WARPS * 32, 0, stream, *a, rows, a->hidden / a->heads);
    cuda_launched("row dot");
}
