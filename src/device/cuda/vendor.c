/* Matrix products by cublasLt: what may change their bits is fixed or refused, and said. */
#include "device/cuda/vendor.h"
#include "device/cuda/kernels.h"
#include "device/cuda/cuda_parts.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Elements of a block of attention's scores at most: 512 MiB of fp32 scratch in its four tensors. */
static const size_t most_block = (size_t)32 << 20;

extern char **environ;

void vendor_result(cublasStatus_t status, const char *call, const char *file, int line)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        fail("%s:%d: %s: %s (cublasLt status %d)", file, line, call, cublasLtGetStatusString(status),
            (int)status);
}

bool vendor_environment(struct text *error)
{
    /* Those that end in _ are the beginnings of names. */
    static const char *const refused[] = { "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_",
        "CUBLAS_EMULATION_STRATEGY", "CUBLASLT_HEURISTICS_LUT_FILE" };
    for (char **variable = environ; *variable; variable++) {
        const size_t name = strcspn(*variable, "=");
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
            const size_t length = strlen(refused[i]);
            const bool beginning = refused[i][length - 1] == '_';
            if (name < length || (name > length && !beginning) || strncmp(*variable, refused[i], length) != 0)
                continue;
            text_add(error,
                "mode 'vendor': %s is set in the environment: it changes the bits of cuBLAS's products; "
                "unset it",
                *variable);
            return false;
        }
    }
    return true;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sizes of the scratch memory: of the operands A and B in bf16, the largest of a layer's; of attention's
 * block. */
static void scratch_counts(const struct device_request *r, size_t *a, size_t *b, size_t *block)
{
    const char *what = "scratch memory of mode 'vendor'";
    const size_t hidden = (size_t)r->hidden, sequence = (size_t)r->sequence;
    const size_t tokens = checked_product((size_t)r->microbatch_size, sequence, what);
    const size_t columns = larger(checked_product(3, hidden, what), (size_t)r->ffn);
    const bool half = r->precision == PRECISION_BF16;
    *a = half ? checked_product(tokens, columns, what) : 0;
    *b = half ? checked_product(larger(tokens, hidden), columns, what) : 0;
    const struct attention_block cut = attention_block((size_t)r->heads, sequence, most_block);
    *block = checked_product(cut.heads * cut.queries, sequence, what);
}

/* Rounded up so that each part begins at a multiple of 256 bytes. */
static size_t part(size_t count, size_t size)
{
    return (checked_product(count, size, "scratch memory of mode 'vendor'") + VENDOR_ALIGNMENT - 1) /
           VENDOR_ALIGNMENT * VENDOR_ALIGNMENT;
}

size_t vendor_scratch(const struct device_request *request)
{
    size_t a, b, block;
    scratch_counts(request, &a, &b, &block);
    const size_t read = request->precision == PRECISION_BF16 ? sizeof(uint16_t) : sizeof(float);
    return VENDOR_WORKSPACE + part(a, sizeof(uint16_t)) + part(b, sizeof(uint16_t)) +
           2 * part(block, sizeof(float)) + 2 * part(block, read);
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* One line a shape, sorted, so that the order of first use does not show. */
static void sorted_lines(const struct vendor *vendor, struct text *lines)
{
    const char **sorted = allocate((size_t)vendor->count + 1, sizeof *sorted);
    for (int i = 0; i < vendor->count; i++) sorted[i] = vendor->plans[i].line;
    qsort(sorted, (size_t)vendor->count, sizeof *sorted, compare_lines);
    for (int i = 0; i < vendor->count; i++) text_add(lines, "%s\n", sorted[i]);
    free(sorted);
}

void vendor_describe(const struct vendor *vendor, struct text *lines)
{
    sorted_lines(vendor, lines);
}

/* What bits depend on: all of it, with the algorithms as 16 digits of a hash of their lines. */
static void write_arithmetic(struct vendor *vendor)
{
    struct device *device = &vendor->device->device;
    struct text lines = { 0 };
    char hex[65];
    sorted_lines(vendor, &lines);
    if (vendor->count > 0) sha256_hex(lines.data, lines.length, hex);
    if (vendor->count > 0)
        snprintf(device->arithmetic, sizeof device->arithmetic, "%s, algorithms %.16s", vendor->prefix, hex);
    else
        snprintf(device->arithmetic, sizeof device->arithmetic, "%s", vendor->prefix);
    text_free(&lines);
}

struct vendor *vendor_open(struct cuda_device *device)
{
    const struct device_request *request = &device->request;
    struct vendor *vendor = allocate(1, sizeof *vendor);
    vendor->device = device;
    vendor->target = device->sms - request->reserved_sms;
    assert(request->reserved_sms >= 0 && vendor->target >= 1);
    VENDOR_CALL(cublasLtCreate(&vendor->handle));

    size_t block;
    scratch_counts(request, &vendor->a_count, &vendor->b_count, &block);
    const bool half = request->precision == PRECISION_BF16;
    vendor->workspace = cuda_scratch(VENDOR_WORKSPACE);
    if (half) vendor->a_operand = cuda_scratch(part(vendor->a_count, sizeof(uint16_t)));
    if (half) vendor->b_operand = cuda_scratch(part(vendor->b_count, sizeof(uint16_t)));
    vendor->block_count = block;
    vendor->s = cuda_scratch(part(block, sizeof(float)));
    vendor->dp = cuda_scratch(part(block, sizeof(float)));
    vendor->p = cuda_scratch(part(block, half ? sizeof(uint16_t) : sizeof(float)));
    vendor->ds = cuda_scratch(part(block, half ? sizeof(uint16_t) : sizeof(float)));
    device->device.scratch += vendor_scratch(request);

    char driver[32];
    gpu_driver(driver);
    const size_t library = cublasLtGetVersion();
    snprintf(vendor->prefix, sizeof vendor->prefix,
        "vendor, %.90s, %d for products, cuBLASLt %zu.%zu.%zu, driver %s", device->device.name,
        vendor->target, library / 10000, library / 100 % 100, library % 100, driver);
    write_arithmetic(vendor);
    return vendor;
}

void vendor_close(struct vendor *vendor)
{
    for (int i = 0; i < vendor->count; i++) vendor_plan_free(&vendor->plans[i]);
    free(vendor->plans);
    void *const memory[] = { vendor->workspace, vendor->a_operand, vendor->b_operand, vendor->s, vendor->dp,
        vendor->p, vendor->ds };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) CUDA_CALL(cudaFree(memory[i]));
    VENDOR_CALL(cublasLtDestroy(vendor->handle));
    free(vendor);
}

