/* What the files of the open CUDA device share among themselves. */
#pragma once
#include "device/cuda/cuda_device.h"

#if defined(__cplusplus)
extern "C" {
#endif

struct block {
    struct block *next;
    void *memory;
    size_t bytes;
    bool pinned;
};

/* All of an open CUDA device; cuda_of's result is a pointer to it. */
struct opened {
    struct cuda_device cuda; /* first */
    char variant[16];
    struct block *blocks; /* that allocate and allocate_pinned gave; changed by the thread that set them up */
    cudaStream_t
        beside_back;   /* of copy_beside from the device to the host; the other way it is cuda.beside */
    cudaEvent_t probe; /* of start_clock */
};

static inline struct opened *opened_of(struct device *device)
{
    return (struct opened *)cuda_of(device);
}

/* Makes the device the calling thread's, whose CUDA calls otherwise go to device 0. */
void cuda_use(const struct cuda_device *cuda);

/* gpu.c: which GPU, and what there is to say of it. */
struct gpu {
    int ordinal, major, minor, sms;
    char name[100]; /* "NVIDIA H200" */
};
/* The GPU of this rank, made the calling thread's. False with one line in *error where there is none that can
   be used. */
bool gpu_find(int local_rank, struct gpu *gpu, struct text *error);
/* Fills in name, uuid and place. */
void gpu_describe(const struct gpu *gpu, struct device *device);
/* "580.65.06": the kernel driver's version, or that of the CUDA it was made for. */
void gpu_driver(char version[32]);

/* first_launch.cu: launches a kernel that does nothing and waits for it: whether this build has code for the
 * GPU. */
cudaError_t cuda_first_launch(cudaStream_t stream);

/* Fill in their parts of the table. */
void cuda_memory_functions(struct device *device);
void cuda_event_functions(struct device *device);
void cuda_kernel_functions(struct device *device);
/* cuda_peak.c: the entries of the same names; without memory for them, NaN. */
double cuda_measure_peak(struct device *device);
double cuda_measure_copy(struct device *device);

/* cuda_memory.c: scratch memory, which held does not count. Fails the job where there is none. */
void *cuda_scratch(size_t bytes);
/* Frees what is still allocated. */
void cuda_memory_close(struct opened *self);

#if defined(__cplusplus)
}
#endif
