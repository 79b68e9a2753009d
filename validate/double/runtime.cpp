/* The CUDA runtime's functions about devices and errors, and the launch of a kernel. */
#include "state.h"
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

std::atomic<unsigned long> default_stream_uses, allocations, synchronizations;

unsigned long double_default_stream_uses(void)
{
    return default_stream_uses;
}
unsigned long double_allocations(void)
{
    return allocations;
}
unsigned long double_synchronizations(void)
{
    return synchronizations;
}

long environment_number(const char *name, long least, long most, long otherwise)
{
    const char *text = getenv(name);
    if (!text || !*text) return otherwise;
    char *end = nullptr;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (errno || *end || value < least || value > most)
        failure("%s=%s is not a whole number from %ld to %ld", name, text, least, most);
    return value;
}

/* ---- errors: of the calling host thread ---- */
static thread_local cudaError_t last_error = cudaSuccess;
static thread_local int device_in_use;

cudaError_t remember(cudaError_t error)
{
    if (error != cudaSuccess) last_error = error;
    return error;
}

int current_device()
{
    return device_in_use;
}

static int devices()
{
    return (int)environment_number("DOUBLE_DEVICES", 0, 64, 1);
}

static bool is_device(int device)
{
    return device >= 0 && device < devices();
}

static const struct {
    cudaError_t error;
    const char *name, *text; /* the text as the CUDA 13 runtime gives it */
} error_names[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
        "invalid copy direction for memcpy" },
    { cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
};

extern "C" {

const char *cudaGetErrorName(cudaError_t error)
{
    for (const auto &known : error_names)
        if (known.error == error) return known.name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (const auto &known : error_names)
        if (known.error == error) return known.text;
    return "unrecognized error code";
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

/* ---- devices ---- */
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = devices();
    return remember(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
    if (devices() == 0) return remember(cudaErrorNoDevice);
    if (!is_device(device)) return remember(cudaErrorInvalidDevice);
    device_in_use = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = device_in_use;
    return remember(devices() > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDeviceFlags(unsigned)
{
    return cudaSuccess;
}

cudaError_t cudaGetDeviceFlags(unsigned *flags)
{
    *flags = cudaDeviceScheduleAuto | cudaDeviceMapHost;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    if (!is_device(device)) return remember(cudaErrorInvalidDevice);
    return remember(snprintf(text, (size_t)length, "0000:%02X:00.0", device + 1) < length
                        ? cudaSuccess
                        : cudaErrorInvalidValue);
}

/* DOUBLE_UUID (hexadecimal digits, hyphens allowed) plus the device's number, or made of the host's name. */
static void write_uuid(char bytes[16], int device)
{
    memset(bytes, 0, 16);
    if (const char *text = getenv("DOUBLE_UUID")) {
        int digits = 0;
        for (; *text && digits < 32; text++) {
            if (*text == '-') continue;
            const char *all = "0123456789abcdef", *digit = strchr(all, *text | 0x20);
            if (!digit) failure("DOUBLE_UUID: '%c' is no hexadecimal digit", *text);
            bytes[digits / 2] = (char)(bytes[digits / 2] | (digit - all) << (digits % 2 ? 0 : 4));
            digits++;
        }
    } else {
        char name[256] = "";
        gethostname(name, sizeof name - 1);
        unsigned long hash = 0xcbf29ce484222325ul; /* FNV-1a */
        for (const char *c = name; *c; c++) hash = (hash ^ (unsigned char)*c) * 0x100000001b3ul;
        memcpy(bytes, &hash, sizeof hash);
    }
    bytes[15] = (char)(bytes[15] + device);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *it, int device)
{
    if (!is_device(device)) return remember(cudaErrorInvalidDevice);
    size_t free = 0;
    memset(it, 0, sizeof *it);
    strcpy(it->name, "CPU double of a GPU");
    write_uuid(it->uuid.bytes, device);
    cudaMemGetInfo(&free, &it->totalGlobalMem);
    it->sharedMemPerBlock = SHARED_PLAIN;
    it->sharedMemPerBlockOptin = SHARED_OPT_IN;
    it->sharedMemPerMultiprocessor = SHARED_PER_SM;
    it->reservedSharedMemPerBlock = SHARED_RESERVED;
    it->regsPerBlock = it->regsPerMultiprocessor = 65536;
    it->warpSize = 32;
    it->maxThreadsPerBlock = it->maxThreadsDim[0] = it->maxThreadsDim[1] = MAX_THREADS;
    it->maxThreadsDim[2] = MAX_BLOCK_Z;
    it->maxGridSize[0] = 0x7fffffff;
    it->maxGridSize[1] = it->maxGridSize[2] = MAX_GRID_YZ;
    it->maxThreadsPerMultiProcessor = THREADS_PER_SM;
    it->maxBlocksPerMultiProcessor = BLOCKS_PER_SM;
    it->multiProcessorCount = SM_COUNT;
    it->major = 9;
    it->totalConstMem = 64 << 10;
    it->memPitch = 0x7fffffff;
    it->textureAlignment = 512;
    it->l2CacheSize = 1 << 20;
    it->memoryBusWidth = 64;
    it->canMapHostMemory = it->unifiedAddressing = it->concurrentKernels = it->streamPrioritiesSupported = 1;
    it->asyncEngineCount = 2;
    it->pciBusID = device + 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    static const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } values[] = {
        { cudaDevAttrMaxThreadsPerBlock, MAX_THREADS },
        { cudaDevAttrMaxSharedMemoryPerBlock, SHARED_PLAIN },
        { cudaDevAttrMaxSharedMemoryPerBlockOptin, SHARED_OPT_IN },
        { cudaDevAttrMaxSharedMemoryPerMultiprocessor, SHARED_PER_SM },
        { cudaDevAttrReservedSharedMemoryPerBlock, SHARED_RESERVED },
        { cudaDevAttrWarpSize, 32 },
        { cudaDevAttrClockRate, 1000000 },       /* kHz */
        { cudaDevAttrMemoryClockRate, 1000000 }, /* kHz */
        { cudaDevAttrGlobalMemoryBusWidth, 64 },
        { cudaDevAttrL2CacheSize, 1 << 20 },
        { cudaDevAttrMultiProcessorCount, SM_COUNT },
        { cudaDevAttrMaxThreadsPerMultiProcessor, THREADS_PER_SM },
        { cudaDevAttrComputeCapabilityMajor, 9 },
        { cudaDevAttrComputeCapabilityMinor, 0 },
        { cudaDevAttrCanMapHostMemory, 1 },
        { cudaDevAttrUnifiedAddressing, 1 },
        { cudaDevAttrConcurrentKernels, 1 },
        { cudaDevAttrAsyncEngineCount, 2 },
        { cudaDevAttrPciDomainId, 0 },
        { cudaDevAttrPciDeviceId, 0 },
        { cudaDevAttrEccEnabled, 0 },
        { cudaDevAttrComputeMode, cudaComputeModeDefault },
    };
    if (!is_device(device)) return remember(cudaErrorInvalidDevice);
    if (attribute == cudaDevAttrPciBusId) {
        *value = device + 1;
        return cudaSuccess;
    }
    for (const auto &known : values) {
        if (known.attribute != attribute) continue;
        *value = known.value;
        return cudaSuccess;
    }
    complaint("cudaDeviceGetAttribute: attribute %d is not one that the double knows", (int)attribute);
    return remember(cudaErrorInvalidValue);
}

/* ---- kernels ---- */
cudaError_t cudaFuncSetAttribute(const void *kernel, enum cudaFuncAttribute attribute, int value)
{
    const double_lock lock;
    kernel_facts &facts = kernel_of(kernel);
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        (size_t)value + facts.static_shared > SHARED_OPT_IN)
        return remember(cudaErrorInvalidValue);
    facts.max_dynamic = value;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
    const double_lock lock;
    const kernel_facts &facts = kernel_of(kernel);
    memset(attributes, 0, sizeof *attributes);
    attributes->sharedSizeBytes = facts.static_shared;
    attributes->maxDynamicSharedSizeBytes = facts.max_dynamic;
    attributes->maxThreadsPerBlock = MAX_THREADS;
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *kernel, int block_size, size_t dynamic, unsigned)
{
    if (block_size < 1) return remember(cudaErrorInvalidValue);
    const double_lock lock;
    const size_t shared = kernel_of(kernel).static_shared + dynamic;
    const size_t by_threads = THREADS_PER_SM / (((size_t)block_size + 31) / 32 * 32);
    const size_t by_shared = SHARED_PER_SM / (shared + SHARED_RESERVED);
    size_t most = by_threads < by_shared ? by_threads : by_shared;
    if (most > BLOCKS_PER_SM) most = BLOCKS_PER_SM;
    *blocks = block_size > MAX_THREADS || shared > SHARED_OPT_IN ? 0 : (int)most;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(
    int *blocks, const void *kernel, int block_size, size_t dynamic)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, block_size, dynamic, 0);
}
}

