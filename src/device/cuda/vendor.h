/* What vendor.c and vendor_attention.c share: products by cublasLt, each shape planned once.

   A shape's algorithm is chosen at its first use, the first that cublasLt's heuristic offers which does not
   split k, and kept: the same device model, number of SMs, library and driver give the same choice, and so
   the same bits, in every run. */
#pragma once
#include "device/cuda/cuda_device.h"
#include <cublasLt.h>

enum {
    VENDOR_WORKSPACE = 32 << 20, /* bytes; the same for every shape */
    VENDOR_ALIGNMENT = 256       /* of tensors, bytes */
};

/* `batch` row-major products C[m,n] = op(A) op(B) (+ C') (+ bias), forms as in enum gemm_form. All members
   are of one size: shapes are compared as bytes. */
struct product {
    size_t form;
    size_t half; /* 1: A and B are bf16, else fp32; C is fp32 */
    size_t m, n, k;
    size_t a_row, b_row, c_row;           /* elements from row to row, as stored */
    size_t batch, a_next, b_next, c_next; /* and from matrix to matrix */
    size_t a_align, b_align, c_align; /* bytes that every matrix's address is a multiple of; at most 256 */
    size_t add;                       /* 1: C' [m,n] is added, of C's layout */
    size_t apart;                     /* 1: C' may be other memory than C */
    size_t bias;                      /* 1: bias [n], 256-byte aligned, is added to each row */
};

/* A shape with its algorithm, for as long as the device is open. */
struct plan {
    struct product shape;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    char line[320]; /* what it is, for the listing */
};

struct vendor {
    struct cuda_device *device;
    cublasLtHandle_t handle;
    int target; /* SMs that algorithms are chosen for */
    void *workspace;
    /* bf16: where operands are made. NULL else. */
    uint16_t *a_operand, *b_operand;
    size_t a_count, b_count; /* elements */
    /* Of attention: [heads, queries, keys] of a block. s, dp: fp32; p, ds: as products read them. */
    float *s, *dp;
    void *p, *ds;
    size_t block_count;
    struct plan *plans; /* grows at a shape's first use alone */
    int count;
    char prefix[192]; /* of device.arithmetic, before the algorithms */
};

/* Whether the environment leaves cuBLAS alone; else one line in *error naming the variable. */
bool vendor_environment(struct text *error);

/* Bytes of device memory that vendor_open takes. */
size_t vendor_scratch(const struct device_request *request);

/* addend is C', may be C and is NULL where none is added. Enqueued; nothing is allocated but at a shape's
 * first use. */
void vendor_product(struct vendor *vendor, const struct product *shape, const void *a, const void *b,
    const float *bias, const float *addend, float *c);

/* vendor_plan.c. A plan is for one shape, not yet one of vendor->plans; without an algorithm it fails the
 * job. */
struct plan vendor_plan(const struct vendor *vendor, const struct product *shape);
void vendor_plan_free(struct plan *plan);
void vendor_run(const struct vendor *vendor, const struct plan *plan, const void *a, const void *b,
    const float *bias, const float *addend, float *c);
/* The shape of one product of dense matrices, to which nothing is added. */
struct product vendor_dense(enum gemm_form form, size_t m, size_t n, size_t k, bool half);

/* How attention is cut: `heads` heads and `queries` queries at a time, so that heads * queries * sequence is
   at most `most`, where one query of one head is not more already. */
struct attention_block {
    size_t heads, queries;
};
struct attention_block attention_block(size_t heads, size_t sequence, size_t most);

/* Fails the job with the call's text, place and error where a cublasLt call fails. */
#define VENDOR_CALL(call) vendor_result((call), #call, __FILE__, __LINE__)
void vendor_result(cublasStatus_t status, const char *call, const char *file, int line);
