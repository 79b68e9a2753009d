/* What the tests of the double's cublasLt share: matrices on the device, and a product with all its
 * descriptors. */
#pragma once
#include "../check.h"
#include "cublaslt_double.h"
#include "streams.h"
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

static const size_t WORKSPACE = 1 << 20;
static cublasLtHandle_t handle;
static cudaStream_t stream;
static void *workspace;
static size_t grain = 1; /* leading dimensions and strides are multiples of it */

static size_t padded(size_t size)
{
    return (size + grain - 1) / grain * grain;
}

#define DONE(call) CHECK((call) == 0, "%s", #call)

static inline float random_number()
{
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(state >> 33) / 0x1p30 - 1);
}

/* Rounded to so many bits of mantissa, by the book: away from the code under test. */
static inline double round_to(double x, int bits)
{
    if (x == 0 || !std::isfinite(x)) return x;
    const double unit = std::ldexp(1.0, std::ilogb(x) - bits);
    return std::nearbyint(x / unit) * unit;
}

struct form {
    const char *name;
    cublasComputeType_t compute;
    cudaDataType in, out;
    int in_bits, out_bits; /* of mantissa */
};
static const form forms[] = {
    { "fp32", CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, 23, 23 },
    { "tf32", CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, 10, 23 },
    { "bf16", CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_32F, 7, 23 },
    { "bf16 to bf16", CUBLAS_COMPUTE_32F, CUDA_R_16BF, CUDA_R_16BF, 7, 7 },
};

/* A matrix on the device and what is in it, column by column or row by row as `order` says, with gaps between
 * them. */
struct matrix {
    cudaDataType type;
    cublasLtOrder_t order;
    size_t rows, columns, leading, stride, batch;
    std::vector<float> content; /* NaN in the gaps */
    char *memory;
    cublasLtMatrixLayout_t layout;

    matrix(cudaDataType t, cublasLtOrder_t o, size_t r, size_t c, size_t b)
        : type(t), order(o), rows(r), columns(c), leading(padded((o == CUBLASLT_ORDER_COL ? r : c) + 3)),
          stride(padded(leading * (o == CUBLASLT_ORDER_COL ? c : r) + 5)), batch(b), content(b * stride, NAN)
    {
        const size_t bytes = content.size() * size();
        for (size_t n = 0; n < batch; n++)
            for (size_t i = 0; i < rows; i++)
                for (size_t j = 0; j < columns; j++) at(n, i, j) = random_number();
        DONE(cudaMalloc((void **)&memory, bytes));
        put();
        DONE(cublasLtMatrixLayoutCreate(&layout, type, rows, columns, (int64_t)leading));
        const int32_t order32 = order, batch32 = (int32_t)batch;
        const int64_t stride64 = (int64_t)stride;
        DONE(
            cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order32, sizeof order32));
        DONE(cublasLtMatrixLayoutSetAttribute(
            layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch32, sizeof batch32));
        DONE(cublasLtMatrixLayoutSetAttribute(
            layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride64, sizeof stride64));
    }
    matrix(const matrix &) = delete;
    ~matrix()
    {
        DONE(cublasLtMatrixLayoutDestroy(layout));
        DONE(cudaFree(memory));
    }
    size_t size() const
    {
        return type == CUDA_R_32F ? 4 : 2;
    }
    float &at(size_t n, size_t i, size_t j)
    {
        return content[n * stride + (order == CUBLASLT_ORDER_COL ? j * leading + i : i * leading + j)];
    }
    void put() /* numbers of the type are those of the content whose lower bits are zero */
    {
        std::vector<char> image(content.size() * size());
        for (size_t i = 0; i < content.size(); i++) {
            if (type == CUDA_R_16BF) content[i] = (float)round_to(content[i], 7);
            memcpy(&image[i * size()], (char *)&content[i] + (4 - size()), size());
        }
        DONE(cudaMemcpyAsync(memory, image.data(), image.size(), cudaMemcpyHostToDevice, stream));
        DONE(cudaStreamSynchronize(stream));
    }
    void take()
    {
        std::vector<char> image(content.size() * size());
        DONE(cudaMemcpyAsync(image.data(), memory, image.size(), cudaMemcpyDeviceToHost, stream));
        DONE(cudaStreamSynchronize(stream));
        memset(&content[0], 0, content.size() * 4);
        for (size_t i = 0; i < content.size(); i++)
            memcpy((char *)&content[i] + (4 - size()), &image[i * size()], size());
    }
};

template <class T> void set(cublasLtMatmulDesc_t op, cublasLtMatmulDescAttributes_t name, T value)
{
    DONE(cublasLtMatmulDescSetAttribute(op, name, &value, sizeof value));
}

template <class T>
void wish(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name, T value)
{
    DONE(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value));
}

static inline int attribute(const cublasLtMatmulAlgo_t &a, cublasLtMatmulAlgoConfigAttributes_t name)
{
    int value = -1;
    size_t written = 0;
    DONE(cublasLtMatmulAlgoConfigGetAttribute(&a, name, &value, sizeof value, &written));
    CHECK(written == sizeof value, "%zu bytes", written);
    return value;
}