static cudaError_t refuse(const double_launch &launch, cudaError_t error, const std::string &why)
{
    complaint("the launch of kernel '%s' is refused: %s", kernel_name(launch), why.c_str());
    return remember(error);
}

static cudaError_t check_launch(const double_launch &launch)
{
    const dim3 &grid = launch.grid, &block = launch.block;
    const auto text = [](const dim3 &d) {
        return "(" + std::to_string(d.x) + ", " + std::to_string(d.y) + ", " + std::to_string(d.z) + ")";
    };
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffu || grid.y > MAX_GRID_YZ ||
        grid.z > MAX_GRID_YZ)
        return refuse(launch, cudaErrorInvalidConfiguration,
            "a grid of " + text(grid) + " blocks; at least 1 each way, at most (2147483647, 65535, 65535)");
    if (block.x < 1 || block.y < 1 || block.z < 1 || block.z > MAX_BLOCK_Z || block.x > MAX_THREADS ||
        block.y > MAX_THREADS || block.x * block.y * block.z > MAX_THREADS)
        return refuse(launch, cudaErrorInvalidConfiguration,
            "a block of " + text(block) + " threads; at least 1 each way, at most 64 in z and 1024 in all");
    const kernel_facts &facts = kernel_of(launch.kernel);
    const size_t all = launch.shared_bytes + facts.static_shared;
    if (launch.shared_bytes > (size_t)facts.max_dynamic ||
        all > (facts.max_dynamic > SHARED_PLAIN ? SHARED_OPT_IN : SHARED_PLAIN))
        return refuse(launch, cudaErrorInvalidValue,
            std::to_string(launch.shared_bytes) + " bytes of dynamic and " +
                std::to_string(facts.static_shared) +
                " of static shared memory; at most 49152 in all, or what was asked for by "
                "cudaFuncSetAttribute");
    return cudaSuccess;
}

void double_enqueue_grid(const double_launch &launch, std::unique_ptr<double_body> body)
{
    CUstream_st *stream = stream_of(launch.stream);
    if (!stream) {
        refuse(launch, cudaErrorInvalidResourceHandle, "no such stream");
        return;
    }
    {
        const double_lock lock;
        if (check_launch(launch) != cudaSuccess) return;
    }
    double_operation operation;
    operation.name = kernel_name(launch);
    operation.run = [launch, stream, body = std::shared_ptr<double_body>(std::move(body))] {
        run_grid(launch, *body, stream);
    };
    double_enqueue(stream, std::move(operation));
}
