/* What the devices that compute in the process's own memory share: memory, copies, and events that are
   reached as soon as they are recorded, since every kernel has finished when it returns. */
#pragma once
#include "device/device.h"

/* Begins each such device's struct. */
struct ordinary_device {
    struct device device; /* first, so that a struct device * is a pointer to all of it */
    size_t held;
};

/* Memory aligned to 256 bytes, its pages untouched; large blocks begin at a huge page and ask for huge ones,
   which spares the kernels the misses of address translation. NULL where there is none; free() it. */
void *ordinary_block(size_t bytes);

/* Sets the functions for memory, order and time, flip_bit, check_arithmetic and measure_copy; device.threads
   is set already. */
void ordinary_functions(struct ordinary_device *ordinary);
