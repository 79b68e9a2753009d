/* Under AddressSanitizer (this test is always built with it) what a kernel or a copy does outside its arrays
   is reported: in device memory, static and dynamic shared memory. */
#include "test_child.h"

#if !defined(__SANITIZE_ADDRESS__)
#error "build this test with -fsanitize=address"
#endif

enum { N = 100 };

static __global__ void write_global(float *y, int at)
{
    if (threadIdx.x == 0) y[at] = 1.0f;
    __syncthreads();
}

template <int SIZE> static __global__ void write_static(float *y, int at)
{
    __shared__ float part[SIZE];
    part[threadIdx.x == 0 ? at : 0] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x];
}

static __global__ void write_dynamic(float *y, int at)
{
    DYNAMIC_SHARED(float, part);
    part[threadIdx.x == 0 ? at : 0] = 1.0f;
    __syncthreads();
    y[threadIdx.x] = part[threadIdx.x];
}

static int write_at(void (*kernel)(float *, int), int at)
{
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    float *y = nullptr;
    cudaMalloc((void **)&y, N * sizeof *y);
    LAUNCH(kernel, 3, N, N * sizeof(float), stream, y, at);
    cudaStreamSynchronize(stream);
    cudaFree(y);
    cudaStreamDestroy(stream);
    return 0;
}

static const test_case cases[] = {
    { "global", [] { return write_at(write_global, N - 1); } },
    { "global_past", [] { return write_at(write_global, N); } },
    { "global_before", [] { return write_at(write_global, -1); } },
    { "static", [] { return write_at(write_static<N>, N - 1); } },
    { "static_past", [] { return write_at(write_static<N>, N); } },
    { "dynamic", [] { return write_at(write_dynamic, N - 1); } },
    { "dynamic_past", [] { return write_at(write_dynamic, N); } },
};

int main(int argc, char **argv)
{
    if (argc > 1) return run_named(cases, argv[1]);
    for (const char *order : { "DOUBLE_ORDER=eager", "DOUBLE_ORDER=lazy" }) {
        for (const char *right : { "global", "static", "dynamic" }) {
            const outcome it = run_case(order, right);
            CHECK(it.code == 0, "%s %s: %s", order, right, it.text.c_str());
        }
        for (const char *wrong : { "global_past", "global_before", "static_past", "dynamic_past" }) {
            const outcome it = run_case(order, wrong);
            CHECK(it.code == 1 && it.says("AddressSanitizer") && it.says("test_bounds.cu:"), "%s %s: %d: %s",
                order, wrong, it.code, it.text.c_str());
        }
    }
    return check_result();
}
