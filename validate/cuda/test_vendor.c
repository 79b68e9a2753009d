/* Mode 'vendor': products by cublasLt are right within what their precision allows, have the same bits when
   computed again, and their algorithms, which keep every sum whole, are chosen once a shape and part of what
   the device says its bits depend on. A sum of k terms is off by at most (k + 4) v times the sum of their
   absolute values, with v = 2^-24 where fp32 is added up as IEEE-754 has it, and 2^-22 in bf16 and tf32,
   whose adders truncate; an operand that is rounded within the product adds 2 u to that. */
#include "vendor_tests.h"
#include <math.h>

static uint64_t state = 1;

/* ---- Products ---- */

enum { MOST = 100 * 200 };
static float left[MOST], right[MOST], start[MOST], residual[MOST], bias[200], found[MOST], again[MOST];

struct options {
    bool accumulate, bias, residual, in_place, operand;
};

/* An operand's element as the product reads it, but for tf32. */
static double read_as(enum precision precision, float x)
{
    return precision == PRECISION_BF16 ? (double)pl_from_bf16(pl_to_bf16(x)) : (double)x;
}

/* The product in float64, and the sum of the absolute values of its terms. */
static double element(const struct gemm *g, enum precision precision, size_t i, size_t j, double *size)
{
    const float *begin = g->accumulate ? start
                         : g->residual ? (g->residual == g->c ? start : residual)
                                       : NULL;
    double sum = begin ? (double)begin[i * g->n + j] : 0.0;
    if (g->bias) sum += (double)bias[j];
    *size = fabs(begin ? (double)begin[i * g->n + j] : 0.0) + fabs(g->bias ? (double)bias[j] : 0.0);
    for (size_t k = 0; k < g->k; k++) {
        const double a = read_as(precision, g->form == GEMM_TN ? left[k * g->m + i] : left[i * g->k + k]);
        const double b = read_as(precision, g->form == GEMM_NT ? right[j * g->k + k] : right[k * g->n + j]);
        sum += a * b;
        *size += fabs(a * b);
    }
    return sum;
}

static void check_product(
    struct device *device, enum gemm_form form, size_t m, size_t n, size_t k, struct options o)
{
    static const char *const forms[] = { "NN", "NT", "TN" };
    const enum precision precision = device->precision;
    fill(left, m * k, TAME, &state);
    fill(right, n * k, TAME, &state);
    fill(start, m * n, TAME, &state);
    fill(residual, m * n, TAME, &state);
    fill(bias, n, TAME, &state);
    struct gemm g = { .form = form, .m = m, .n = n, .k = k, .accumulate = o.accumulate };
    /* The weights lie in a block, at an offset that in bf16 is no multiple of 256 bytes. */
    const size_t offset = 64, block = offset + n * k;
    float *a = sent(device, left, m * k), *b = device->allocate(device, block * sizeof *b);
    float *c = sent(device, start, m * n);
    device->upload(device, b + offset, right, n * k * sizeof *b);
    float *r = sent(device, residual, m * n), *bias_there = sent(device, bias, n);
    char *operand = device->allocate(device, device->operand_bytes(device, block));
    g.a = a, g.b = b + offset, g.c = c;
    if (o.bias) g.bias = bias_there;
    if (o.residual) g.residual = o.in_place ? c : r;
    if (o.operand && device->operand_bytes(device, block) > 0) {
        device->operand_make(device, block, b, operand);
        g.b_operand = operand + offset * device->operand_bytes(device, block) / block;
        g.b = NULL;
    }
    device->gemm(device, &g);
    device->download(device, found, c, m * n * sizeof *c);
    device->upload(device, c, start, m * n * sizeof *c);
    device->gemm(device, &g);
    device->download(device, again, c, m * n * sizeof *c);

    const double v = precision == PRECISION_FP32 ? 0x1p-24 : 0x1p-22;
    const double rounded = precision == PRECISION_TF32 ? 2.0 * unit_roundoff(precision) : 0.0;
    double worst = 0.0;
    size_t at = 0, bits;
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double size;
            const double sum = element(&g, precision, i, j, &size);
            const double error =
                fabs((double)found[i * n + j] - sum) / (((double)k + 4.0) * v * size + rounded * size);
            if (!(error <= worst)) worst = error, at = i * n + j;
        }
    }
    CHECK(worst <= 1.0,
        "%s %s %zux%zux%zu accumulate %d bias %d residual %d in place %d: [%zu] is off by %g of the bound",
        precisions[precision], forms[form], m, n, k, o.accumulate, o.bias, o.residual, o.in_place, at, worst);
    CHECK(same_bits(found, again, m * n, &bits), "%s %s %zux%zux%zu: [%zu] has other bits the second time",
        precisions[precision], forms[form], m, n, k, bits);
    void *const memory[] = { a, b, c, r, bias_there, operand };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) device->release(device, memory[i]);
}

