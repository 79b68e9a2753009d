/* A shape's plan: its descriptors, and the first algorithm that keeps every sum whole. */
#include "device/cuda/vendor.h"
#include <stdio.h>
#include <stdlib.h>

enum { CANDIDATES = 64, HALF_ALIGNMENT = 128 };

struct product vendor_dense(enum gemm_form form, size_t m, size_t n, size_t k, bool half)
{
    return (struct product){ .form = form,
        .half = half,
        .m = m,
        .n = n,
        .k = k,
        .a_row = form == GEMM_TN ? m : k,
        .b_row = form == GEMM_NT ? k : n,
        .c_row = n,
        .batch = 1,
        .a_align = VENDOR_ALIGNMENT,
        .b_align = half ? HALF_ALIGNMENT
                        : VENDOR_ALIGNMENT, /* it may lie within a block of weights, at half its bytes */
        .c_align = VENDOR_ALIGNMENT };
}

/* A row-major matrix as cublasLt sees it: column-major, that is transposed. */
static cublasLtMatrixLayout_t layout(
    cudaDataType_t type, size_t rows, size_t columns, size_t row, size_t batch, size_t next)
{
    cublasLtMatrixLayout_t made;
    VENDOR_CALL(cublasLtMatrixLayoutCreate(&made, type, columns, rows, (int64_t)row));
    const int32_t matrices = (int32_t)batch;
    const int64_t stride = (int64_t)next;
    VENDOR_CALL(cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices, sizeof matrices));
    VENDOR_CALL(cublasLtMatrixLayoutSetAttribute(
        made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
    return made;
}

static void set_operation(
    cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which, const void *value, size_t size)
{
    VENDOR_CALL(cublasLtMatmulDescSetAttribute(operation, which, value, size));
}

/* C = A B in rows is C^T = B^T A^T in columns: B comes first. */
static cublasLtMatmulDesc_t operation_for(const struct vendor *vendor, const struct product *shape)
{
    const cublasComputeType_t compute = vendor->device->request.precision == PRECISION_TF32
                                            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                            : CUBLAS_COMPUTE_32F;
    const int32_t first = shape->form == GEMM_NT ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t second = shape->form == GEMM_TN ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t target = vendor->target, type = CUDA_R_32F;
    const uint32_t epilogue = shape->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    const void *aligned = vendor->workspace; /* in place of a bias: only its alignment is looked at */
    cublasLtMatmulDesc_t made;
    VENDOR_CALL(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F));
    set_operation(made, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set_operation(made, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    set_operation(made, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &target, sizeof target);
    set_operation(made, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!shape->bias) return made;
    set_operation(made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned, sizeof aligned);
    set_operation(made, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    return made;
}

static cublasLtMatmulPreference_t preference_for(const struct product *shape)
{
    const uint64_t workspace = VENDOR_WORKSPACE;
    const uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_NONE;
    const uint32_t a = (uint32_t)shape->b_align, b = (uint32_t)shape->a_align, c = (uint32_t)shape->c_align;
    const struct {
        cublasLtMatmulPreferenceAttributes_t which;
        const void *value;
        size_t size;
    } set[] = { { CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace },
        { CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme, sizeof scheme },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &a, sizeof a },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &b, sizeof b },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &c, sizeof c },
        { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &c, sizeof c } };
    cublasLtMatmulPreference_t made;
    VENDOR_CALL(cublasLtMatmulPreferenceCreate(&made));
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        VENDOR_CALL(cublasLtMatmulPreferenceSetAttribute(made, set[i].which, set[i].value, set[i].size));
    return made;
}

/* An attribute of an algorithm, of `size` bytes (2 or 4). */
static unsigned attribute(
    const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulAlgoConfigAttributes_t which, size_t size)
{
    uint32_t word = 0;
    uint16_t half = 0;
    size_t written;
    VENDOR_CALL(cublasLtMatmulAlgoConfigGetAttribute(
        algorithm, which, size == sizeof half ? (void *)&half : (void *)&word, size, &written));
    return size == sizeof half ? half : word;
}

/* Whether the algorithm makes each output in one sequence over k, as the mask asked; and where C' is other
   memory than C, whether it can. */
static bool is_fit(const struct product *shape, const cublasLtMatmulHeuristicResult_t *result)
{
    const cublasLtMatmulAlgo_t *algorithm = &result->algo;
    if (result->state != CUBLAS_STATUS_SUCCESS || result->workspaceSize > VENDOR_WORKSPACE) return false;
    if (attribute(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4) != 1) return false;
    if (attribute(algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4) != CUBLASLT_REDUCTION_SCHEME_NONE)
        return false;
    if (!shape->add || !shape->apart) return true;
    int32_t out_of_place = 0;
    size_t written;
    VENDOR_CALL(cublasLtMatmulAlgoCapGetAttribute(algorithm, CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT,
        &out_of_place, sizeof out_of_place, &written));
    return out_of_place != 0;
}

