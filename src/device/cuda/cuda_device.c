/* The CUDA device: chooses a GPU, refuses what cannot work on it while that costs nothing yet, and owns its
   streams and scratch memory. */
#include "device/cuda/cuda_parts.h"
#include "device/cuda/kernels.h"
#include "device/cuda/vendor.h"
#include "device/host/control.h"
#include "device/kinds.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const bool cuda_is_built = true;

struct cuda_device *cuda_of(struct device *device)
{
    assert(strcmp(device->kind, "cuda") == 0);
    return (struct cuda_device *)device;
}

void cuda_use(const struct cuda_device *cuda)
{
    static _Thread_local int current = -1; /* of this thread: the call is not free */
    if (current == cuda->ordinal) return;
    CUDA_CALL(cudaSetDevice(cuda->ordinal));
    current = cuda->ordinal;
}

static void close_device(struct device *device)
{
    struct opened *self = opened_of(device);
    device->synchronize(device);
    if (self->cuda.vendor) vendor_close(self->cuda.vendor);
    cuda_memory_close(self);
    CUDA_CALL(cudaFree(self->cuda.row_loss));
    CUDA_CALL(cudaFree(self->cuda.partial));
    CUDA_CALL(cudaEventDestroy(self->cuda.origin));
    CUDA_CALL(cudaEventDestroy(self->probe));
    CUDA_CALL(cudaStreamDestroy(self->cuda.compute));
    CUDA_CALL(cudaStreamDestroy(self->cuda.beside));
    CUDA_CALL(cudaStreamDestroy(self->beside_back));
    free(self);
}

static void describe(const struct device *device, struct text *lines)
{
    const struct cuda_device *self = (const struct cuda_device *)device;
    if (self->vendor) vendor_describe(self->vendor, lines);
}

/* Nothing that runs can change how a GPU rounds: every operation names its rounding, and what it does with
   denormals was fixed when it was compiled. The host's part (attention's scale, the loss's factor) is
   computed here. */
static void check_arithmetic(struct device *device)
{
    (void)device;
    control_check(1);
}

static bool has_code_for(const struct gpu *gpu, cudaStream_t stream, struct text *error)
{
    const cudaError_t result = cuda_first_launch(stream);
    if (result == cudaSuccess) return true;
    cudaGetLastError();
    text_add(error, "device 'cuda': GPU %d (%s, sm_%d%d): ", gpu->ordinal, gpu->name, gpu->major, gpu->minor);
    if (result == cudaErrorNoKernelImageForDevice || result == cudaErrorInvalidDeviceFunction ||
        result == cudaErrorUnsupportedPtxVersion)
        text_add(error, "this build has no code for it: build with -DCMAKE_CUDA_ARCHITECTURES=%d%d",
            gpu->major, gpu->minor);
    else
        text_add(error, "its first kernel fails: %s (%s); does nvidia-smi show it healthy?",
            cudaGetErrorString(result), cudaGetErrorName(result));
    return false;
}

/* Of the loss's scratch: one float a token. */
static size_t row_bytes(const struct device_request *request)
{
    return checked_product(
        checked_product((size_t)request->microbatch_size, (size_t)request->sequence, "tokens"), sizeof(float),
        "scratch memory");
}

static bool has_room(
    const struct device_request *request, const struct gpu *gpu, size_t scratch, struct text *error)
{
    size_t left, total;
    CUDA_CALL(cudaMemGetInfo(&left, &total));
    if (scratch <= left && request->bytes <= left - scratch) return true;
    text_add(error,
        "device 'cuda': %.3f GB of tensors and %.3f GB of scratch memory do not fit GPU %d (%s), which has "
        "%.3f of "
        "%.3f GB free: take more ranks, a smaller model or a smaller microbatch",
        1e-9 * (double)request->bytes, 1e-9 * (double)scratch, gpu->ordinal, gpu->name, 1e-9 * (double)left,
        1e-9 * (double)total);
    return false;
}

static bool leaves_sms(const struct device_request *request, const struct gpu *gpu, struct text *error)
{
    if (!request->vendor || request->reserved_sms < gpu->sms) return true;
    text_add(error,
        "mode 'vendor': %d SMs left to messages (4 * pipeline.channel_ctas) are all of GPU %d (%s), which "
        "has %d: must be "
        "at most %d; nearest pipeline.channel_ctas=%d",
        request->reserved_sms, gpu->ordinal, gpu->name, gpu->sms, gpu->sms - 1, (gpu->sms - 1) / 4);
    return false;
}

static void open_streams(struct opened *self)
{
    int lowest, highest;
    CUDA_CALL(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    CUDA_CALL(cudaStreamCreateWithPriority(&self->cuda.compute, cudaStreamNonBlocking, lowest));
    CUDA_CALL(cudaStreamCreateWithPriority(&self->cuda.beside, cudaStreamNonBlocking, highest));
    CUDA_CALL(cudaStreamCreateWithPriority(&self->beside_back, cudaStreamNonBlocking, highest));
    CUDA_CALL(cudaEventCreateWithFlags(&self->cuda.origin, cudaEventDefault));
    CUDA_CALL(cudaEventCreateWithFlags(&self->probe, cudaEventDefault));
}

static void set_functions(struct device *device)
{
    device->close = close_device;
    device->describe = describe;
    device->check_arithmetic = check_arithmetic;
    device->measure_peak = cuda_measure_peak;
    device->measure_copy = cuda_measure_copy;
    cuda_memory_functions(device);
    cuda_event_functions(device);
    cuda_kernel_functions(device);
}

bool cuda_device_open(const struct device_request *request, struct device **device, struct text *error)
{
    assert(request->local_rank >= 0 && (request->vendor || request->precision == PRECISION_FP32));
    if (request->vendor && !vendor_environment(error)) return false;
    /* One hardware queue a stream, for messages must pass each other; read when CUDA starts. */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    struct gpu gpu;
    if (!gpu_find(request->local_rank, &gpu, error)) return false;
    const size_t rows = row_bytes(request), partial = CUDA_DIGEST_PARTS * sizeof(struct digest);
    const size_t vendor = request->vendor ? vendor_scratch(request) : 0;
    if (!leaves_sms(request, &gpu, error) || !has_room(request, &gpu, rows + partial + vendor, error))
        return false;

    struct opened *self = allocate(1, sizeof *self);
    struct device *d = &self->cuda.device;
    self->cuda.request = *request;
    self->cuda.ordinal = gpu.ordinal, self->cuda.sms = gpu.sms;
    cuda_use(&self->cuda);
    open_streams(self);
    snprintf(self->variant, sizeof self->variant, "sm_%d%d", gpu.major, gpu.minor);
    snprintf(d->arithmetic, sizeof d->arithmetic, "portable");
    d->kind = "cuda";
    d->variant = self->variant;
    d->threads = 1;
    d->precision = request->precision;
    d->scratch = rows + partial;
    gpu_describe(&gpu, d);
    set_functions(d);
    if (!has_code_for(&gpu, self->cuda.compute, error)) {
        free(self); /* what CUDA holds it may no longer take back: it ends with the process */
        return false;
    }
    cuda_gemm_prepare();
    cuda_attention_prepare();
    self->cuda.row_loss = cuda_scratch(rows);
    self->cuda.partial = cuda_scratch(partial);
    if (request->vendor) self->cuda.vendor = vendor_open(&self->cuda);
    d->start_clock(d);
    *device = d;
    return true;
}
