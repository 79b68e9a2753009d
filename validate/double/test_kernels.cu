/* How the double runs kernels: every thread once, barriers and warp functions as CUDA defines them, shared
   memory full of NaNs, and what no GPU would do is refused or ends the program. */
#include "test_child.h"
#include <cmath>
#include <vector>

static cudaStream_t stream()
{
    static cudaStream_t it;
    if (!it) cudaStreamCreateWithFlags(&it, cudaStreamNonBlocking);
    return it;
}

template <class T> static T *device_memory(size_t count)
{
    T *memory = nullptr;
    CHECK(cudaMalloc((void **)&memory, count * sizeof(T)) == cudaSuccess, "%zu elements", count);
    return memory;
}

template <class T> static std::vector<T> take(T *memory, size_t count)
{
    std::vector<T> host(count);
    CHECK(cudaMemcpyAsync(host.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost, stream()) ==
              cudaSuccess,
        "copy of %zu", count);
    CHECK(cudaFree(memory) == cudaSuccess, "free");
    return host;
}

/* ---- each thread of each block runs once ---- */
__global__ void count_visits(unsigned *visits)
{
    const size_t block = blockIdx.x + (size_t)gridDim.x * (blockIdx.y + (size_t)gridDim.y * blockIdx.z);
    const size_t thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    visits[block * blockDim.x * blockDim.y * blockDim.z + thread] += 1;
}

static void threads_run_once(dim3 grid, dim3 block)
{
    const size_t n = (size_t)grid.x * grid.y * grid.z * block.x * block.y * block.z;
    unsigned *visits = device_memory<unsigned>(n);
    cudaMemsetAsync(visits, 0, n * sizeof *visits, stream());
    LAUNCH(count_visits, grid, block, 0, stream(), visits);
    const std::vector<unsigned> host = take(visits, n);
    size_t once = 0;
    for (unsigned v : host) once += v == 1;
    CHECK(once == n, "%zu of %zu threads ran once", once, n);
}

/* ---- barriers ---- */
template <int N> __global__ void reverse_static(const float *x, float *y)
{
    __shared__ float part[N];
    part[threadIdx.x] = x[blockIdx.x * N + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * N + threadIdx.x] = part[N - 1 - threadIdx.x];
    __syncthreads();
    part[threadIdx.x] = 2 * y[blockIdx.x * N + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * N + threadIdx.x] += part[N - 1 - threadIdx.x];
}

static __global__ void reverse_dynamic(const float *x, float *y)
{
    DYNAMIC_SHARED(float, part);
    const unsigned n = blockDim.x, at = blockIdx.x * n;
    for (int turn = 0; turn < 3; turn++) {
        part[threadIdx.x] = (turn ? y : x)[at + threadIdx.x];
        __syncthreads();
        y[at + threadIdx.x] = part[n - 1 - threadIdx.x];
        __syncthreads();
    }
}

/* Threads past the first `stay` end before the barrier: they are not waited for. */
__global__ void some_end_early(unsigned stay, float *y)
{
    __shared__ float part[256];
    if (threadIdx.x >= stay) return;
    part[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = part[stay - 1 - threadIdx.x];
}

static void barriers_hold()
{
    const int blocks = 5, n = 256;
    float *x = device_memory<float>(blocks * n), *y = device_memory<float>(blocks * n),
          *z = device_memory<float>(blocks * n);
    std::vector<float> host(blocks * n);
    for (int i = 0; i < blocks * n; i++) host[i] = (float)i;
    cudaMemcpyAsync(x, host.data(), blocks * n * sizeof *x, cudaMemcpyHostToDevice, stream());
    LAUNCH(reverse_static<256>, blocks, n, 0, stream(), x, y);
    LAUNCH(reverse_dynamic, blocks, n, n * sizeof(float), stream(), x, z);
    const std::vector<float> by_static = take(y, blocks * n), by_dynamic = take(z, blocks * n);
    cudaFree(x);
    for (int i = 0; i < blocks * n; i++) {
        const int reversed = i / n * n + n - 1 - i % n;
        CHECK(by_static[i] == (float)(reversed + 2 * i), "element %d: %g", i, by_static[i]);
        CHECK(by_dynamic[i] == (float)reversed, "element %d: %g", i, by_dynamic[i]);
    }
    for (unsigned stay : { 1u, 31u, 32u, 100u, 256u }) {
        float *w = device_memory<float>(256);
        LAUNCH(some_end_early, 1, 256, 0, stream(), stay, w);
        const std::vector<float> left = take(w, 256);
        for (unsigned i = 0; i < 256; i++)
            CHECK(i < stay ? left[i] == (float)(stay - 1 - i) : std::isnan(left[i]), "%u of %u: %g", i, stay,
                left[i]);
    }
}

/* ---- warp functions: what each lane must get, by the CUDA C++ programming guide ---- */
__global__ void warp_functions(unsigned *y, double *z)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = 100 * warp + lane;
    unsigned *out = y + threadIdx.x * 8;
    out[0] = __shfl_xor_sync(0xffffffffu, mine, 5);
    out[1] = __shfl_down_sync(0xffffffffu, mine, 3);
    out[2] = __shfl_up_sync(0xffffffffu, mine, 4);
    out[3] = __shfl_sync(0xffffffffu, mine, 7);
    out[4] = __shfl_down_sync(0xffffffffu, mine, 3, 8);
    out[5] = __shfl_sync(0xffffffffu, mine, 9, 8);
    out[6] = __ballot_sync(0xffffffffu, lane % 3 == warp);
    out[7] = (unsigned)(__any_sync(0xffffffffu, lane == 31) + 2 * __all_sync(0xffffffffu, lane < 31));
    double sum = 0.5 + lane;
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    __syncwarp();
    z[threadIdx.x] = sum;
}

