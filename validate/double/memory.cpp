/* The CUDA runtime's functions about memory. Device memory is the host's, so that a host function which
   follows a pointer into it is not caught; copies are: each pointer is looked up. */
#include "state.h"
#include "touch.h"
#include <cstdlib>
#include <cstring>
#include <map>

namespace
{
enum place { PAGEABLE, PINNED, DEVICE, BEYOND /* starts in an allocation and ends past it */ };

struct block {
    size_t bytes;
    enum place place;
    int device;
    bool registered; /* the program's own memory, pinned by cudaHostRegister */
};
/* Never destroyed: at exit other parts may still call. */
auto &blocks = *new std::map<uintptr_t, block>; /* by first address */
auto &in_use = *new std::map<int, size_t>;      /* bytes, by device */

size_t memory_of_device()
{
    return (size_t)environment_number("DOUBLE_MEMORY_MIB", 1, 1l << 30, 8192) << 20;
}

/* The allocation that the address lies in, or ends; NULL: none. */
const block *find(const void *memory, uintptr_t *begin)
{
    auto next = blocks.upper_bound((uintptr_t)memory);
    if (next == blocks.begin()) return nullptr;
    --next;
    if ((uintptr_t)memory > next->first + next->second.bytes) return nullptr;
    *begin = next->first;
    return &next->second;
}

enum place place_of(const void *memory, size_t bytes)
{
    const double_lock lock;
    uintptr_t begin = 0;
    const block *found = find(memory, &begin);
    if (!found || ((uintptr_t)memory == begin + found->bytes && bytes > 0)) return PAGEABLE;
    return (uintptr_t)memory + bytes <= begin + found->bytes ? found->place : BEYOND;
}

/* bytes of NaNs; NULL where there is no memory */
void *allocate_block(size_t bytes, enum place place)
{
    void *memory = nullptr;
    if (posix_memalign(&memory, 256, bytes ? bytes : 1) != 0) return nullptr;
    memset(memory, 0xff, bytes);
    const double_lock lock;
    blocks[(uintptr_t)memory] = { bytes, place, current_device(), false };
    allocations++;
    return memory;
}

cudaError_t free_block(void *memory, enum place place)
{
    if (!memory) return cudaSuccess;
    {
        const double_lock lock;
        const auto found = blocks.find((uintptr_t)memory);
        if (found == blocks.end() || found->second.place != place || found->second.registered)
            return remember(cudaErrorInvalidValue);
        /* As the real one: what runs may still use it. */
        synchronizations++;
        wait_for_device(found->second.device);
        if (place == DEVICE) in_use[found->second.device] -= found->second.bytes;
        blocks.erase((uintptr_t)memory);
    }
    free(memory);
    return cudaSuccess;
}

const char *const place_names[] = { "pageable host memory", "pinned host memory", "device memory",
    "memory past the end of an allocation" };

bool is_host(enum place place)
{
    return place == PAGEABLE || place == PINNED;
}

cudaError_t copy(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t handle, bool wait)
{
    CUstream_st *stream = stream_of(handle);
    if (!stream) return remember(cudaErrorInvalidResourceHandle);
    const enum place target = place_of(to, bytes), source = place_of(from, bytes);
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    const bool right =
        target != BEYOND && source != BEYOND &&
        (kind == cudaMemcpyDefault || (is_host(target) != to_device && is_host(source) != from_device));
    if (!right) {
        complaint("a copy of %zu bytes of kind %d goes from %s to %s", bytes, (int)kind, place_names[source],
            place_names[target]);
        return remember(kind > cudaMemcpyDefault ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue);
    }
    if (bytes == 0) return cudaSuccess;
    double_enqueue(handle, { "copy", nullptr, [=] {
                                touch_read(from, bytes);
                                touch_write(to, bytes);
                                memcpy(to, from, bytes);
                            } });
    /* Pageable memory: the real one, too, returns only when that side is done with. */
    if (wait || target == PAGEABLE || source == PAGEABLE) {
        synchronizations++;
        wait_for_stream(stream);
    }
    return cudaSuccess;
}
} // namespace

bool double_is_device(const void *memory, size_t bytes)
{
    return place_of(memory, bytes) == DEVICE;
}

bool double_is_pinned(const void *memory, size_t bytes)
{
    return place_of(memory, bytes) == PINNED;
}

void double_check_argument(const double_launch &launch, int number, const void *pointer)
{
    const double_lock lock;
    uintptr_t begin = 0;
    if (pointer && !find(pointer, &begin))
        failure("kernel '%s': argument %d points to memory that the GPU cannot reach", kernel_name(launch),
            number);
}

extern "C" {

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    const double_lock lock;
    *total = memory_of_device();
    *free = *total - in_use[current_device()];
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    {
        const double_lock lock;
        if (bytes > memory_of_device() - in_use[current_device()]) return remember(cudaErrorMemoryAllocation);
        in_use[current_device()] += bytes;
    }
    *memory = allocate_block(bytes, DEVICE);
    return remember(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void *memory)
{
    return free_block(memory, DEVICE);
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned)
{
    *memory = allocate_block(bytes, PINNED);
    return remember(*memory ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void *memory)
{
    return free_block(memory, PINNED);
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned)
{
    if (!memory || bytes == 0 || place_of(memory, bytes) != PAGEABLE) return remember(cudaErrorInvalidValue);
    const double_lock lock;
    blocks[(uintptr_t)memory] = { bytes, PINNED, current_device(), true };
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *memory)
{
    const double_lock lock;
    const auto found = blocks.find((uintptr_t)memory);
    if (found == blocks.end() || !found->second.registered) return remember(cudaErrorInvalidValue);
    blocks.erase(found);
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned)
{
    if (place_of(host, 0) != PINNED) return remember(cudaErrorInvalidValue);
    *device = host;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *memory)
{
    const double_lock lock;
    uintptr_t begin = 0;
    const block *found = find(memory, &begin);
    memset(attributes, 0, sizeof *attributes);
    attributes->type = !found                   ? cudaMemoryTypeUnregistered
                       : found->place == PINNED ? cudaMemoryTypeHost
                                                : cudaMemoryTypeDevice;
    attributes->device = found ? found->device : -1;
    attributes->devicePointer = found ? const_cast<void *>(memory) : nullptr;
    attributes->hostPointer = found && found->place == DEVICE ? nullptr : const_cast<void *>(memory);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(
    void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    return copy(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    if (!stream_of(stream)) return remember(cudaErrorInvalidResourceHandle);
    const enum place place = place_of(memory, bytes);
    if (place != DEVICE && place != PINNED) {
        complaint("cudaMemsetAsync sets %zu bytes of %s", bytes, place_names[place]);
        return remember(cudaErrorInvalidValue);
    }
    if (bytes > 0)
        double_enqueue(stream, { "memset", nullptr, [=] {
                                    touch_write(memory, bytes);
                                    memset(memory, value, bytes);
                                } });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    return cudaMemsetAsync(memory, value, bytes, nullptr);
}
}
