/* What channel/nccl.c and the files of this folder know of an open CUDA device. Its compute stream is the
   only one that kernels run on. */
#pragma once
#include "device/device.h"
#include <cuda_runtime_api.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* An event that records a time. */
struct event {
    cudaEvent_t event;
};

struct vendor;

struct cuda_device {
    struct device device; /* first, so that a struct device * is a pointer to all of it */
    struct device_request request;
    int ordinal, sms;
    cudaStream_t compute, beside; /* beside: of copy_beside */
    cudaEvent_t origin;           /* event times count from it ... */
    double origin_seconds;        /* ... which was then on the host's clock */
    size_t held;
    float *row_loss;        /* [n] scratch */
    struct digest *partial; /* [CUDA_DIGEST_PARTS] scratch */
    struct vendor *vendor;  /* NULL in mode 'portable' */
};

/* Fails the job with the call's text, place and error where a CUDA call fails. */
#define CUDA_CALL(call) cuda_result((call), #call, __FILE__, __LINE__)
void cuda_result(cudaError_t result, const char *call, const char *file, int line);

/* The device as cuda_device; asserts that it is one. */
struct cuda_device *cuda_of(struct device *device);
/* Records the event at the end of another stream's work. */
void cuda_record_on(struct event *event, cudaStream_t stream);

/* vendor.c: cublasLt. Opened by the device in mode 'vendor'; writes device.arithmetic and adds to
 * device.scratch. */
struct vendor *vendor_open(struct cuda_device *device);
void vendor_close(struct vendor *vendor);
void vendor_describe(const struct vendor *vendor, struct text *lines);
void vendor_gemm(struct vendor *vendor, const struct gemm *gemm);
double vendor_rate(struct vendor *vendor); /* of a large product, FLOP/s */
/* vendor_attention.c */
void vendor_attention_forward(struct vendor *vendor, const struct attention *attention);
void vendor_attention_backward(struct vendor *vendor, const struct attention *attention);

#if defined(__cplusplus)
}
#endif