static void warps_exchange()
{
    unsigned *y = device_memory<unsigned>(96 * 8);
    double *z = device_memory<double>(96);
    LAUNCH(warp_functions, 1, 96, 0, stream(), y, z);
    const std::vector<unsigned> got = take(y, 96 * 8);
    const std::vector<double> sums = take(z, 96);
    for (unsigned t = 0; t < 96; t++) {
        const unsigned lane = t % 32, warp = t / 32, base = 100 * warp, *out = &got[t * 8];
        unsigned ballot = 0;
        for (unsigned l = 0; l < 32; l++) ballot |= (unsigned)(l % 3 == warp) << l;
        CHECK(out[0] == base + (lane ^ 5), "xor, thread %u: %u", t, out[0]);
        CHECK(out[1] == base + (lane < 29 ? lane + 3 : lane), "down, thread %u: %u", t, out[1]);
        CHECK(out[2] == base + (lane >= 4 ? lane - 4 : lane), "up, thread %u: %u", t, out[2]);
        CHECK(out[3] == base + 7, "from lane 7, thread %u: %u", t, out[3]);
        CHECK(out[4] == base + (lane % 8 < 5 ? lane + 3 : lane), "down of 8, thread %u: %u", t, out[4]);
        CHECK(out[5] == base + lane / 8 * 8 + 1, "lane 9 of 8, thread %u: %u", t, out[5]);
        CHECK(out[6] == ballot, "ballot, thread %u: %x", t, out[6]);
        CHECK(out[7] == 1, "any and all, thread %u: %u", t, out[7]);
        CHECK(sums[t] == 16 + 31 * 16, "sum, thread %u: %g", t, sums[t]);
    }
}

/* ---- what memory holds before it is written ---- */
static __device__ float shared_of_a_function(bool write)
{
    __shared__ float inner[32];
    const float found = inner[threadIdx.x % 32];
    if (write) inner[threadIdx.x % 32] = 1.0f;
    return found;
}

template <class T> __global__ void read_unwritten(T *y)
{
    __shared__ T part[64];
    __shared__ __align__(16) float4 vectors[16];
    DYNAMIC_SHARED(T, pool);
    T *out = y + (blockIdx.x * 64 + threadIdx.x) * 4;
    out[0] = part[threadIdx.x];
    out[1] = pool[threadIdx.x];
    out[2] = vectors[threadIdx.x % 16].w;
    __syncwarp();
    out[3] = shared_of_a_function(false);
    __syncthreads();
    part[threadIdx.x] = pool[threadIdx.x] = 1.0f;
    if (threadIdx.x < 16) vectors[threadIdx.x].w = 1.0f;
    shared_of_a_function(threadIdx.x < 32);
}

static void memory_starts_as_nan()
{
    for (int launch = 0; launch < 2; launch++) {
        float *y = device_memory<float>(3 * 256);
        LAUNCH(read_unwritten<float>, 3, 64, 64 * sizeof(float), stream(), y);
        const std::vector<float> got = take(y, 3 * 256);
        for (int i = 0; i < 3 * 256; i++)
            CHECK(std::isnan(got[i]), "shared memory %d of thread %d: %g", i % 4, i / 4, got[i]);
    }
    const std::vector<float> fresh = take(device_memory<float>(100), 100);
    for (float f : fresh) CHECK(std::isnan(f), "device memory: %g", f);
}

