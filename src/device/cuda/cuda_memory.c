/* Memory of a GPU, pinned memory of the host, and copies. */
#include "device/cuda/cuda_parts.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

void *cuda_scratch(size_t bytes)
{
    void *memory = NULL;
    if (cudaMalloc(&memory, bytes ? bytes : 1) == cudaSuccess) return memory;
    size_t left = 0, total = 0;
    cudaGetLastError();
    cudaMemGetInfo(&left, &total);
    fail("device 'cuda': out of memory: %zu bytes, of which the GPU has %zu free of %zu", bytes, left, total);
}

static void remember(struct opened *self, void *memory, size_t bytes, bool pinned)
{
    struct block *block = allocate(1, sizeof *block);
    *block = (struct block){ .next = self->blocks, .memory = memory, .bytes = bytes, .pinned = pinned };
    self->blocks = block;
}

/* The bytes of a block, which is remembered no longer. */
static size_t forget(struct opened *self, const void *memory, bool pinned)
{
    struct block **link = &self->blocks;
    while (*link && ((*link)->memory != memory || (*link)->pinned != pinned)) link = &(*link)->next;
    struct block *block = *link;
    assert(block); /* else it is not this device's, or was released before */
    const size_t bytes = block->bytes;
    *link = block->next;
    free(block);
    return bytes;
}

static bool is_pinned(const struct opened *self, const void *memory)
{
    const char *address = memory;
    for (const struct block *b = self->blocks; b; b = b->next)
        if (b->pinned && address >= (char *)b->memory && address < (char *)b->memory + b->bytes) return true;
    return false;
}

static void *allocate_memory(struct device *device, size_t bytes)
{
    struct opened *self = opened_of(device);
    cuda_use(&self->cuda);
    void *memory = cuda_scratch(bytes);
    CUDA_CALL(cudaMemsetAsync(memory, 0, bytes, self->cuda.compute));
    remember(self, memory, bytes, false);
    self->cuda.held += bytes;
    return memory;
}

static void release_memory(struct device *device, void *memory)
{
    if (!memory) return;
    struct opened *self = opened_of(device);
    self->cuda.held -= forget(self, memory, false);
    CUDA_CALL(cudaFree(memory));
}

static size_t held(const struct device *device)
{
    return ((const struct cuda_device *)device)->held;
}

static void copy(struct device *device, void *to, const void *from, size_t bytes)
{
    CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, cuda_of(device)->compute));
}

static void download(struct device *device, void *host, const void *from, size_t bytes)
{
    const struct cuda_device *self = cuda_of(device);
    CUDA_CALL(cudaMemcpyAsync(host, from, bytes, cudaMemcpyDeviceToHost, self->compute));
    CUDA_CALL(cudaStreamSynchronize(self->compute));
}

static void upload(struct device *device, void *to, const void *host, size_t bytes)
{
    const struct cuda_device *self = cuda_of(device);
    CUDA_CALL(cudaMemcpyAsync(to, host, bytes, cudaMemcpyHostToDevice, self->compute));
    CUDA_CALL(cudaStreamSynchronize(self->compute));
}

static void zero(struct device *device, void *memory, size_t bytes)
{
    CUDA_CALL(cudaMemsetAsync(memory, 0, bytes, cuda_of(device)->compute));
}

/* Mapped, since kernels store words into it. Under unified addressing the GPU sees it at the host's address,
   which is checked here once and relied upon by store_word. */
static void *allocate_pinned(struct device *device, size_t bytes)
{
    struct opened *self = opened_of(device);
    cuda_use(&self->cuda);
    void *memory = NULL, *seen = NULL;
    const cudaError_t result =
        cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocPortable | cudaHostAllocMapped);
    if (result != cudaSuccess)
        fail("device 'cuda': no %zu bytes of pinned memory: %s; see ulimit -l", bytes,
            cudaGetErrorString(result));
    CUDA_CALL(cudaHostGetDevicePointer(&seen, memory, 0));
    if (seen != memory) fail("device 'cuda': the GPU sees pinned memory at another address than the host");
    memset(memory, 0, bytes);
    remember(self, memory, bytes, true);
    return memory;
}

static void release_pinned(struct device *device, void *memory)
{
    if (!memory) return;
    forget(opened_of(device), memory, true);
    CUDA_CALL(cudaFreeHost(memory));
}

/* A stream each way, so that copies pass each other. In each they are made in the order in which they are
   asked for: one whose `after` is not reached holds back those behind it. */
static void copy_beside(
    struct device *device, void *to, const void *from, size_t bytes, struct event *after, struct event *done)
{
    const struct opened *self = opened_of(device);
    const bool back = is_pinned(self, to);
    assert(back || is_pinned(self, from));
    const cudaStream_t stream = back ? self->beside_back : self->cuda.beside;
    cuda_use(&self->cuda);
    if (after) CUDA_CALL(cudaStreamWaitEvent(stream, after->event, 0));
    CUDA_CALL(
        cudaMemcpyAsync(to, from, bytes, back ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream));
    CUDA_CALL(cudaEventRecord(done->event, stream));
}

void cuda_memory_close(struct opened *self)
{
    for (struct block *block; (block = self->blocks);) {
        CUDA_CALL(block->pinned ? cudaFreeHost(block->memory) : cudaFree(block->memory));
        self->blocks = block->next;
        free(block);
    }
}

void cuda_memory_functions(struct device *device)
{
    device->allocate = allocate_memory;
    device->release = release_memory;
    device->held = held;
    device->copy = copy;
    device->download = download;
    device->upload = upload;
    device->zero = zero;
    device->allocate_pinned = allocate_pinned;
    device->release_pinned = release_pinned;
    device->copy_beside = copy_beside;
}
