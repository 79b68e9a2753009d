/* The scalar definition of every kernel, in plain loops: the arithmetic contract as code. Each optimised
   kernel gives these bits. Arguments are as in device.h; memory is ordinary memory. Where elements are NaN
   their payload is open. */
#pragma once
#include "device/device.h"

void definition_gemm(const struct gemm *g);
void definition_attention_forward(const struct attention *a);
void definition_attention_backward(const struct attention *a);

void definition_norm_forward(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    float *y, float *mean, float *rstd);
void definition_norm_again(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    const float *mean, const float *rstd, float *y);
void definition_norm_backward(size_t n, size_t h, const float *dy, const float *x, const float *gain,
    const float *mean, const float *rstd, const float *residual, float *dx);
void definition_norm_columns(size_t n, size_t h, const float *dy, const float *x, const float *mean,
    const float *rstd, float *dgain, float *dbias, bool accumulate);
void definition_column_sum(size_t n, size_t columns, const float *x, float *sum, bool accumulate);
void definition_gelu_forward(size_t count, const float *u, float *g);
void definition_gelu_backward(size_t count, const float *u, const float *dg, float *g, float *du);
void definition_loss(size_t n, size_t h, const float *out, const float *target, float inverse_count,
    float *dout, float *loss, bool accumulate);
void definition_random(const struct random *key, size_t count, float *x);
void definition_digest(size_t count, const float *x, uint64_t first_index, struct digest *result);