struct product {
    matrix a, b, c, d;
    std::vector<float> bias;
    char *bias_memory;
    cublasLtMatmulDesc_t op;
    cublasLtMatmulPreference_t preference;
    size_t m, n, k;
    bool ta, tb;
    float alpha = 0.75f, beta = 0;
    const form &f;

    product(const form &form_, size_t m_, size_t n_, size_t k_, bool ta_ = false, bool tb_ = false,
        size_t batch = 1, cublasLtOrder_t order = CUBLASLT_ORDER_COL)
        : a(form_.in, order, ta_ ? k_ : m_, ta_ ? m_ : k_, batch),
          b(form_.in, CUBLASLT_ORDER_COL, tb_ ? n_ : k_, tb_ ? k_ : n_, batch),
          c(form_.out, order, m_, n_, batch), d(form_.out, order, m_, n_, batch), bias(m_), m(m_), n(n_),
          k(k_), ta(ta_), tb(tb_), f(form_)
    {
        DONE(cudaMalloc((void **)&bias_memory, m * 4));
        std::vector<char> image;
        for (float &x : bias) {
            x = (float)round_to(random_number(), f.out_bits);
            image.insert(image.end(), (char *)&x + (4 - c.size()), (char *)&x + 4);
        }
        DONE(cudaMemcpyAsync(bias_memory, image.data(), image.size(), cudaMemcpyHostToDevice, stream));
        DONE(cudaStreamSynchronize(stream));
        DONE(cublasLtMatmulDescCreate(&op, f.compute, CUDA_R_32F));
        set(op, CUBLASLT_MATMUL_DESC_TRANSA, (int32_t)(ta ? CUBLAS_OP_T : CUBLAS_OP_N));
        set(op, CUBLASLT_MATMUL_DESC_TRANSB, (int32_t)(tb ? CUBLAS_OP_T : CUBLAS_OP_N));
        DONE(cublasLtMatmulPreferenceCreate(&preference));
        wish(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)WORKSPACE);
    }
    ~product()
    {
        DONE(cublasLtMatmulDescDestroy(op));
        DONE(cublasLtMatmulPreferenceDestroy(preference));
        DONE(cudaFree(bias_memory));
    }
    void add_bias()
    {
        set(op, CUBLASLT_MATMUL_DESC_EPILOGUE, (uint32_t)CUBLASLT_EPILOGUE_BIAS);
        set(op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, (const void *)bias_memory);
    }
    std::vector<cublasLtMatmulHeuristicResult_t> offers(cublasStatus_t expected = CUBLAS_STATUS_SUCCESS)
    {
        std::vector<cublasLtMatmulHeuristicResult_t> list(32), good;
        int count = 0;
        const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
            handle, op, a.layout, b.layout, c.layout, d.layout, preference, 32, list.data(), &count);
        CHECK(status == expected && (count > 0) == (status == 0), "status %d, %d algorithms", status, count);
        for (int i = 0; i < count; i++)
            if (list[i].state == CUBLAS_STATUS_SUCCESS) good.push_back(list[i]);
        return good;
    }
    cublasStatus_t run(
        const cublasLtMatmulAlgo_t *algo, matrix &result, size_t bytes = WORKSPACE, size_t shift = 0)
    {
        float now_alpha = alpha, now_beta = beta;
        const cublasStatus_t status =
            cublasLtMatmul(handle, op, &now_alpha, a.memory + shift, a.layout, b.memory, b.layout, &now_beta,
                c.memory, c.layout, result.memory, result.layout, algo, workspace, bytes, stream);
        now_alpha = now_beta = NAN; /* they were read */
        return status;
    }
    /* The largest error of `found`, as a multiple of what rounding explains. */
    double error(matrix &found, const std::vector<float> &addend, bool with_bias)
    {
        double worst = 0;
        for (size_t batch = 0; batch < d.batch; batch++)
            for (size_t i = 0; i < m; i++)
                for (size_t j = 0; j < n; j++) {
                    double sum = 0, size = 0;
                    for (size_t l = 0; l < k; l++) {
                        const double x = round_to(ta ? a.at(batch, l, i) : a.at(batch, i, l), f.in_bits);
                        const double y = round_to(tb ? b.at(batch, j, l) : b.at(batch, l, j), f.in_bits);
                        sum += x * y;
                        size += std::fabs(x * y);
                    }
                    const size_t at = (size_t)(&found.at(batch, i, j) - &found.content[0]);
                    double expected = alpha * sum + (with_bias ? bias[i] : 0);
                    if (beta != 0) expected += beta * (double)addend[at], size += std::fabs(addend[at]);
                    const double unit = (double)(k + 4) * 0x1p-24 * (size + 1) +
                                        std::ldexp(std::fabs(expected), -1 - f.out_bits);
                    const double error = std::fabs(found.content[at] - expected) / unit;
                    if (!(error <= worst)) worst = error; /* a NaN is the worst */
                }
        return worst;
    }
};

static inline void open_library()
{
    DONE(cublasLtCreate(&handle));
    DONE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    DONE(cudaMalloc(&workspace, WORKSPACE));
}

static inline int close_library()
{
    DONE(cudaFree(workspace));
    DONE(cudaStreamDestroy(stream));
    DONE(cublasLtDestroy(handle));
    return check_result();
}