/* "TN 8192x24576x2048 bf16 + C: algorithm 66, tile 20, ..." : the shape is m x n x k. */
static void write_line(const struct vendor *vendor, struct plan *plan, size_t workspace)
{
    static const char *const forms[] = { [GEMM_NN] = "NN", [GEMM_NT] = "NT", [GEMM_TN] = "TN" };
    static const char *const precisions[] = {
        [PRECISION_FP32] = "fp32", [PRECISION_TF32] = "tf32", [PRECISION_BF16] = "bf16"
    };
    const struct product *s = &plan->shape;
    const cublasLtMatmulAlgo_t *g = &plan->algorithm;
    int length = snprintf(plan->line, sizeof plan->line, "%s %zux%zux%zu %s", forms[s->form], s->m, s->n,
        s->k, precisions[vendor->device->request.precision]);
    const size_t room = sizeof plan->line;
    if (s->batch > 1)
        length += snprintf(plan->line + length, room - (size_t)length, " batch %zu rows %zu %zu %zu",
            s->batch, s->a_row, s->b_row, s->c_row);
    snprintf(plan->line + length, room - (size_t)length,
        "%s%s: algorithm %u, tile %u, stages %u, split-k %u, reduction %u, swizzle %u, custom %u, inner %u, "
        "cluster %u, "
        "workspace %zu",
        s->bias ? " + bias" : "",
        !s->add    ? ""
        : s->apart ? " + C'"
                   : " + C",
        attribute(g, CUBLASLT_ALGO_CONFIG_ID, 4), attribute(g, CUBLASLT_ALGO_CONFIG_TILE_ID, 4),
        attribute(g, CUBLASLT_ALGO_CONFIG_STAGES_ID, 4), attribute(g, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4),
        attribute(g, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4),
        attribute(g, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4),
        attribute(g, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4),
        attribute(g, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2),
        attribute(g, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2), workspace);
}

struct plan vendor_plan(const struct vendor *vendor, const struct product *shape)
{
    const struct product *s = shape;
    const cudaDataType_t type = s->half ? CUDA_R_16BF : CUDA_R_32F;
    const bool a_turned = s->form == GEMM_TN, b_turned = s->form == GEMM_NT; /* how they are stored */
    struct plan plan = { .shape = *s, .operation = operation_for(vendor, s) };
    plan.a = layout(type, a_turned ? s->k : s->m, a_turned ? s->m : s->k, s->a_row, s->batch, s->a_next);
    plan.b = layout(type, b_turned ? s->n : s->k, b_turned ? s->k : s->n, s->b_row, s->batch, s->b_next);
    plan.c = layout(CUDA_R_32F, s->m, s->n, s->c_row, s->batch, s->c_next);

    cublasLtMatmulPreference_t preference = preference_for(s);
    cublasLtMatmulHeuristicResult_t *offered = allocate(CANDIDATES, sizeof *offered);
    int count = 0, chosen = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(vendor->handle, plan.operation, plan.b,
        plan.a, plan.c, plan.c, preference, CANDIDATES, offered, &count);
    if (status != CUBLAS_STATUS_SUCCESS) count = 0;
    while (chosen < count && !is_fit(s, &offered[chosen])) chosen++;
    if (chosen == count)
        fail("mode 'vendor': of %d algorithms cublasLt has none for %zux%zux%zu (form %zu, batch %zu) that "
             "keeps each "
             "sum whole (%s); mode='portable' computes this shape",
            count, s->m, s->n, s->k, s->form, s->batch, cublasLtGetStatusString(status));
    plan.algorithm = offered[chosen].algo;
    write_line(vendor, &plan, offered[chosen].workspaceSize);
    free(offered);
    VENDOR_CALL(cublasLtMatmulPreferenceDestroy(preference));
    return plan;
}

void vendor_plan_free(struct plan *plan)
{
    VENDOR_CALL(cublasLtMatmulDescDestroy(plan->operation));
    VENDOR_CALL(cublasLtMatrixLayoutDestroy(plan->a));
    VENDOR_CALL(cublasLtMatrixLayoutDestroy(plan->b));
    VENDOR_CALL(cublasLtMatrixLayoutDestroy(plan->c));
}

void vendor_run(const struct vendor *vendor, const struct plan *plan, const void *a, const void *b,
    const float *bias, const float *addend, float *c)
{
    const float one = 1.0f, zero = 0.0f;
    if (bias) set_operation(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    VENDOR_CALL(cublasLtMatmul(vendor->handle, plan->operation, &one, b, plan->b, a, plan->a,
        addend ? &one : &zero, addend ? addend : c, plan->c, c, plan->c, &plan->algorithm, vendor->workspace,
        VENDOR_WORKSPACE, vendor->device->compute));
}