static const struct plan *plan_for(struct vendor *vendor, const struct product *shape)
{
    for (int i = 0; i < vendor->count; i++)
        if (memcmp(&vendor->plans[i].shape, shape, sizeof *shape) == 0) return &vendor->plans[i];
    struct plan *grown = allocate((size_t)vendor->count + 1, sizeof *grown);
    if (vendor->count > 0) memcpy(grown, vendor->plans, (size_t)vendor->count * sizeof *grown);
    grown[vendor->count] = vendor_plan(vendor, shape);
    free(vendor->plans);
    vendor->plans = grown;
    vendor->count++;
    write_arithmetic(vendor);
    return &vendor->plans[vendor->count - 1];
}

static bool is_aligned(const void *pointer, size_t alignment)
{
    return (uintptr_t)pointer % alignment == 0;
}

void vendor_product(struct vendor *vendor, const struct product *shape, const void *a, const void *b,
    const float *bias, const float *addend, float *c)
{
    assert(is_aligned(a, shape->a_align) && is_aligned(b, shape->b_align) && is_aligned(c, shape->c_align));
    assert(is_aligned(addend, shape->c_align) && is_aligned(bias, VENDOR_ALIGNMENT));
    assert(!addend == !shape->add && !bias == !shape->bias && (shape->apart || !addend || addend == c));
    const struct plan *plan = plan_for(vendor, shape);
    vendor_run(vendor, plan, a, b, bias, addend, c);
}

static const void *operand(struct vendor *vendor, size_t count, const float *x, uint16_t *memory, size_t room)
{
    if (!memory) return x;
    assert(count <= room); /* the request's shapes are the largest */
    (void)room;
    cuda_to_bf16(vendor->device->compute, count, x, memory);
    return memory;
}

/* C' is the residual, or C itself where it accumulates; not both. Then C = A B + C' + bias, rounded as
   cublasLt does. */
void vendor_gemm(struct vendor *vendor, const struct gemm *g)
{
    assert(!(g->accumulate && g->residual));
    const bool half = vendor->a_operand != NULL;
    struct product shape = vendor_dense(g->form, g->m, g->n, g->k, half);
    shape.bias = g->bias != NULL;
    shape.add = g->accumulate || g->residual;
    shape.apart = g->residual != NULL; /* one algorithm, whether the residual is C or not */
    const void *a = operand(vendor, g->m * g->k, g->a, vendor->a_operand, vendor->a_count);
    const void *b = half && g->b_operand
                        ? g->b_operand
                        : operand(vendor, g->n * g->k, g->b, vendor->b_operand, vendor->b_count);
    vendor_product(vendor, &shape, a, b, g->bias, g->accumulate ? g->c : g->residual, g->c);
}
