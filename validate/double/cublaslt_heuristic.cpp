/* The double's cublasLt: which products there are, which algorithms can do them, and which of these it
 * offers. */
#include "cublaslt_parts.h"
#include <atomic>
#include <climits>
#include <cstring>
#include <vector>

namespace
{

/* What the algorithms are. Each adds up a product's terms in another order, so that those who rely on the
   bits of one fail with another. */
const struct kind {
    int id, lanes;
    uint32_t alignment;          /* bytes, of each operand and of each of its rows or columns; 0: any */
    bool splits_k, out_of_place; /* out of place: C may be other memory than D */
    size_t workspace;
} kinds[] = {
    { 0, 8, 0, false, true, 0 },
    { 6, 16, 0, true, false, 0 },
    { 21, 32, 16, true, true, 0 },
    { 66, 24, 16, true, true, 65536 },
};

std::atomic<bool> misbehaves;

const kind *kind_of(int id)
{
    for (const kind &k : kinds)
        if (k.id == id) return &k;
    return nullptr;
}

template <class Meaning, class Opaque> Meaning meaning_of(const Opaque &opaque)
{
    Meaning meaning;
    memcpy(&meaning, &opaque, sizeof meaning);
    return meaning;
}

/* The combinations of types that cublasLt's documentation lists and the program uses. */
bool is_supported(int32_t compute, int32_t scale, uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    if (scale != CUDA_R_32F || a != b || c != d) return false;
    const bool plain = compute == CUBLAS_COMPUTE_32F || compute == CUBLAS_COMPUTE_32F_PEDANTIC;
    if (a == CUDA_R_32F) return d == CUDA_R_32F && (plain || compute == CUBLAS_COMPUTE_32F_FAST_TF32);
    return a == CUDA_R_16BF && plain && (d == CUDA_R_16BF || d == CUDA_R_32F);
}

cublasStatus_t check_layout(const layout &l)
{
    if (l.order != CUBLASLT_ORDER_COL && l.order != CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (l.rows > INT_MAX || l.columns > INT_MAX) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!l.rows || !l.columns || l.batch < 1 || l.stride < 0) return CUBLAS_STATUS_INVALID_VALUE;
    const uint64_t run = l.order == CUBLASLT_ORDER_COL ? l.rows : l.columns;
    return l.leading < (int64_t)run ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

bool is_same(const layout &a, const layout &b)
{
    return a.rows == b.rows && a.columns == b.columns && a.batch == b.batch;
}

algorithm configure(
    const problem &p, const kind &kind, int split_k, uint32_t scheme, const uint32_t alignment[4])
{
    algorithm a = {};
    a.mark = ALGORITHM_MARK;
    a.id = kind.id;
    a.tile = CUBLASLT_MATMUL_TILE_64x64;
    a.split_k = split_k;
    a.reduction_scheme = scheme;
    a.compute = p.op.compute;
    const layout *const layouts[] = { &p.a, &p.b, &p.c, &p.d };
    for (int i = 0; i < 4; i++) {
        a.type[i] = (uint8_t)layouts[i]->type;
        a.alignment[i] = (uint16_t)(alignment[i] > 256 ? 256 : alignment[i]);
    }
    return a;
}

/* The algorithms for a problem, the one that is estimated the fastest first. */
std::vector<algorithm> candidates(const problem &p, const preference &wish)
{
    std::vector<algorithm> list;
    const size_t count = sizeof kinds / sizeof kinds[0];
    const size_t first = p.m + 3 * p.n + 5 * p.k + (size_t)p.op.sm_count_target;
    for (int pass = 0; pass < 2; pass++) /* first those that split k: they fill a GPU better */
        for (size_t i = 0; i < count; i++) {
            const kind &k = kinds[(first + i) % count];
            static const uint32_t schemes[] = { CUBLASLT_REDUCTION_SCHEME_INPLACE,
                CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE };
            const uint32_t scheme = pass ? 0u : schemes[i % 3];
            if (!pass && (!k.splits_k || p.k < 4)) continue;
            const bool is_against_mask = scheme && !(scheme & wish.reduction_schemes);
            const algorithm a = configure(p, k, pass ? 1 : 4, scheme, wish.alignment);
            size_t workspace = 0;
            if (cublaslt_can(p, a, &workspace) != CUBLAS_STATUS_SUCCESS) continue;
            const bool is_over = workspace > wish.workspace;
            if ((is_over || is_against_mask) && !misbehaves) continue;
            list.push_back(a);
        }
    return list;
}

} // namespace

int cublaslt_lanes(int id)
{
    return kind_of(id)->lanes;
}

bool cublaslt_out_of_place(int id)
{
    return kind_of(id)->out_of_place;
}

cublasStatus_t cublaslt_problem(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, problem *result)
{
    if (!op || !a || !b || !c || !d) return CUBLAS_STATUS_INVALID_VALUE;
    problem p = { meaning_of<operation>(*op), meaning_of<layout>(*a), meaning_of<layout>(*b),
        meaning_of<layout>(*c), meaning_of<layout>(*d), 0, 0, 0 };
    for (const layout *l : { &p.a, &p.b, &p.c, &p.d })
        if (cublasStatus_t status = check_layout(*l)) return status;
    const bool ta = p.op.transpose_a == CUBLAS_OP_T, tb = p.op.transpose_b == CUBLAS_OP_T;
    if ((!ta && p.op.transpose_a != CUBLAS_OP_N) || (!tb && p.op.transpose_b != CUBLAS_OP_N) ||
        p.op.transpose_c != CUBLAS_OP_N || p.op.pointer_mode != CUBLASLT_POINTER_MODE_HOST)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (!is_supported(p.op.compute, p.op.scale, p.a.type, p.b.type, p.c.type, p.d.type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.op.epilogue != CUBLASLT_EPILOGUE_DEFAULT && p.op.epilogue != CUBLASLT_EPILOGUE_BIAS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.op.bias_type != -1 && p.op.bias_type != (int32_t)p.d.type) return CUBLAS_STATUS_NOT_SUPPORTED;

    p.m = p.d.rows;
    p.n = p.d.columns;
    p.k = ta ? p.a.rows : p.a.columns;
    const size_t a_m = ta ? p.a.columns : p.a.rows, b_n = tb ? p.b.rows : p.b.columns;
    const size_t b_k = tb ? p.b.columns : p.b.rows;
    if (a_m != p.m || b_n != p.n || b_k != p.k || !is_same(p.c, p.d)) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.a.batch != p.d.batch || p.b.batch != p.d.batch) return CUBLAS_STATUS_INVALID_VALUE;
    if (p.d.batch > 1 && !p.d.stride) return CUBLAS_STATUS_INVALID_VALUE; /* all into one matrix */
    *result = p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublaslt_can(const problem &p, const algorithm &a, size_t *workspace)
{
    const kind *k = kind_of(a.id);
    if (a.mark != ALGORITHM_MARK || !k) return CUBLAS_STATUS_INVALID_VALUE;
    const layout *const layouts[] = { &p.a, &p.b, &p.c, &p.d };
    if (a.compute != p.op.compute) return CUBLAS_STATUS_INVALID_VALUE;
    for (int i = 0; i < 4; i++) {
        if (a.type[i] != layouts[i]->type) return CUBLAS_STATUS_INVALID_VALUE;
        if (!k->alignment) continue;
        const size_t size = cublaslt_size(layouts[i]->type);
        const bool strides_fit =
            (size_t)layouts[i]->leading * size % k->alignment == 0 &&
            (layouts[i]->batch == 1 || (size_t)layouts[i]->stride * size % k->alignment == 0);
        if (a.alignment[i] < k->alignment || !strides_fit) return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (a.split_k < 1 || (a.split_k > 1) != (a.reduction_scheme != 0)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (a.split_k > 1 && (!k->splits_k || (size_t)a.split_k > p.k)) return CUBLAS_STATUS_NOT_SUPPORTED;
    *workspace = k->workspace;
    if (a.split_k > 1)
        *workspace += a.reduction_scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE
                          ? 4096
                          : (size_t)a.split_k * p.m * p.n * (size_t)p.d.batch * sizeof(float);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublaslt_choose(
    const problem &p, size_t workspace, const uint32_t alignment[4], bool out_of_place, algorithm *result)
{
    preference wish = {};
    wish.workspace = workspace;
    wish.reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    for (int i = 0; i < 4; i++) wish.alignment[i] = alignment[i];
    for (const algorithm &a : candidates(p, wish)) {
        if (out_of_place && !cublaslt_out_of_place(a.id)) continue;
        *result = a;
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t wish, int requested, cublasLtMatmulHeuristicResult_t results[], int *returned)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!wish || requested < 1 || !results || !returned) return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    problem p;
    if (cublasStatus_t status = cublaslt_problem(op, a, b, c, d, &p)) return status;
    const preference w = meaning_of<preference>(*wish);
    if (w.search != CUBLASLT_SEARCH_BEST_FIT) return CUBLAS_STATUS_NOT_SUPPORTED;
    const std::vector<algorithm> list = candidates(p, w);
    if (list.empty()) return CUBLAS_STATUS_NOT_SUPPORTED;
    for (size_t i = 0; i < list.size() && *returned < requested; i++) {
        cublasLtMatmulHeuristicResult_t &r = results[(*returned)++];
        r = {};
        memcpy((void *)&r.algo, &list[i], sizeof list[i]);
        r.state = cublaslt_can(p, list[i], &r.workspaceSize);
        r.wavesCount = 0.5f;
        if (*returned == 1 && *returned < requested) { /* a result may be none: that is what `state` is for */
            cublasLtMatmulHeuristicResult_t &none = results[(*returned)++];
            none = {};
            none.state = CUBLAS_STATUS_NOT_SUPPORTED;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute,
    cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d,
    int requested, int ids[], int *returned)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested < 1 || !ids || !returned) return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported(compute, scale, a, b, c, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    *returned = 0;
    for (const kind &k : kinds)
        if (*returned < requested) ids[(*returned)++] = k.id;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
    cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id,
    cublasLtMatmulAlgo_t *algo)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !kind_of(id)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_supported(compute, scale, a, b, c, d)) return CUBLAS_STATUS_NOT_SUPPORTED;
    problem p = {};
    p.op.compute = compute;
    p.a.type = a;
    p.b.type = b;
    p.c.type = c;
    p.d.type = d;
    const uint32_t alignment[4] = { 16, 16, 16, 16 };
    const algorithm made = configure(p, *kind_of(id), 1, CUBLASLT_REDUCTION_SCHEME_NONE, alignment);
    *algo = {};
    memcpy((void *)algo, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t op,
    cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *result)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !result) return CUBLAS_STATUS_INVALID_VALUE;
    problem p;
    if (cublasStatus_t status = cublaslt_problem(op, a, b, c, d, &p)) return status;
    result->state = cublaslt_can(p, meaning_of<algorithm>(*algo), &result->workspaceSize);
    result->wavesCount = 0.5f;
    return result->state;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
    cublasLtMatmulAlgoCapAttributes_t name, void *value, size_t bytes, size_t *written)
{
    if (!algo || (bytes ? !value : !written)) return CUBLAS_STATUS_INVALID_VALUE;
    const algorithm a = meaning_of<algorithm>(*algo);
    const kind *k = kind_of(a.id);
    if (a.mark != ALGORITHM_MARK || !k) return CUBLAS_STATUS_INVALID_VALUE;
    const struct {
        cublasLtMatmulAlgoCapAttributes_t name;
        uint32_t value;
    } all[] = { { CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, k->splits_k },
        { CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK,
            k->splits_k ? (uint32_t)CUBLASLT_REDUCTION_SCHEME_MASK : 0 },
        { CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT, 1 },
        { CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT, k->out_of_place } };
    for (auto &c : all) {
        if (c.name != name) continue;
        if (bytes && bytes != sizeof c.value) return CUBLAS_STATUS_INVALID_VALUE;
        if (bytes) memcpy(value, &c.value, sizeof c.value);
        if (written) *written = sizeof c.value;
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

void double_cublaslt_misbehave(int misbehave)
{
    misbehaves = misbehave;
}

} /* extern "C" */
