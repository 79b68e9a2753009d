/* The launches of the CUDA kernels, as C calls them. Each enqueues on `stream` and returns; none allocates or
   waits. A launch that fails fails the job, with the name of the kernel. Shapes and results are those of
   device.h. */
#pragma once
#include "device/device.h"
#include <cuda_runtime_api.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Fails the job where the launch before it failed. */
void cuda_launched(const char *kernel);

/* gemm.cu. prepare: once a device, before the first launch: what the kernels need set (shared memory). */
void cuda_gemm_prepare(void);
void cuda_gemm(cudaStream_t stream, const struct gemm *gemm);

/* attention.cu */
void cuda_attention_prepare(void);
void cuda_attention_forward(cudaStream_t stream, const struct attention *attention);
void cuda_attention_backward(cudaStream_t stream, const struct attention *attention);

/* rows.cu: one warp a row. */
void cuda_norm_forward(cudaStream_t stream, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, float *y, float *mean, float *rstd);
void cuda_norm_again(cudaStream_t stream, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, const float *mean, const float *rstd, float *y);
void cuda_norm_backward(cudaStream_t stream, size_t n, size_t h, const float *dy, const float *x,
    const float *gain, const float *mean, const float *rstd, const float *residual, float *dx);
/* row_loss [n]: scratch, the row sums. */
void cuda_loss(cudaStream_t stream, size_t n, size_t h, const float *out, const float *target,
    float inverse_count, float *dout, float *row_loss, float *loss, bool accumulate);

/* columns.cu */
void cuda_norm_columns(cudaStream_t stream, size_t n, size_t h, const float *dy, const float *x,
    const float *mean, const float *rstd, float *dgain, float *dbias, bool accumulate);
void cuda_column_sum(
    cudaStream_t stream, size_t n, size_t columns, const float *x, float *sum, bool accumulate);

/* elements.cu */
void cuda_gelu_forward(cudaStream_t stream, size_t count, const float *u, float *g);
void cuda_gelu_backward(
    cudaStream_t stream, size_t count, const float *u, const float *dg, float *g, float *du);
void cuda_random(cudaStream_t stream, const struct random *key, size_t count, float *x);
void cuda_flip_bit(cudaStream_t stream, float *x, uint64_t element, int bit);
void cuda_store_word(cudaStream_t stream, int *word, int value); /* word: as the device sees pinned memory */
/* bf16, by round to nearest even: in place; to and from 2-byte elements. A NaN stays one. */
void cuda_round_bf16(cudaStream_t stream, size_t count, float *x);
void cuda_to_bf16(cudaStream_t stream, size_t count, const float *x, uint16_t *y);
void cuda_from_bf16(cudaStream_t stream, size_t count, const uint16_t *x, float *y);

/* digest.cu: one pass at memory rate. partial [CUDA_DIGEST_PARTS]: scratch, any content. */
enum { CUDA_DIGEST_PARTS = 1024 };
void cuda_digest(cudaStream_t stream, size_t count, const float *x, uint64_t first_index,
    struct digest *partial, struct digest *result);

/* peak.cu: independent FMAs in registers, 2 * `fmas` FLOPs a thread; sink [1] keeps them from being left out.
   The number of threads launched. */
size_t cuda_fma_loop(cudaStream_t stream, int sms, int fmas, float *sink);

/* vendor_rows.cu: what stands between the products of vendor attention (vendor_attention.c). `heads` blocks
   of scores [queries, keys], row stride `keys`, of query rows first .. first + queries - 1 against keys 0 ..
   keys - 1; half: P and dS are written as bf16 (uint16_t), else fp32. What lies above the diagonal becomes 0.
   maximum, inverse and row_dot: [heads, sequence]. */
void cuda_softmax_rows(cudaStream_t stream, size_t heads, size_t sequence, size_t first, size_t queries,
    size_t keys, float scale, const float *scores, void *p, bool half, float *maximum, float *inverse);
/* P again from the saved maximum and inverse, and dS = P (dP - D) * scale. */
void cuda_softmax_rows_backward(cudaStream_t stream, size_t heads, size_t sequence, size_t first,
    size_t queries, size_t keys, float scale, const float *scores, const float *dp, const float *maximum,
    const float *inverse, const float *row_dot, void *p, void *ds, bool half);
/* D of every row: over the columns of each head of out and dout [batch * sequence, hidden]. */
void cuda_row_dot(cudaStream_t stream, const struct attention *attention);

#if defined(__cplusplus)
}
#endif
