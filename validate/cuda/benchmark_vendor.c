/* What mode 'vendor' leaves of cuBLAS's own rate: a layer's matrix products alone, through device->gemm as
   the layer calls it, and the whole layer, forward and backward, through model/layer.h; one line each:

       name value unit share

   The share is of `cublas.best`: the fastest of cublasLt's algorithms for square matrices of 8192, in any
   form, with all SMs and whatever it may do with k, which mode 'vendor' may not. Each of ROUNDS rounds
   measures all in turn, so that all see the same clocks; values and shares are medians. Arguments: bf16 (or
   fp32, tf32); and what sizes are divided by, for a machine that is no GPU. */
#include "../performance/benchmark.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/kernels.h"
#include "model/layer.h"
#include <cublasLt.h>
#include <math.h>

enum {
    TOKENS = 2048,
    HIDDEN = 8192,
    HEAD = 128,
    SQUARE = 8192,
    CANDIDATES = 8,
    WORKSPACE = 32 << 20,
    LAYER_GEMMS = 12
};
static const double target_seconds = 0.1; /* of one measurement in a round */

static void check(cublasStatus_t status, const char *call)
{
    if (status != CUBLAS_STATUS_SUCCESS) fail("%s: %s", call, cublasLtGetStatusString(status));
}
#define LT(call) check((call), #call)

/* Mean seconds of one call, of as many in a row as take some target_seconds. */
static double seconds_of(struct device *device, void (*work)(struct device *, void *), void *argument)
{
    work(device, argument); /* at a shape's first use algorithms are chosen */
    device->synchronize(device);
    double begin = seconds_now();
    work(device, argument);
    device->synchronize(device);
    const int times = 1 + (int)(target_seconds / (seconds_now() - begin + 1e-9));
    begin = seconds_now();
    for (int i = 0; i < times; i++) work(device, argument);
    device->synchronize(device);
    return (seconds_now() - begin) / times;
}

/* --- cuBLAS itself --- */

struct square {
    cublasLtHandle_t handle;
    cudaStream_t stream;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t read, written;
    cublasLtMatmulAlgo_t algorithm;
    void *a, *b, *workspace;
    float *c;
    size_t size;
};

static void run_square(struct device *device, void *argument)
{
    const struct square *s = argument;
    const float one = 1.0f, zero = 0.0f;
    (void)device;
    LT(cublasLtMatmul(s->handle, s->operation, &one, s->a, s->read, s->b, s->read, &zero, s->c, s->written,
        s->c, s->written, &s->algorithm, s->workspace, WORKSPACE, s->stream));
}

static void set_transposed(struct square *s, int32_t first, int32_t second)
{
    LT(cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first));
    LT(cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second));
}

/* Leaves in *s the form and algorithm that are fastest. */
static void choose_fastest(struct device *device, struct square *s)
{
    static const int32_t form[3][2] = { { CUBLAS_OP_N, CUBLAS_OP_N }, { CUBLAS_OP_T, CUBLAS_OP_N },
        { CUBLAS_OP_N, CUBLAS_OP_T } };
    cublasLtMatmulPreference_t preference;
    const uint64_t workspace = WORKSPACE;
    LT(cublasLtMatmulPreferenceCreate(&preference));
    LT(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace));
    double least = INFINITY;
    cublasLtMatmulAlgo_t fastest = { 0 };
    int fastest_form = 0;
    for (int f = 0; f < 3; f++) {
        cublasLtMatmulHeuristicResult_t offered[CANDIDATES];
        int count = 0;
        set_transposed(s, form[f][0], form[f][1]);
        if (cublasLtMatmulAlgoGetHeuristic(s->handle, s->operation, s->read, s->read, s->written, s->written,
                preference, CANDIDATES, offered, &count) != CUBLAS_STATUS_SUCCESS)
            continue;
        for (int i = 0; i < count; i++) {
            if (offered[i].state != CUBLAS_STATUS_SUCCESS) continue;
            s->algorithm = offered[i].algo;
            const double seconds = seconds_of(device, run_square, s);
            if (seconds < least) least = seconds, fastest = s->algorithm, fastest_form = f;
        }
    }
    if (!isfinite(least)) fail("cublasLt has no algorithm for %zux%zux%zu", s->size, s->size, s->size);
    set_transposed(s, form[fastest_form][0], form[fastest_form][1]);
    s->algorithm = fastest;
    LT(cublasLtMatmulPreferenceDestroy(preference));
}

