/* What arrives at a chunk: the digest of each boundary tensor as its receiver has it, of the recorded step.
   The sender's bits are in its file; with these a fault on the way is told from one of a computation. */
#pragma once
#include "device/device.h"
#include "run/record.h"
#include "schedule/schedule.h"

struct arrivals;

/* capacity: the boundary tensors that a rank takes in a step (memory_arrivals); 0 looks at nothing. The
   device must outlive it. */
struct arrivals *arrivals_create(struct device *device, size_t boundary, size_t capacity);
void arrivals_close(struct arrivals *arrivals);
size_t arrivals_device_bytes(size_t capacity);

/* The step that begins is the recorded one, or not: then nothing is looked at. */
void arrivals_begin(struct arrivals *arrivals, bool recorded);
/* `data` [boundary] in device memory is what the compute (an F, B or I) found as its input. */
void arrivals_see(struct arrivals *arrivals, struct compute compute, uint64_t first_index, const float *data);
/* Once the recorded step is over: fetches the digests from the device. */
void arrivals_fetch(struct arrivals *arrivals);
/* Those of the recorded step, in the order seen; owned by the arrivals. */
const struct arrival *arrivals_list(const struct arrivals *arrivals, size_t *count);