static void products_are_right(struct device *device)
{
    static const size_t shapes[][3] = { { 29, 35, 19 }, { 64, 48, 80 }, { 1, 7, 100 }, { 80, 1, 3 },
        { 48, 144, 1 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (unsigned turn = 0; turn < 24; turn++) {
            const struct options o = { turn / 3 % 4 == 1, turn & 1, turn / 3 % 4 >= 2, turn / 3 % 4 == 3,
                turn & 2 };
            check_product(device, (enum gemm_form)(turn % 3), shapes[i][0], shapes[i][1], shapes[i][2], o);
        }
    }
}

static float boundary(bool half, float x)
{
    return half ? pl_from_bf16(pl_to_bf16(x)) : x;
}

/* What is made of weights and of messages in each precision. */
static void reduced_tensors_are_exact(struct device *device)
{
    enum { COUNT = 1000 };
    const bool half = device->precision == PRECISION_BF16;
    float x[COUNT], y[COUNT];
    fill(x, COUNT, WILD, &state);
    float *there = sent(device, x, COUNT), *back = device->allocate(device, sizeof x);
    void *message = device->allocate(device, sizeof x);
    CHECK(device->operand_bytes(device, 100) == (half ? 200 : 0), "%zu", device->operand_bytes(device, 100));
    device->round_boundary(device, COUNT, there);
    device->download(device, y, there, sizeof y);
    int others = 0;
    for (size_t i = 0; i < COUNT; i++) others += pl_bits(y[i]) != pl_bits(boundary(half, x[i]));
    CHECK(others == 0, "%s: %d elements at a boundary are others", precisions[device->precision], others);
    device->pack_message(device, COUNT, there, message);
    device->unpack_message(device, COUNT, message, back);
    device->download(device, y, back, sizeof y);
    for (size_t i = 0; i < COUNT; i++) others += pl_bits(y[i]) != pl_bits(boundary(half, x[i]));
    CHECK(others == 0, "%s: %d elements arrive as others", precisions[device->precision], others);
    uint16_t packed[2];
    device->download(device, packed, message, sizeof packed);
    CHECK(!half || (packed[0] == pl_to_bf16(x[0]) && packed[1] == pl_to_bf16(x[1])), "a message holds %x %x",
        packed[0], packed[1]);
    device->release(device, there);
    device->release(device, back);
    device->release(device, message);
}

/* ---- Algorithms ---- */

static struct text described(const struct device *device)
{
    struct text lines = { 0 };
    text_add(&lines, "%s", ""); /* data is never NULL then */
    device->describe(device, &lines);
    return lines;
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;
    for (; (text = strstr(text, part)); text++) count++;
    return count;
}

static void use_shapes(struct device *device, const size_t shapes[][3], size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_product(device, GEMM_NN, shapes[i][0], shapes[i][1], shapes[i][2], (struct options){ 0 });
}

static const size_t order[][3] = { { 40, 48, 64 }, { 80, 48, 64 }, { 16, 96, 32 } };
static const size_t other_order[][3] = { { 16, 96, 32 }, { 40, 48, 64 }, { 80, 48, 64 } };

static void each_shape_is_planned_once(struct device_request request)
{
    struct device *device = open_device(request);
    struct vendor *vendor = ((struct cuda_device *)device)->vendor;
    CHECK(strncmp(device->arithmetic, "vendor, ", 8) == 0 && !strstr(device->arithmetic, "algorithms"),
        "'%s'", device->arithmetic);
    char none[256], all[256];
    snprintf(none, sizeof none, "%s", device->arithmetic);
    use_shapes(device, order, 3);
    snprintf(all, sizeof all, "%s", device->arithmetic);
    CHECK(strncmp(all, none, strlen(none)) == 0 && strlen(all) == strlen(none) + strlen(", algorithms ") + 16,
        "'%s' after '%s'", all, none);
    struct text lines = described(device);
    CHECK(vendor->count == 3 && count_of(lines.data, "\n") == 3, "%d plans, lines: %s", vendor->count,
        lines.data);
    CHECK(count_of(lines.data, "split-k 1, reduction 0") == 3, "%s", lines.data);
    const struct plan *plans = vendor->plans;
    device->measure_peak(device);
    use_shapes(device, other_order, 3);
    check_product(device, GEMM_NN, 40, 48, 64, (struct options){ .operand = true });
    CHECK(
        vendor->count == 3 && vendor->plans == plans, "%d plans after the same shapes again", vendor->count);
    CHECK(strcmp(device->arithmetic, all) == 0, "'%s' became '%s'", all, device->arithmetic);
    text_free(&lines);
    device->close(device);

    device = open_device(request);
    use_shapes(device, other_order, 3);
    CHECK(strcmp(device->arithmetic, all) == 0, "in another order of use '%s' is '%s'", all,
        device->arithmetic);
    check_product(device, GEMM_NN, 16, 96, 33, (struct options){ 0 });
    CHECK(strcmp(device->arithmetic, all) != 0, "a shape more changes nothing: '%s'", all);
    device->close(device);
}

static void bits_depend_on_the_sms_left_for_products(void)
{
    struct device_request request = tiny;
    request.vendor = true;
    struct device *device = open_device(request);
    use_shapes(device, order, 3);
    char all[256];
    snprintf(all, sizeof all, "%s", device->arithmetic);
    device->close(device);
    request.reserved_sms = 1;
    device = open_device(request);
    use_shapes(device, order, 3);
    CHECK(strcmp(device->arithmetic, all) != 0, "with an SM less: '%s'", all);
#if ON_DOUBLE
    const int sms = ((struct cuda_device *)device)->sms;
    CHECK(double_cublaslt_last().sm_count_target == sms - 1, "target %d of %d",
        double_cublaslt_last().sm_count_target, sms);
#endif
    device->close(device);
}

static void a_step_allocates_nothing(struct device *device)
{
    enum { N = 80, H = 48 };
    float *x = device->allocate(device, N * H * sizeof *x), *w = device->allocate(device, H * H * sizeof *w);
    float *qkv = device->allocate(device, 3 * N * H * sizeof *qkv),
          *rows = device->allocate(device, 2 * 256 * sizeof *x);
    struct attention a = { 2, 40, H, 3, qkv, x, rows, rows + 256, NULL, NULL, NULL };
    unsigned long before = 0;
    for (int step = 0; step < 3; step++) {
        if (step == 1) before = allocated(); /* in the first all is planned */
        device->gemm(
            device, &(struct gemm){ .form = GEMM_NN, .m = N, .n = H, .k = H, .a = qkv, .b = w, .c = x });
        device->attention_forward(device, &a);
        device->synchronize(device);
    }
    CHECK(allocated() == before, "a step allocates");
    device->release(device, x);
    device->release(device, w);
    device->release(device, qkv);
    device->release(device, rows);
}

static void the_rate_is_measured(struct device *device)
{
    const double rate = device->measure_peak(device);
    CHECK(isfinite(rate) && rate > 0.0, "%g FLOP/s", rate);
    const size_t before = free_memory();
    device->measure_peak(device);
    CHECK(free_memory() == before, "%zu bytes free became %zu", before, free_memory());
}

/* The heuristic may offer whatever it likes. */
static void what_splits_a_sum_is_passed_over(void)
{
#if ON_DOUBLE
    double_cublaslt_misbehave(1);
    for (int precision = PRECISION_FP32; precision <= PRECISION_BF16; precision++) {
        struct device *device = open_vendor((enum precision)precision);
        use_shapes(device, order, 3);
        const struct double_cublaslt_call call = double_cublaslt_last();
        CHECK(call.split_k == 1 && call.reduction_scheme == 0 && call.workspace <= VENDOR_WORKSPACE &&
                  !call.without_algorithm,
            "%s: split-k %d, reduction %u, workspace %zu", precisions[precision], call.split_k,
            call.reduction_scheme, call.workspace);
        const cublasComputeType_t right_one =
            precision == PRECISION_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
        CHECK(call.compute == right_one, "%s computes by %d", precisions[precision], (int)call.compute);
        struct text lines = described(device);
        CHECK(count_of(lines.data, "split-k 1, reduction 0") == 3, "%s", lines.data);
        text_free(&lines);
        device->close(device);
    }
    double_cublaslt_misbehave(0);
#endif
}

int main(void)
{
    setenv("DOUBLE_DEVICES", "1", 0);
    for (int precision = PRECISION_FP32; precision <= PRECISION_BF16; precision++) {
        struct device *device = open_vendor((enum precision)precision);
        CHECK(device->precision == (enum precision)precision, "%s", precisions[precision]);
        products_are_right(device);
        reduced_tensors_are_exact(device);
        a_step_allocates_nothing(device);
        the_rate_is_measured(device);
        CHECK(device->held(device) == 0, "%zu bytes held", device->held(device));
        device->close(device);
        struct device_request request = tiny;
        request.vendor = true;
        request.precision = (enum precision)precision;
        each_shape_is_planned_once(request);
    }
    bits_depend_on_the_sms_left_for_products();
    what_splits_a_sum_is_passed_over();
    return check_result();
}