static struct square make_square(struct device *device, size_t size, enum precision precision)
{
    const bool half = precision == PRECISION_BF16;
    const cublasComputeType_t compute =
        precision == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cudaDataType_t type = half ? CUDA_R_16BF : CUDA_R_32F;
    struct square s = { .stream = cuda_of(device)->compute, .size = size };
    float *a = numbers(device, size * size), *b = numbers(device, size * size);
    s.a = a, s.b = b;
    s.c = device->allocate(device, size * size * sizeof(float));
    s.workspace = device->allocate(device, WORKSPACE);
    if (half) {
        s.a = device->allocate(device, size * size * sizeof(uint16_t));
        s.b = device->allocate(device, size * size * sizeof(uint16_t));
        cuda_to_bf16(s.stream, size * size, a, s.a);
        cuda_to_bf16(s.stream, size * size, b, s.b);
        device->release(device, a), device->release(device, b);
    }
    LT(cublasLtCreate(&s.handle));
    LT(cublasLtMatmulDescCreate(&s.operation, compute, CUDA_R_32F));
    LT(cublasLtMatrixLayoutCreate(&s.read, type, size, size, (int64_t)size));
    LT(cublasLtMatrixLayoutCreate(&s.written, CUDA_R_32F, size, size, (int64_t)size));
    choose_fastest(device, &s);
    return s;
}

static void free_square(struct device *device, struct square *s)
{
    LT(cublasLtMatrixLayoutDestroy(s->read));
    LT(cublasLtMatrixLayoutDestroy(s->written));
    LT(cublasLtMatmulDescDestroy(s->operation));
    LT(cublasLtDestroy(s->handle));
    void *const memory[] = { s->a, s->b, s->c, s->workspace };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) device->release(device, memory[i]);
}

/* --- the layer --- */

struct layer {
    struct model model;
    struct layer_weights weights;
    float *gradients, *out, *dout, *saved_memory, *work_memory;
    float *spare; /* [n, f]: products' input gradients, so that no result feeds on itself and grows */
    struct layer_saved saved;
    struct layer_work work;
    struct gemm gemm[LAYER_GEMMS];
};

static void run_layer(struct device *device, void *argument)
{
    const struct layer *l = argument;
    layer_forward(device, &l->model, &l->weights, &l->saved, &l->work, l->out);
    layer_backward(device, &l->model, &l->weights, l->gradients, &l->saved, &l->work.kept, &l->work, l->dout,
        l->out, true);
}

static void run_gemms(struct device *device, void *argument)
{
    const struct layer *l = argument;
    for (int i = 0; i < LAYER_GEMMS; i++) device->gemm(device, &l->gemm[i]);
}

static void run_gemm(struct device *device, void *argument)
{
    device->gemm(device, argument);
}

static double flops_of(const struct gemm *gemm)
{
    return 2.0 * (double)gemm->m * (double)gemm->n * (double)gemm->k;
}

/* The products of one linear map w [k, n] of x [m, k]: as layer.c asks for them. */
static void list_products(const struct layer *l, struct gemm gemm[3], size_t k, size_t n, float *x, float *y,
    enum parameter weight, enum parameter bias, const float *residual)
{
    const size_t m = model_tokens(&l->model), offset = parameter_offset(&l->model, weight);
    const size_t element = operands_bytes(&l->model) / parameters_size(&l->model);
    const float *w = l->weights.values + offset;
    const void *operand = l->weights.operands ? (const char *)l->weights.operands + offset * element : NULL;
    gemm[0] = (struct gemm){ .form = GEMM_NN,
        .m = m,
        .n = n,
        .k = k,
        .a = x,
        .b = w,
        .c = y,
        .bias = l->weights.values + parameter_offset(&l->model, bias),
        .residual = residual,
        .b_operand = operand };
    gemm[1] = (struct gemm){
        .form = GEMM_NT, .m = m, .n = k, .k = n, .a = y, .b = w, .c = l->spare, .b_operand = operand
    };
    gemm[2] = (struct gemm){ .form = GEMM_TN,
        .m = k,
        .n = n,
        .k = m,
        .a = x,
        .b = y,
        .c = l->gradients + offset,
        .accumulate = true };
}

static struct layer make_layer(struct device *device, const struct model *model)
{
    struct layer l = { .model = *model };
    const size_t h = (size_t)model->hidden, f = (size_t)model->ffn, boundary = boundary_size(model);
    l.weights.values = device->allocate(device, parameters_size(model) * sizeof(float));
    const size_t operands = operands_bytes(model);
    if (operands) l.weights.operands = device->allocate(device, operands);
    layer_parameters(device, model, 0, &l.weights);
    l.gradients = device->allocate(device, parameters_size(model) * sizeof(float));
    l.saved_memory = device->allocate(device, layer_saved_size(model) * sizeof(float));
    l.saved = layer_saved_view(model, l.saved_memory);
    l.work_memory = device->allocate(device, layer_work_size(model, false) * sizeof(float));
    l.work = layer_work_view(model, false, l.work_memory);
    l.out = device->allocate(device, boundary * sizeof(float));
    l.dout = device->allocate(device, boundary * sizeof(float));
    l.spare = device->allocate(device, model_tokens(model) * f * sizeof(float));
    boundary_random(device, model, RANDOM_INPUT, 1, 0, l.saved.x);
    boundary_random(device, model, RANDOM_TARGET, 1, 0, l.dout);
    run_layer(device, &l); /* so that the products below read what a layer's read */
    list_products(
        &l, &l.gemm[0], h, 3 * h, l.work.normed, l.saved.qkv, ATTENTION_QKV_WEIGHT, ATTENTION_QKV_BIAS, NULL);
    list_products(&l, &l.gemm[3], h, h, l.saved.attention, l.saved.y, ATTENTION_OUTPUT_WEIGHT,
        ATTENTION_OUTPUT_BIAS, l.saved.x);
    list_products(&l, &l.gemm[6], h, f, l.work.normed, l.saved.u, MLP_UP_WEIGHT, MLP_UP_BIAS, NULL);
    list_products(&l, &l.gemm[9], f, h, l.work.g, l.out, MLP_DOWN_WEIGHT, MLP_DOWN_BIAS, l.saved.y);
    return l;
}

