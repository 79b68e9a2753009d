/* The kinds of device that device_open knows. */
#pragma once
#include "device/device.h"

bool host_device_open(const struct device_request *request, struct device **device, struct text *error);
bool definition_device_open(const struct device_request *request, struct device **device, struct text *error);
bool rehearsal_device_open(const struct device_request *request, struct device **device, struct text *error);

/* Whether the driver shows an NVIDIA GPU under `root` ("" for the machine itself; a test gives a folder of
 * its own). */
bool gpu_visible(const char *root);

/* Which kind 'auto' stands for, or NULL with one line in *error. */
const char *auto_kind(bool gpu, struct text *error);
