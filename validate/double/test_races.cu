/* Under ThreadSanitizer (this test is always built with it) a missing barrier, a missing wait for an event
   and a host that looks too early are reported even where the answer is right; correct programs are not. */
#include "test_child.h"
#include <vector>

#if !defined(__SANITIZE_THREAD__)
#error "build this test with -fsanitize=thread"
#endif

enum { N = 64 };

static cudaStream_t new_stream()
{
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    return stream;
}

static float *device_floats(size_t count)
{
    float *memory = nullptr;
    cudaMalloc((void **)&memory, count * sizeof *memory);
    cudaMemset(memory, 0, count * sizeof *memory);
    cudaDeviceSynchronize();
    return memory;
}

/* Neighbour's sums by way of shared memory, twice; without the second barrier the next turn may overwrite
   what a slower thread still reads. */
template <bool BARRIER> __global__ void neighbours(float *y)
{
    __shared__ float part[N];
    for (int turn = 0; turn < 3; turn++) {
        part[threadIdx.x] = y[blockIdx.x * N + threadIdx.x];
        __syncthreads();
        y[blockIdx.x * N + threadIdx.x] = part[threadIdx.x ^ 1];
        if (BARRIER) __syncthreads();
    }
}
enum { NEIGHBOUR_LINE = __LINE__ - 4 }; /* where part[] of another thread is read */

template <bool BARRIER> __global__ void dynamic_neighbours(float *y)
{
    DYNAMIC_SHARED(float, part);
    part[threadIdx.x] = y[blockIdx.x * N + threadIdx.x];
    if (BARRIER) __syncthreads();
    y[blockIdx.x * N + threadIdx.x] = part[N - 1 - threadIdx.x];
}

/* Lanes hand values over in shared memory. A shuffle orders no memory. */
template <bool SYNC> __global__ void within_a_warp(float *y)
{
    __shared__ float part[N];
    part[threadIdx.x] = (float)threadIdx.x;
    if (SYNC)
        __syncwarp();
    else
        __shfl_xor_sync(0xffffffffu, 1.0f, 1);
    y[blockIdx.x * N + threadIdx.x] = part[threadIdx.x ^ 1];
}

/* Every block writes element 0; by its first thread, or by another one each. */
__global__ void same_element(float *y, bool first)
{
    if (threadIdx.x == (first ? 0 : blockIdx.x)) y[0] = 1.0f;
}

__global__ void fill(float *y)
{
    y[blockIdx.x * N + threadIdx.x] = 1.0f;
}

/* The last block to end adds up what all wrote: a protocol of atomics and fences. */
template <bool FENCE> __global__ void last_block_sums(float *y, unsigned *ended, float *sum)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        y[blockIdx.x] = 1.0f;
        if (FENCE) __threadfence();
        last = atomicAdd(ended, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (!last || threadIdx.x != 0) return;
    if (FENCE) __threadfence();
    for (unsigned i = 0; i < gridDim.x; i++) *sum += y[i];
}

static int one_kernel(void (*kernel)(float *), unsigned grid)
{
    const cudaStream_t stream = new_stream();
    float *y = device_floats(grid * N);
    LAUNCH(kernel, grid, N, N * sizeof(float), stream, y);
    LAUNCH(kernel, grid, N, N * sizeof(float), stream, y);
    cudaStreamSynchronize(stream);
    return 0;
}

static int blocks(bool first)
{
    const cudaStream_t stream = new_stream();
    float *y = device_floats(N);
    LAUNCH(same_element, 5, N, 0, stream, y, first);
    cudaStreamSynchronize(stream);
    return 0;
}

/* A kernel, then a kernel or a copy on another stream. */
static int two_streams(bool wait, bool copy)
{
    const cudaStream_t one = new_stream(), two = new_stream();
    float *y = device_floats(N), *host = nullptr;
    cudaHostAlloc((void **)&host, N * sizeof *host, cudaHostAllocDefault);
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    LAUNCH(fill, 1, N, 0, one, y);
    cudaEventRecord(event, one);
    if (wait) cudaStreamWaitEvent(two, event, 0);
    if (copy)
        cudaMemcpyAsync(host, y, N * sizeof *y, cudaMemcpyDeviceToHost, two);
    else
        LAUNCH(neighbours<true>, 1, N, 0, two, y);
    cudaDeviceSynchronize();
    return 0;
}

/* The host reads what a copy wrote; it must wait for it. */
static int host_reads(bool wait)
{
    const cudaStream_t stream = new_stream();
    float *y = device_floats(N), *host = nullptr;
    cudaHostAlloc((void **)&host, N * sizeof *host, cudaHostAllocDefault);
    cudaEvent_t event;
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    cudaMemcpyAsync(host, y, N * sizeof *y, cudaMemcpyDeviceToHost, stream);
    cudaEventRecord(event, stream);
    if (wait) cudaEventSynchronize(event);
    printf("%g\n", (double)host[5]);
    cudaDeviceSynchronize();
    return 0;
}