static void free_layer(struct device *device, struct layer *l)
{
    void *const memory[] = { l->weights.values, l->weights.operands, l->gradients, l->saved_memory,
        l->work_memory, l->out, l->dout, l->spare };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) device->release(device, memory[i]);
}

/* --- what is printed --- */

enum { BEST, PEAK, LAYER, GEMMS, ONE_GEMM, LINES = ONE_GEMM + LAYER_GEMMS };

static struct device *open_vendor(const struct model *model, enum precision precision)
{
    struct device *device;
    struct text error = { 0 };
    const struct device_request request = { .kind = "cuda",
        .threads = 1,
        .vendor = true,
        .precision = precision,
        .microbatch_size = 1,
        .sequence = model->sequence,
        .hidden = model->hidden,
        .heads = model->heads,
        .ffn = model->ffn };
    if (!device_open(&request, &device, &error)) fail("%s", error.data);
    return device;
}

int main(int count, char **arguments)
{
    static const char *const precisions[] = { "fp32", "tf32", "bf16" };
    static const char *const maps[] = { "qkv", "projection", "up", "down" }, *const forms[] = { "NN", "NT",
        "TN" };
    int precision = PRECISION_BF16;
    for (int p = 0; count > 1 && p < 3; p++)
        if (strcmp(arguments[1], precisions[p]) == 0) precision = p;
    const long divisor = count > 2 ? strtol(arguments[2], NULL, 10) : 1;
    if (count > 3 || divisor < 1 || divisor > 64 ||
        (count > 1 && strcmp(arguments[1], precisions[precision]) != 0))
        fail("usage: %s [bf16|fp32|tf32 [divisor of sizes, 1 .. 64]]", arguments[0]);

    const int hidden = (int)(HIDDEN / divisor);
    const struct model model = { .layers = 1,
        .hidden = hidden,
        .heads = hidden / HEAD,
        .ffn = 4 * hidden,
        .sequence = (int)(TOKENS / divisor),
        .microbatches = 1,
        .microbatch_size = 1,
        .seed = 1,
        .bf16 = precision == PRECISION_BF16 };
    struct device *device = open_vendor(&model, (enum precision)precision);
    struct square square = make_square(device, (size_t)(SQUARE / divisor), (enum precision)precision);
    struct layer layer = make_layer(device, &model);
    const double square_flops = 2.0 * pow((double)square.size, 3.0);
    const struct layer_flops flops = layer_flops(&model);

    double rate[LINES][ROUNDS], share[LINES][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double gemm_flops = 0;
        rate[BEST][round] = square_flops / seconds_of(device, run_square, &square);
        rate[PEAK][round] = device->measure_peak(device);
        rate[LAYER][round] = (flops.forward + flops.backward) / seconds_of(device, run_layer, &layer);
        for (int i = 0; i < LAYER_GEMMS; i++) {
            rate[ONE_GEMM + i][round] =
                flops_of(&layer.gemm[i]) / seconds_of(device, run_gemm, &layer.gemm[i]);
            gemm_flops += flops_of(&layer.gemm[i]);
        }
        rate[GEMMS][round] = gemm_flops / seconds_of(device, run_gemms, &layer);
        for (int i = 0; i < LINES; i++) share[i][round] = rate[i][round] / rate[BEST][round];
    }
    static const char *const names[] = { "cublas.best", "cublas.measure_peak", "layer.forward_backward",
        "layer.gemms" };
    for (int i = 0; i < LINES; i++) {
        if (i < ONE_GEMM)
            printf("%s.%s", names[i], precisions[precision]);
        else
            printf(
                "gemm.%s.%s.%s", maps[(i - ONE_GEMM) / 3], forms[(i - ONE_GEMM) % 3], precisions[precision]);
        printf(" %.4g FLOP/s %.3f\n", median(rate[i]), median(share[i]));
    }
    free_layer(device, &layer);
    free_square(device, &square);
    device->close(device);
    return 0;
}
