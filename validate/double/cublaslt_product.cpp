/* The double's cublasLt: the products themselves. A call checks everything, and enqueues; the product is
   computed when the stream gets there.

   An algorithm adds up the terms of an output in as many partial sums as it has lanes, and these from the
   last to the first: never in ascending order, and each algorithm in its own way. That nobody promises, so
   nothing may need it.

   Operands are copied in and results copied out, so that the memory of the program is touched in few places,
   which tell a race detector, although this file is compiled without it. */
#include "cublaslt_parts.h"
#include "failure.h"
#include "streams.h"
#include "touch.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace
{

unsigned long calls;
double_cublaslt_call last_call;

struct call {
    problem p;
    algorithm a;
    float alpha, beta;
    const char *left, *right, *addend;
    char *result, *workspace;
    size_t workspace_bytes;
};

/* --- Numbers --- */

float from_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* To the nearest number with `dropped` fewer bits of mantissa, ties to even; infinities and NaNs stay what
 * they are. */
float rounded(float f, int dropped)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (!std::isfinite(f)) return f;
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return from_bits(bits >> dropped << dropped);
}

float load(const char *memory, uint32_t type)
{
    uint32_t bits = 0;
    if (type == CUDA_R_16BF) {
        uint16_t high;
        memcpy(&high, memory, sizeof high);
        bits = (uint32_t)high << 16;
    } else {
        memcpy(&bits, memory, sizeof bits);
    }
    return from_bits(bits);
}

void store(char *memory, uint32_t type, float f)
{
    if (type != CUDA_R_16BF) {
        memcpy(memory, &f, sizeof f);
        return;
    }
    const float near = rounded(f, 16);
    uint32_t bits;
    memcpy(&bits, &near, sizeof bits);
    const uint16_t high = (uint16_t)(bits >> 16 | (std::isnan(f) ? 0x40 : 0)); /* a NaN stays one */
    memcpy(memory, &high, sizeof high);
}

/* --- Matrices --- */

/* A matrix lies in memory as runs: columns, or rows. */
struct runs {
    size_t count, length, stride, size; /* stride: elements from run to run; size: bytes of an element */
    bool are_rows;
    runs(const layout &l)
        : count(l.order == CUBLASLT_ORDER_COL ? l.columns : l.rows),
          length(l.order == CUBLASLT_ORDER_COL ? l.rows : l.columns), stride((size_t)l.leading),
          size(cublaslt_size(l.type)), are_rows(l.order == CUBLASLT_ORDER_ROW)
    {
    }
};

/* [rows][columns]; [columns][rows] where `turned`. */
std::vector<float> read(const layout &l, const char *memory, bool turned)
{
    const runs r(l);
    std::vector<float> matrix(r.count * r.length);
    std::vector<char> run(r.length * r.size);
    for (size_t i = 0; i < r.count; i++) {
        copy_in(run.data(), memory + i * r.stride * r.size, run.size());
        for (size_t j = 0; j < r.length; j++)
            matrix[r.are_rows != turned ? i * r.length + j : j * r.count + i] =
                load(&run[j * r.size], l.type);
    }
    return matrix;
}

void write(const layout &l, char *memory, const std::vector<float> &matrix)
{
    const runs r(l);
    std::vector<char> run(r.length * r.size);
    for (size_t i = 0; i < r.count; i++) {
        for (size_t j = 0; j < r.length; j++)
            store(&run[j * r.size], l.type, matrix[r.are_rows ? i * r.length + j : j * r.count + i]);
        copy_out(memory + i * r.stride * r.size, run.data(), run.size());
    }
}

template <int lanes> float sum_of_products(const float *a, const float *b, size_t count)
{
    float lane[lanes] = {};
    size_t k = 0;
    for (; k + lanes <= count; k += lanes)
        for (int t = 0; t < lanes; t++) lane[t] = __builtin_fmaf(a[k + (size_t)t], b[k + (size_t)t], lane[t]);
    for (int t = 0; k < count; k++, t++) lane[t] = __builtin_fmaf(a[k], b[k], lane[t]);
    float sum = 0;
    for (int t = lanes; t--;) sum += lane[t];
    return sum;
}

/* One output before alpha, beta and bias. */
float output(const call &c, const float *a, const float *b)
{
    const auto sum = cublaslt_lanes(c.a.id) == 8    ? sum_of_products<8>
                     : cublaslt_lanes(c.a.id) == 16 ? sum_of_products<16>
                     : cublaslt_lanes(c.a.id) == 24 ? sum_of_products<24>
                                                    : sum_of_products<32>;
    const size_t parts = (size_t)c.a.split_k;
    float total = 0;
    for (size_t part = parts; part--;) {
        const size_t begin = part * c.p.k / parts, end = (part + 1) * c.p.k / parts;
        float of_part = sum(a + begin, b + begin, end - begin);
        if (c.a.reduction_scheme != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE && c.p.d.type == CUDA_R_16BF &&
            parts > 1)
            of_part = rounded(of_part, 16);
        total += of_part;
    }
    return total;
}

