/* The kinds of device that device_open knows. */
#pragma once
#include "device/device.h"

bool host_device_open(const struct device_request *request, struct device **device, struct text *error);
bool definition_device_open(const struct device_request *request, struct device **device, struct text *error);
bool rehearsal_device_open(const struct device_request *request, struct device **device, struct text *error);

/* cuda/cuda_device.c, or, where an executable is linked without it, cuda_absent.c, which refuses. */
bool cuda_device_open(const struct device_request *request, struct device **device, struct text *error);
extern const bool cuda_is_built;
void cuda_libraries(struct text *list); /* device_libraries' part */

/* Whether the driver shows an NVIDIA GPU under `root` ("" for the machine itself; a test gives a folder of
 * its own). */
bool gpu_visible(const char *root);

/* Which kind 'auto' stands for where a GPU is visible or not and the build has CUDA or not, or NULL with one
 * line in *error. */
const char *auto_kind(bool gpu, bool has_cuda, struct text *error);