/* ---- integer atomics ---- */
__global__ void atomics(unsigned *sums, unsigned long long *most)
{
    __shared__ unsigned part;
    if (threadIdx.x == 0) part = 0;
    __syncthreads();
    atomicAdd(&part, threadIdx.x);
    atomicMax(most, (unsigned long long)blockIdx.x << 40 | threadIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) sums[blockIdx.x] = atomicExch(&part, 7u) + part;
}

static void atomics_add_up()
{
    unsigned *sums = device_memory<unsigned>(4);
    unsigned long long *most = device_memory<unsigned long long>(1);
    cudaMemsetAsync(most, 0, sizeof *most, stream());
    LAUNCH(atomics, 4, 100, 0, stream(), sums, most);
    const std::vector<unsigned> got = take(sums, 4);
    for (unsigned s : got) CHECK(s == 99 * 50 + 7, "%u", s);
    const unsigned long long top = take(most, 1)[0];
    CHECK(top == (3ull << 40 | 99), "%llx", top);
}

/* ---- launches that a GPU refuses, with the error it gives; and such as it takes ---- */
__global__ void much_static(float *y)
{
    __shared__ float part[10000];
    part[threadIdx.x] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x ^ 1];
}
__global__ void little(float *y)
{
    DYNAMIC_SHARED(float, part);
    part[threadIdx.x] = 1.0f;
    if (blockIdx.y == 0) y[threadIdx.x] = part[threadIdx.x];
}

static int launches()
{
    float *y = device_memory<float>(2000);
    const auto expect = [=](void (*kernel)(float *), dim3 grid, dim3 block, size_t shared,
                            cudaError_t error) {
        cudaMemsetAsync(y, 0, 2000 * sizeof *y, stream());
        LAUNCH(kernel, grid, block, shared, stream(), y);
        const cudaError_t got = cudaGetLastError();
        CHECK(got == error, "(%u,%u,%u) (%u,%u,%u) %zu: %s", grid.x, grid.y, grid.z, block.x, block.y,
            block.z, shared, cudaGetErrorName(got));
        float first = -1;
        cudaMemcpyAsync(&first, y, sizeof first, cudaMemcpyDeviceToHost, stream());
        CHECK(first == (error == cudaSuccess), "%g", first);
        CHECK(cudaGetLastError() == cudaSuccess, "the error is given once");
    };
    const cudaError_t shape = cudaErrorInvalidConfiguration, shared = cudaErrorInvalidValue;
    expect(little, 1, 1025, 8192, shape);
    expect(little, 1, dim3(32, 33), 8192, shape);
    expect(little, 1, dim3(1, 1, 65), 8192, shape);
    expect(little, 1, 0, 8192, shape);
    expect(little, 0, 32, 8192, shape);
    expect(little, dim3(1, 65536), 1, 8192, shape);
    expect(little, dim3(1, 1, 65536), 1, 8192, shape);
    expect(little, dim3(1, 65535), 1, 8192, cudaSuccess);
    expect(little, 1, 1024, 8192, cudaSuccess);
    expect(little, 1, 32, 48 << 10, cudaSuccess);
    expect(little, 1, 32, (48 << 10) + 1, shared);
    expect(much_static, 1, 32, 9152, cudaSuccess); /* 40000 + 9152 = 48 KiB */
    expect(much_static, 1, 32, 9153, shared);
    const cudaFuncAttribute dynamic = cudaFuncAttributeMaxDynamicSharedMemorySize;
    CHECK(cudaFuncSetAttribute(little, dynamic, (227 << 10) + 1) == cudaErrorInvalidValue,
        "more than there is");
    CHECK(cudaFuncSetAttribute(little, dynamic, 227 << 10) == cudaSuccess, "all there is");
    CHECK(cudaFuncSetAttribute(much_static, dynamic, (227 << 10) - 40000 + 1) == cudaErrorInvalidValue,
        "with static");
    CHECK(cudaFuncSetAttribute(much_static, dynamic, (227 << 10) - 40000) == cudaSuccess, "with static");
    cudaGetLastError();
    expect(little, 1, 32, 227 << 10, cudaSuccess);
    expect(much_static, 1, 32, (227 << 10) - 40000, cudaSuccess);
    expect(much_static, 1, 32, (227 << 10) - 40000 + 1, shared);

    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, much_static) == cudaSuccess, "attributes");
    CHECK(attributes.sharedSizeBytes == 40000, "%zu", attributes.sharedSizeBytes);
    int blocks = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)much_static, 128, 0);
    CHECK(blocks == 5, "%d", blocks); /* 228 KiB / (40000 + 1024) */
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (const void *)little, 1024, 0);
    CHECK(blocks == 2, "%d", blocks);
    cudaFree(y);
    return check_result();
}