/* The host changes the source of a copy; before it is enqueued, or after. */
static int host_writes(bool before)
{
    const cudaStream_t stream = new_stream();
    float *y = device_floats(N), *host = nullptr;
    cudaHostAlloc((void **)&host, N * sizeof *host, cudaHostAllocDefault);
    if (before) host[5] = 1.0f;
    cudaMemcpyAsync(y, host, N * sizeof *y, cudaMemcpyHostToDevice, stream);
    if (!before) host[5] = 1.0f;
    LAUNCH(fill, 1, N, 0, stream, y); /* a later enqueue does not excuse it */
    cudaDeviceSynchronize();
    return 0;
}

/* Streams that have nothing to do with each other, whose kernels use the same shared memory one after the
 * other. */
static int unrelated_streams()
{
    enum { STREAMS = 3 };
    cudaStream_t streams[STREAMS];
    float *y[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = new_stream();
        y[i] = device_floats(N);
    }
    for (int i = 0; i < STREAMS; i++) {
        LAUNCH(dynamic_neighbours<true>, 1, N, N * sizeof(float), streams[i], y[i]);
        LAUNCH(neighbours<true>, 1, N, 0, streams[i], y[i]);
    }
    cudaDeviceSynchronize();
    return 0;
}

static int memory_again()
{
    for (int i = 0; i < 10; i++) {
        const cudaStream_t stream = new_stream();
        float *y = nullptr;
        cudaMalloc((void **)&y, N * sizeof *y);
        LAUNCH(fill, 1, N, 0, stream, y);
        LAUNCH(neighbours<true>, 1, N, 0, stream, y);
        cudaStreamSynchronize(stream);
        cudaFree(y);
        cudaStreamDestroy(stream);
    }
    return 0;
}

template <bool FENCE> static int last_block()
{
    const cudaStream_t stream = new_stream();
    float *y = device_floats(64), *sum = device_floats(1), host = 0;
    unsigned *ended = (unsigned *)device_floats(1);
    LAUNCH(last_block_sums<FENCE>, 64, 32, 0, stream, y, ended, sum);
    cudaMemcpyAsync(&host, sum, sizeof host, cudaMemcpyDeviceToHost, stream);
    return host == 64.0f ? 0 : 9;
}

static const test_case cases[] = {
    { "barrier", [] { return one_kernel(neighbours<true>, 7); } },
    { "no_barrier", [] { return one_kernel(neighbours<false>, 1); } },
    { "dynamic", [] { return one_kernel(dynamic_neighbours<true>, 7); } },
    { "dynamic_no_barrier", [] { return one_kernel(dynamic_neighbours<false>, 1); } },
    { "syncwarp", [] { return one_kernel(within_a_warp<true>, 7); } },
    { "only_shuffle", [] { return one_kernel(within_a_warp<false>, 1); } },
    { "blocks_by_first", [] { return blocks(true); } },
    { "blocks_by_others", [] { return blocks(false); } },
    { "wait", [] { return two_streams(true, false); } },
    { "no_wait", [] { return two_streams(false, false); } },
    { "wait_copy", [] { return two_streams(true, true); } },
    { "no_wait_copy", [] { return two_streams(false, true); } },
    { "host_reads", [] { return host_reads(true); } },
    { "host_reads_early", [] { return host_reads(false); } },
    { "host_writes", [] { return host_writes(true); } },
    { "host_writes_late", [] { return host_writes(false); } },
    { "unrelated_streams", unrelated_streams },
    { "memory_again", memory_again },
    { "last_block", last_block<true> },
    { "last_block_no_fence", last_block<false> },
};

int main(int argc, char **argv)
{
    if (argc > 1) return run_named(cases, argv[1]);
    for (const char *order : { "DOUBLE_ORDER=eager", "DOUBLE_ORDER=lazy", "DOUBLE_ORDER=random:5" }) {
        for (const char *right : { "barrier", "dynamic", "syncwarp", "wait", "wait_copy", "host_reads",
                 "host_writes", "unrelated_streams", "memory_again", "last_block" }) {
            const outcome it = run_case(order, right);
            CHECK(it.code == 0 && !it.says("data race"), "%s %s: %s", order, right, it.text.c_str());
        }
        for (const char *wrong :
            { "no_barrier", "dynamic_no_barrier", "only_shuffle", "blocks_by_first", "blocks_by_others",
                "no_wait", "no_wait_copy", "host_reads_early", "host_writes_late", "last_block_no_fence" }) {
            const outcome it = run_case(order, wrong);
            CHECK(
                it.code == 66 && it.says("data race"), "%s %s: no report: %s", order, wrong, it.text.c_str());
            CHECK(!it.says("grid.cpp:") || it.says("test_races.cu:"), "%s %s: a report of the double itself",
                order, wrong);
        }
        CHECK(run_case(order, "no_barrier").says("part"), "the report names the variable");
        const std::string line = "test_races.cu:" + std::to_string(NEIGHBOUR_LINE);
        CHECK(run_case(order, "no_barrier").says(line.c_str()), "the report names %s", line.c_str());
        CHECK(run_case(order, "no_wait").says("stream 1"), "%s: the report names the stream", order);
    }
    return check_result();
}
