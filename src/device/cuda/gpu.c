/* Which GPU a rank computes on, whether it can be used, and what there is to say of it. */
#include "device/cuda/cuda_parts.h"
#include "device/kinds.h"
#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How the GPUs that a process sees may have been narrowed down. */
static const char *visible(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    return list ? list : "not set";
}

static bool count_gpus(int *count, struct text *error)
{
    const cudaError_t result = cudaGetDeviceCount(count);
    if (result == cudaSuccess && *count > 0) return true;
    cudaGetLastError(); /* said here: it shall not be found again after a launch */
    if (result == cudaSuccess || result == cudaErrorNoDevice) {
        text_add(error,
            "device 'cuda': the driver shows no GPU (CUDA_VISIBLE_DEVICES: %s); ask the batch system for "
            "one, or "
            "use device='host'",
            visible());
    } else if (result == cudaErrorInsufficientDriver) {
        int driver = 0, runtime = 0;
        cudaDriverGetVersion(&driver);
        cudaRuntimeGetVersion(&runtime);
        if (driver == 0)
            text_add(error,
                "device 'cuda': no NVIDIA driver is loaded here; ask for a node with GPUs, or use "
                "device='host'");
        else
            text_add(error,
                "device 'cuda': the driver is for CUDA %d.%d but this build is for %d.%d: update the driver, "
                "or "
                "build with an older toolkit",
                driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    } else {
        text_add(error, "device 'cuda': CUDA does not start: %s; does nvidia-smi work here?",
            cudaGetErrorString(result));
    }
    return false;
}

static int attribute(enum cudaDeviceAttr which, int ordinal)
{
    int value = 0;
    CUDA_CALL(cudaDeviceGetAttribute(&value, which, ordinal));
    return value;
}

bool gpu_find(int local_rank, struct gpu *gpu, struct text *error)
{
    int count = 0;
    if (!count_gpus(&count, error)) return false;
    *gpu = (struct gpu){ .ordinal = local_rank % count };
    const cudaError_t result = cudaSetDevice(gpu->ordinal);
    if (result != cudaSuccess) {
        cudaGetLastError();
        text_add(error,
            "device 'cuda': GPU %d of %d cannot be used: %s; see its compute mode and processes in "
            "nvidia-smi",
            gpu->ordinal, count, cudaGetErrorString(result));
        return false;
    }
    struct cudaDeviceProp properties;
    CUDA_CALL(cudaGetDeviceProperties(&properties, gpu->ordinal));
    snprintf(gpu->name, sizeof gpu->name, "%.99s", properties.name);
    gpu->major = properties.major, gpu->minor = properties.minor;
    gpu->sms = properties.multiProcessorCount;
    if (!properties.unifiedAddressing) {
        text_add(error, "device 'cuda': GPU %d (%s) shares no address space with the host, which is needed",
            gpu->ordinal, gpu->name);
        return false;
    }
    return true;
}

/* As nvidia-smi writes it. */
static void write_uuid(const struct cudaDeviceProp *properties, char *uuid, size_t size)
{
    const size_t groups[] = { 4, 2, 2, 2, 6 };
    size_t byte = 0, length = (size_t)snprintf(uuid, size, "GPU");
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        length += (size_t)snprintf(uuid + length, size - length, "-");
        for (size_t i = 0; i < groups[g]; i++, byte++)
            length += (size_t)snprintf(
                uuid + length, size - length, "%02x", (unsigned char)properties->uuid.bytes[byte]);
    }
}

void gpu_describe(const struct gpu *gpu, struct device *device)
{
    struct cudaDeviceProp properties;
    CUDA_CALL(cudaGetDeviceProperties(&properties, gpu->ordinal));
    snprintf(device->name, sizeof device->name, "%s, sm_%d%d, %d SMs", gpu->name, gpu->major, gpu->minor,
        gpu->sms);
    write_uuid(&properties, device->uuid, sizeof device->uuid);
    const int clock = attribute(cudaDevAttrClockRate, gpu->ordinal); /* kHz, the highest that it can be */
    const int memory = attribute(cudaDevAttrMemoryClockRate, gpu->ordinal);
    snprintf(device->place, sizeof device->place, "%04x:%02x:%02x.0, %d SMs, %d MHz, memory %d MHz",
        (unsigned)properties.pciDomainID, (unsigned)properties.pciBusID, (unsigned)properties.pciDeviceID,
        gpu->sms, clock / 1000, memory / 1000);
}

void cuda_libraries(struct text *list)
{
    int runtime = 0, driver = 0;
    cudaRuntimeGetVersion(&runtime);
    const bool known = cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0;
    const size_t products = cublasLtGetVersion();
    text_add(list, "CUDA %d.%d", runtime / 1000, runtime % 1000 / 10);
    if (known)
        text_add(list, " (driver of %d.%d)", driver / 1000, driver % 1000 / 10);
    else
        text_add(list, " (no driver here)");
    text_add(list, "; cuBLASLt %zu.%zu.%zu; ", products / 10000, products / 100 % 100, products % 100);
}

void gpu_driver(char version[32])
{
    FILE *file = fopen("/sys/module/nvidia/version", "r");
    const bool found = file && fscanf(file, "%31s", version) == 1;
    if (file) fclose(file);
    if (found) return;
    int driver = 0;
    CUDA_CALL(cudaDriverGetVersion(&driver));
    snprintf(version, 32, "of CUDA %d.%d", driver / 1000, driver % 1000 / 10);
}