void multiply(const call &c, size_t batch)
{
    const problem &p = c.p;
    const auto at = [batch](const layout &l) {
        return (ptrdiff_t)batch * (ptrdiff_t)l.stride * (ptrdiff_t)cublaslt_size(l.type);
    };
    std::vector<float> a = read(p.a, c.left + at(p.a), p.op.transpose_a == CUBLAS_OP_T);  /* [m][k] */
    std::vector<float> b = read(p.b, c.right + at(p.b), p.op.transpose_b == CUBLAS_OP_N); /* [n][k] */
    if (p.op.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        for (std::vector<float> *operand : { &a, &b })
            for (float &f : *operand) f = rounded(f, 13); /* of 23 bits of mantissa, 10 are left */
    std::vector<float> result(p.m * p.n), bias(p.m);
    if (c.beta != 0) result = read(p.c, c.addend + at(p.c), false);
    if (p.op.epilogue == CUBLASLT_EPILOGUE_BIAS) {
        layout l = p.d;
        l.order = CUBLASLT_ORDER_COL;
        l.rows = p.m;
        l.columns = 1;
        bias = read(
            l, (const char *)p.op.bias + batch * (size_t)p.op.bias_stride * cublaslt_size(l.type), false);
    }
    for (size_t i = 0; i < p.m; i++)
        for (size_t j = 0; j < p.n; j++) {
            float &d = result[i * p.n + j];
            const float scaled = c.alpha * output(c, &a[i * p.k], &b[j * p.k]);
            d = (c.beta != 0 ? scaled + c.beta * d : scaled) + bias[i];
        }
    write(p.d, c.result + at(p.d), result);
}

void run(const call &c)
{
    fill_with_nans(c.workspace, c.workspace_bytes); /* as an algorithm that uses it would */
    for (int32_t batch = 0; batch < c.p.d.batch; batch++) multiply(c, (size_t)batch);
}

/* --- The call --- */

bool is_aligned(const void *memory, size_t bytes)
{
    return !bytes || (uintptr_t)memory % bytes == 0;
}

/* Whether all that the product touches through this pointer is the device's memory. */
bool is_there(const char *name, const layout &l, const void *memory)
{
    const runs r(l);
    const size_t of_one = (r.count - 1) * r.stride + r.length;
    const size_t bytes = ((size_t)(l.batch - 1) * (size_t)l.stride + of_one) * r.size;
    if (memory && double_is_device(memory, bytes)) return true;
    complaint("cublasLt: %s is not %zu bytes of device memory", name, bytes);
    return false;
}

bool operands_are_there(const call &c)
{
    const problem &p = c.p;
    if (!is_there("A", p.a, c.left) || !is_there("B", p.b, c.right) || !is_there("D", p.d, c.result))
        return false;
    if (c.beta != 0 && !is_there("C", p.c, c.addend)) return false;
    if (p.op.epilogue != CUBLASLT_EPILOGUE_BIAS) return true;
    layout bias = p.d;
    bias.order = CUBLASLT_ORDER_COL;
    bias.rows = p.m;
    bias.columns = 1;
    bias.stride = p.op.bias_stride;
    return is_there("bias", bias, p.op.bias) && is_aligned(p.op.bias, cublaslt_size(p.d.type));
}

void record(const call &c, bool without_algorithm)
{
    const double_lock held;
    calls++;
    last_call = { c.a.id, c.a.split_k, c.a.reduction_scheme, c.workspace_bytes, c.p.op.sm_count_target,
        (cublasComputeType_t)c.p.op.compute, c.p.op.epilogue, c.p.m, c.p.n, c.p.k, (size_t)c.p.d.batch,
        without_algorithm };
}

} // namespace

extern "C" {

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t op, const void *alpha,
    const void *a, cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
    const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
    cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algo, void *workspace,
    size_t workspace_bytes, cudaStream_t stream)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
    call made = {};
    if (cublasStatus_t status = cublaslt_problem(op, a_layout, b_layout, c_layout, d_layout, &made.p))
        return status;
    memcpy(&made.alpha, alpha, sizeof made.alpha); /* now: the caller may change them after the call */
    memcpy(&made.beta, beta, sizeof made.beta);
    const bool out_of_place = made.beta != 0 && c != d;
    const void *const pointers[] = { a, b, made.beta != 0 ? c : d, d };
    if (algo) {
        memcpy(&made.a, algo, sizeof made.a);
    } else {
        uint32_t alignment[4];
        for (int i = 0; i < 4; i++)
            for (alignment[i] = 256; !is_aligned(pointers[i], alignment[i]);) alignment[i] /= 2;
        if (cublasStatus_t status =
                cublaslt_choose(made.p, workspace_bytes, alignment, out_of_place, &made.a))
            return status;
    }
    if (cublasStatus_t status = cublaslt_can(made.p, made.a, &made.workspace_bytes)) return status;
    made.left = (const char *)a;
    made.right = (const char *)b;
    made.addend = (const char *)c;
    made.result = (char *)d;
    made.workspace = (char *)workspace;

    for (int i = 0; i < 4; i++)
        if (!is_aligned(pointers[i], made.a.alignment[i])) return CUBLAS_STATUS_INVALID_VALUE;
    if (!operands_are_there(made)) return CUBLAS_STATUS_INVALID_VALUE;
    if (made.workspace_bytes > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
    if (made.workspace_bytes &&
        (!is_aligned(workspace, 16) || !double_is_device(workspace, made.workspace_bytes)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (out_of_place && !cublaslt_out_of_place(made.a.id)) return CUBLAS_STATUS_NOT_SUPPORTED;
    const layout &x = made.p.c, &y = made.p.d;
    if (made.beta != 0 && c == d && (x.leading != y.leading || x.order != y.order || x.stride != y.stride))
        return CUBLAS_STATUS_INVALID_VALUE; /* in place, but not the same elements */

    record(made, !algo);
    double_enqueue(stream, { "cublasLtMatmul", nullptr, [made] { run(made); }, false });
    return CUBLAS_STATUS_SUCCESS;
}

unsigned long double_cublaslt_calls(void)
{
    const double_lock held;
    return calls;
}

struct double_cublaslt_call double_cublaslt_last(void)
{
    const double_lock held;
    return last_call;
}

} /* extern "C" */