/* ---- errors in kernels: each ends the program ---- */
__global__ void half_reach_the_barrier(float *y)
{
    float x = 1;
    if (threadIdx.x < 38)
        __syncthreads();
    else
        x = __shfl_xor_sync(0xffffffffu, x, 1);
    y[threadIdx.x] = x;
}
__global__ void two_barriers(float *y)
{
    if (threadIdx.x < 16)
        __syncthreads();
    else
        __syncthreads();
    y[threadIdx.x] = 1;
}
__global__ void lane_misses_shuffle(float *y)
{
    float x = 1;
    if (threadIdx.x != 5) x = __shfl_xor_sync(0xffffffffu, x, 1);
    __syncthreads();
    y[threadIdx.x] = x;
}
__global__ void part_of_a_warp(float *y)
{
    if (threadIdx.x < 16) y[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 1);
}
__global__ void past_dynamic(float *y)
{
    DYNAMIC_SHARED(float, part);
    part[threadIdx.x + 1] = 1;
    y[threadIdx.x] = 1;
}

static int run_wrong(void (*kernel)(float *))
{
    float *y = device_memory<float>(256);
    LAUNCH(kernel, 1, 128, 128 * sizeof(float), stream(), y);
    cudaStreamSynchronize(stream());
    return 0;
}

static int right()
{
    threads_run_once(1, 1);
    threads_run_once(dim3(3, 2, 4), dim3(5, 7, 2));
    threads_run_once(dim3(7, 1, 3), dim3(16, 16, 4));
    threads_run_once(1000, 33);
    barriers_hold();
    warps_exchange();
    memory_starts_as_nan();
    atomics_add_up();
    return check_result();
}

static const test_case cases[] = {
    { "right", right },
    { "launches", launches },
    { "half", [] { return run_wrong(half_reach_the_barrier); } },
    { "two", [] { return run_wrong(two_barriers); } },
    { "lane", [] { return run_wrong(lane_misses_shuffle); } },
    { "mask", [] { return run_wrong(part_of_a_warp); } },
    { "past", [] { return run_wrong(past_dynamic); } },
    { "host",
        [] {
            static float host_memory[256];
            LAUNCH(part_of_a_warp, 1, 32, 0, stream(), host_memory);
            return 0;
        } },
};

int main(int argc, char **argv)
{
    if (argc > 1) return run_named(cases, argv[1]);
    for (const char *order : { "eager", "lazy", "random:1", "random:2", "random:3" }) {
        const std::string environment = std::string("DOUBLE_ORDER=") + order;
        const outcome result = run_case(environment, "right");
        CHECK(result.code == 0, "%s: %s", order, result.text.c_str());
    }
    const outcome result = run_case("", "launches");
    CHECK(result.code == 0, "%s", result.text.c_str());
    CHECK(result.says("kernel 'little' is refused: 49153 bytes of dynamic and 0 of static shared memory"),
        "%s", result.text.c_str());
    for (const char *order : { "DOUBLE_ORDER=eager", "DOUBLE_ORDER=lazy" }) {
        CHECK_ENDS(order, "half", "a barrier or shuffle that not every thread reaches",
            " 38 wait at test_kernels.cu:", " 26 wait at test_kernels.cu:", "64 have ended");
        CHECK_ENDS(order, "two", "threads wait at different barriers");
        CHECK_ENDS(order, "lane", "not every thread reaches");
        CHECK_ENDS(order, "mask", "kernel 'part_of_a_warp', block (0, 0, 0) of 128 threads", "mask");
#if !defined(__SANITIZE_ADDRESS__) /* which is quicker to see it */
        CHECK_ENDS(order, "past", "past its dynamic shared memory");
#endif
        CHECK_ENDS(order, "host", "'part_of_a_warp': argument 1 points to memory that the GPU cannot reach");
    }
    return check_result();
}
