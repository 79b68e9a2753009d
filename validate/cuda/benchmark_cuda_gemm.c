/* How fast the portable product is: for square matrices, and for those of a layer, in the three forms; one
   line each:

       name value unit share

   The value is the median of five runs, by CUDA events; the share is of the rate of fused multiply-adds on
   registers alone, measured first. Names end in the form and in the tile. Argument: what sizes are divided
   by, for a machine that is no GPU (each stays a multiple of 4). */
#include "on_gpu.h"
#include "device/cuda/gemm.h"

enum { RUNS = 5 };
static cudaEvent_t begin, end;

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the seconds that `work` takes; once before, unmeasured. */
static double median_seconds(void (*work)(const void *what), const void *what)
{
    double seconds[RUNS];
    work(what);
    for (int run = 0; run < RUNS; run++) {
        float milliseconds;
        CUDA_CALL(cudaEventRecord(begin, gpu_stream()));
        work(what);
        CUDA_CALL(cudaEventRecord(end, gpu_stream()));
        CUDA_CALL(cudaEventSynchronize(end));
        CUDA_CALL(cudaEventElapsedTime(&milliseconds, begin, end));
        seconds[run] = 1e-3 * (double)milliseconds;
    }
    qsort(seconds, RUNS, sizeof *seconds, ascending);
    return seconds[RUNS / 2];
}

struct loop {
    int sms, fmas;
    float *sink;
};

static void run_loop(const void *what)
{
    const struct loop *loop = what;
    cuda_fma_loop(gpu_stream(), loop->sms, loop->fmas, loop->sink);
}

struct product {
    struct gemm gemm;
    int tile; /* CUDA_GEMM_TILES: as cuda_gemm chooses */
};

static void run_product(const void *what)
{
    const struct product *product = what;
    if (product->tile == CUDA_GEMM_TILES)
        cuda_gemm(gpu_stream(), &product->gemm);
    else
        cuda_gemm_by(gpu_stream(), &product->gemm, (enum cuda_gemm_tile)product->tile);
}

static double measure_peak(int divisor)
{
    struct loop loop = { .fmas = (1 << 20) / divisor };
    int device;
    CUDA_CALL(cudaGetDevice(&device));
    CUDA_CALL(cudaDeviceGetAttribute(&loop.sms, cudaDevAttrMultiProcessorCount, device));
    loop.sink = gpu_floats(NULL, 1);
    const size_t threads = cuda_fma_loop(gpu_stream(), loop.sms, loop.fmas, loop.sink);
    const double rate = 2.0 * loop.fmas * (double)threads / median_seconds(run_loop, &loop);
    float result;
    gpu_take(loop.sink, &result, 1);
    return rate;
}

/* Uniform numbers, as zeros would need less power and so run at a higher clock. */
static float *numbers(size_t count)
{
    const struct random key = { .seed = 1, .deviation = 1.0f };
    float *x;
    CUDA_CALL(cudaMalloc((void **)&x, count * sizeof *x));
    cuda_random(gpu_stream(), &key, count, x);
    return x;
}

static void measure(const char *name, size_t m, size_t n, size_t k, int tile, double peak)
{
    static const char *const forms[] = { "NN", "NT", "TN" };
    float *a = numbers(m * k), *b = numbers(k * n), *c = numbers(m * n);
    for (int form = 0; form < 3; form++) {
        const struct product product = {
            { .form = (enum gemm_form)form, .m = m, .n = n, .k = k, .a = a, .b = b, .c = c }, tile
        };
        const double rate = 2.0 * (double)m * (double)n * (double)k / median_seconds(run_product, &product);
        printf("gemm.%s.%s.%s %.4g FLOP/s %.3f\n", name, forms[form],
            tile == CUDA_GEMM_TILES ? "chosen" : cuda_gemm_tile_name((enum cuda_gemm_tile)tile), rate,
            rate / peak);
        fflush(stdout);
    }
    CUDA_CALL(cudaFree(a));
    CUDA_CALL(cudaFree(b));
    CUDA_CALL(cudaFree(c));
}

int main(int count, char **arguments)
{
    const long divisor = count > 1 ? strtol(arguments[1], NULL, 10) : 1;
    if (divisor < 1 || divisor > 1024) fail("divisor '%s': 1 .. 1024", arguments[1]);
    /* layer.*: [tokens, 3 * hidden, hidden] and the like, at hidden 1024 with 2048 tokens. */
    static const struct {
        const char *name;
        size_t m, n, k;
    } shapes[] = { { "8192", 8192, 8192, 8192 }, { "4096", 4096, 4096, 4096 },
        { "layer.qkv", 2048, 3072, 1024 }, { "layer.projection", 2048, 1024, 1024 },
        { "layer.up", 2048, 4096, 1024 }, { "layer.down", 2048, 1024, 4096 }, { "few", 512, 768, 768 } };
    cuda_gemm_prepare();
    CUDA_CALL(cudaEventCreate(&begin));
    CUDA_CALL(cudaEventCreate(&end));
    const double peak = measure_peak((int)divisor);
    printf("peak.fma %.4g FLOP/s 1.000\n", peak);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t m = (shapes[i].m / (size_t)divisor + 3) / 4 * 4,
                     n = (shapes[i].n / (size_t)divisor + 3) / 4 * 4;
        const size_t k = (shapes[i].k / (size_t)divisor + 3) / 4 * 4;
        measure(shapes[i].name, m, n, k, CUDA_GEMM_TILES, peak);
        if (i == 1 || i == 3)
            for (int tile = 0; tile < CUDA_GEMM_TILES; tile++) measure(shapes[i].name, m, n, k, tile, peak);
    }
    CUDA_CALL(cudaEventDestroy(begin));
    CUDA_CALL(cudaEventDestroy(end));
    return 0;
}
