/* The double's cublasLt: handles, descriptors and attributes. Each kind of descriptor has a table of the
   attributes that the double knows. */
#include "cublaslt_parts.h"
#include <cstddef>
#include <cstring>
#include <new>

struct cublasLtContext {
    int unused;
};

namespace
{

struct attribute {
    int name;
    size_t offset, bytes;
};
#define FIELD(name, type, field)                                                                             \
    {                                                                                                        \
        name, offsetof(type, field), sizeof(type::field)                                                     \
    }

const attribute layout_attributes[] = {
    FIELD(CUBLASLT_MATRIX_LAYOUT_TYPE, layout, type),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ORDER, layout, order),
    FIELD(CUBLASLT_MATRIX_LAYOUT_ROWS, layout, rows),
    FIELD(CUBLASLT_MATRIX_LAYOUT_COLS, layout, columns),
    FIELD(CUBLASLT_MATRIX_LAYOUT_LD, layout, leading),
    FIELD(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout, batch),
    FIELD(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout, stride),
};

const attribute operation_attributes[] = {
    FIELD(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, operation, compute),
    FIELD(CUBLASLT_MATMUL_DESC_SCALE_TYPE, operation, scale),
    FIELD(CUBLASLT_MATMUL_DESC_POINTER_MODE, operation, pointer_mode),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSA, operation, transpose_a),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSB, operation, transpose_b),
    FIELD(CUBLASLT_MATMUL_DESC_TRANSC, operation, transpose_c),
    FIELD(CUBLASLT_MATMUL_DESC_EPILOGUE, operation, epilogue),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_POINTER, operation, bias),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, operation, bias_stride),
    FIELD(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, operation, bias_type),
    FIELD(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, operation, sm_count_target),
};

const attribute preference_attributes[] = {
    FIELD(CUBLASLT_MATMUL_PREF_SEARCH_MODE, preference, search),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference, workspace),
    FIELD(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, preference, reduction_schemes),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference, alignment[0]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference, alignment[1]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference, alignment[2]),
    FIELD(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference, alignment[3]),
    FIELD(CUBLASLT_MATMUL_PREF_MAX_WAVES_COUNT, preference, waves),
    FIELD(CUBLASLT_MATMUL_PREF_IMPL_MASK, preference, implementations),
};

const attribute algorithm_attributes[] = {
    FIELD(CUBLASLT_ALGO_CONFIG_ID, algorithm, id),
    FIELD(CUBLASLT_ALGO_CONFIG_TILE_ID, algorithm, tile),
    FIELD(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, algorithm, split_k),
    FIELD(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, algorithm, reduction_scheme),
    FIELD(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, algorithm, swizzle),
    FIELD(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, algorithm, custom),
    FIELD(CUBLASLT_ALGO_CONFIG_STAGES_ID, algorithm, stages),
    FIELD(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, algorithm, inner),
    FIELD(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, algorithm, cluster),
};

template <size_t count> const attribute *find(const attribute (&table)[count], int name)
{
    for (const attribute &a : table)
        if (a.name == name) return &a;
    return nullptr;
}

/* An attribute that the table lacks is one that the double does not have. */
cublasStatus_t set(void *object, const attribute *a, const void *value, size_t bytes)
{
    if (!object || !value) return CUBLAS_STATUS_INVALID_VALUE;
    if (!a) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (bytes != a->bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((char *)object + a->offset, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

/* With bytes = 0: how many are needed. */
cublasStatus_t get(const void *object, const attribute *a, void *value, size_t bytes, size_t *written)
{
    if (!object || (bytes ? !value : !written)) return CUBLAS_STATUS_INVALID_VALUE;
    if (!a) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (bytes && bytes != a->bytes) return CUBLAS_STATUS_INVALID_VALUE;
    if (bytes) memcpy(value, (const char *)object + a->offset, bytes);
    if (written) *written = a->bytes;
    return CUBLAS_STATUS_SUCCESS;
}

/* Memory of the opaque type's size, so that a descriptor can be copied as its owner may. */
template <class Opaque, class Meaning> cublasStatus_t create(Opaque **result, const Meaning &meaning)
{
    if (!result) return CUBLAS_STATUS_INVALID_VALUE;
    *result = new (std::nothrow) Opaque();
    if (!*result) return CUBLAS_STATUS_ALLOC_FAILED;
    memcpy((void *)*result, &meaning, sizeof meaning);
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new cublasLtContext();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
    { CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success" },
    { CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "no handle" },
    { CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "no memory" },
    { CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
        "a parameter is wrong or contradicts another" },
    { CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the library has no such operation" },
};

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    for (auto &s : statuses)
        if (s.status == status) return s.name;
    return "an unknown status";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    for (auto &s : statuses)
        if (s.status == status) return s.text;
    return "an unknown status";
}

/* --- Layouts --- */

cublasStatus_t cublasLtMatrixLayoutCreate(
    cublasLtMatrixLayout_t *result, cudaDataType type, uint64_t rows, uint64_t columns, int64_t leading)
{
    layout l = {};
    l.type = type;
    l.rows = rows;
    l.columns = columns;
    l.leading = leading;
    l.batch = 1;
    return create(result, l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(
    cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t name, const void *value, size_t bytes)
{
    return set(l, find(layout_attributes, name), value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t l,
    cublasLtMatrixLayoutAttribute_t name, void *value, size_t bytes, size_t *written)
{
    return get(l, find(layout_attributes, name), value, bytes, written);
}

/* --- Operations --- */

cublasStatus_t cublasLtMatmulDescCreate(
    cublasLtMatmulDesc_t *result, cublasComputeType_t compute, cudaDataType_t scale)
{
    operation o = {};
    o.compute = compute;
    o.scale = scale;
    o.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    o.bias_type = -1;
    return create(result, o);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t o)
{
    delete o;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(
    cublasLtMatmulDesc_t o, cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes)
{
    return set(o, find(operation_attributes, name), value, bytes);
}

cublasStatus_t cublasLtMatmulDescGetAttribute(
    cublasLtMatmulDesc_t o, cublasLtMatmulDescAttributes_t name, void *value, size_t bytes, size_t *written)
{
    return get(o, find(operation_attributes, name), value, bytes, written);
}

/* --- Preferences --- */

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *result)
{
    preference p = {};
    p.reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    p.implementations = ~(uint64_t)0;
    for (uint32_t &a : p.alignment) a = 256;
    return create(result, p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t name, const void *value, size_t bytes)
{
    return set(p, find(preference_attributes, name), value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t p,
    cublasLtMatmulPreferenceAttributes_t name, void *value, size_t bytes, size_t *written)
{
    return get(p, find(preference_attributes, name), value, bytes, written);
}

/* --- Algorithms --- */

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(
    cublasLtMatmulAlgo_t *a, cublasLtMatmulAlgoConfigAttributes_t name, const void *value, size_t bytes)
{
    if (name == CUBLASLT_ALGO_CONFIG_ID) return CUBLAS_STATUS_INVALID_VALUE; /* it is read only */
    return set(a, find(algorithm_attributes, name), value, bytes);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *a,
    cublasLtMatmulAlgoConfigAttributes_t name, void *value, size_t bytes, size_t *written)
{
    return get(a, find(algorithm_attributes, name), value, bytes, written);
}

} /* extern "C" */
