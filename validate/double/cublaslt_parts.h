/* What the files of the double's cublasLt share. cublaslt.cpp: descriptors and their attributes.
   cublaslt_heuristic.cpp: algorithms and what is refused. cublaslt_product.cpp: the products. */
#pragma once
#include "cublaslt_double.h"
#include <cstdint>

/* The opaque descriptors of cublasLt.h, by their meaning. */
struct layout {
    uint32_t type;
    int32_t order;
    uint64_t rows, columns;
    int64_t leading;
    int64_t stride;
    int32_t batch;
};

struct operation {
    int32_t compute, scale, pointer_mode, transpose_a, transpose_b, transpose_c;
    uint32_t epilogue;
    int32_t bias_type; /* -1: the output's */
    const void *bias;
    int64_t bias_stride;
    int32_t sm_count_target;
};

struct preference {
    uint64_t workspace;
    uint64_t implementations;
    uint32_t search, reduction_schemes;
    uint32_t alignment[4]; /* of A, B, C, D */
    float waves;
};

struct algorithm {
    uint64_t mark; /* ALGORITHM_MARK, where it is one */
    int32_t id, split_k;
    uint32_t tile, reduction_scheme, swizzle, custom, stages;
    uint16_t inner, cluster;
    int32_t compute;
    uint8_t type[4]; /* of A, B, C, D */
    uint16_t alignment[4];
};

static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "layout");
static_assert(sizeof(operation) <= sizeof(cublasLtMatmulDescOpaque_t), "operation");
static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "preference");
static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "algorithm");

static const uint64_t ALGORITHM_MARK = 0x646f75626c65; /* "double" */

/* A product as it is described: D = alpha op(A) op(B) + beta C. */
struct problem {
    operation op;
    layout a, b, c, d;
    size_t m, n, k;
};

/* The problem, or why there is none: INVALID_VALUE where the parts do not fit together, NOT_SUPPORTED where
   cublasLt, or the double, has no such product. */
cublasStatus_t cublaslt_problem(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, problem *result);
/* Whether the algorithm can do it, and the bytes of workspace that it needs. */
cublasStatus_t cublaslt_can(const problem &p, const algorithm &a, size_t *workspace);
/* What cublasLt takes by itself, for pointers so aligned. */
cublasStatus_t cublaslt_choose(
    const problem &p, size_t workspace, const uint32_t alignment[4], bool out_of_place, algorithm *result);
int cublaslt_lanes(int algorithm); /* partial sums that the algorithm adds up */
bool cublaslt_out_of_place(int algorithm);
inline size_t cublaslt_size(uint32_t type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}
