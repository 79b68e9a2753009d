/* The host device's kernels, compiled once for each instruction set: every file of this folder that holds
   kernels is built as one object a variant, with -DVARIANT=avx512 (avx2, generic) and that variant's flags,
   and KERNEL(f) names its copy. Bits do not depend on the variant nor on the number of threads: threads share
   out outputs only. */
#pragma once
#include "device/device.h"
#include "device/team.h"

#define KERNEL_JOIN_(name, variant) name##_##variant
#define KERNEL_JOIN(name, variant) KERNEL_JOIN_(name, variant)
#define KERNEL(name) KERNEL_JOIN(name, VARIANT)

/* Memory that kernels need beside their arguments, allocated once when the device is opened. */
struct host_scratch {
    int threads;
    float *own; /* threads * own_stride floats: what each needs for itself, gemm and attention in turn */
    size_t own_stride;
    /* Called between a kernel's blocks, tens of microseconds to a millisecond apart, by the thread that asked
       for it; NULL: nothing. */
    void (*meanwhile)(void *argument);
    void *meanwhile_argument;
};

struct host_kernels {
    const char *variant;
    size_t (*own_size)(const struct device_request *request); /* floats a thread, for the request's sizes */

    void (*gemm)(const struct gemm *gemm, const struct host_scratch *scratch); /* gemm.c */
    void (*attention_forward)(
        const struct attention *attention, const struct host_scratch *scratch); /* attention.c */
    void (*attention_backward)(
        const struct attention *attention, const struct host_scratch *scratch); /* attention.c */
    void (*peak)(
        double seconds, double *rate); /* peak.c: FLOP/s, added to *rate; called as those below are */

    /* rows.c, columns.c, elements.c, digest.c: as in device.h, called by all threads of a team (IN_TEAM),
       which share the work and leave it together; row_sums: n floats */
    void (*norm_forward)(size_t n, size_t h, const float *x, const float *gain, const float *bias, float *y,
        float *mean, float *rstd);
    void (*norm_again)(size_t n, size_t h, const float *x, const float *gain, const float *bias,
        const float *mean, const float *rstd, float *y);
    void (*norm_backward)(size_t n, size_t h, const float *dy, const float *x, const float *gain,
        const float *mean, const float *rstd, const float *residual, float *dx);
    void (*norm_columns)(size_t n, size_t h, const float *dy, const float *x, const float *mean,
        const float *rstd, float *dgain, float *dbias, bool accumulate);
    void (*column_sum)(size_t n, size_t columns, const float *x, float *sum, bool accumulate);
    void (*gelu_forward)(size_t count, const float *u, float *g);
    void (*gelu_backward)(size_t count, const float *u, const float *dg, float *g, float *du);
    void (*loss)(size_t n, size_t h, const float *out, const float *target, float inverse_count, float *dout,
        float *loss, bool accumulate, float *row_sums);
    void (*random)(const struct random *key, size_t count, float *x);
    void (*digest)(size_t count, const float *x, uint64_t first_index, struct digest *result);
};

extern const struct host_kernels host_kernels_avx512, host_kernels_avx2, host_kernels_generic;

#if defined(VARIANT) /* inside a variant's objects: the kernels by name, put into the table by table.c */
size_t KERNEL(gemm_own_size)(const struct device_request *request);
size_t KERNEL(attention_own_size)(const struct device_request *request);
void KERNEL(gemm)(const struct gemm *gemm, const struct host_scratch *scratch);
void KERNEL(attention_forward)(const struct attention *attention, const struct host_scratch *scratch);
void KERNEL(attention_backward)(const struct attention *attention, const struct host_scratch *scratch);
void KERNEL(peak)(double seconds, double *rate);
void KERNEL(norm_forward)(size_t n, size_t h, const float *x, const float *gain, const float *bias, float *y,
    float *mean, float *rstd);
void KERNEL(norm_again)(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    const float *mean, const float *rstd, float *y);
void KERNEL(norm_backward)(size_t n, size_t h, const float *dy, const float *x, const float *gain,
    const float *mean, const float *rstd, const float *residual, float *dx);
void KERNEL(norm_columns)(size_t n, size_t h, const float *dy, const float *x, const float *mean,
    const float *rstd, float *dgain, float *dbias, bool accumulate);
void KERNEL(column_sum)(size_t n, size_t columns, const float *x, float *sum, bool accumulate);
void KERNEL(gelu_forward)(size_t count, const float *u, float *g);
void KERNEL(gelu_backward)(size_t count, const float *u, const float *dg, float *g, float *du);
void KERNEL(loss)(size_t n, size_t h, const float *out, const float *target, float inverse_count, float *dout,
    float *loss, bool accumulate, float *row_sums);
void KERNEL(random)(const struct random *key, size_t count, float *x);
void KERNEL(digest)(size_t count, const float *x, uint64_t first_index, struct digest *result);
extern const struct host_kernels KERNEL(host_kernels);
#endif
