/* What the tests of mode 'vendor' share. */
#pragma once
#include "device_tests.h"
#include "device/cuda/vendor.h"

/* Of what products read: to nearest in fp32 and bf16; a GPU may truncate to tf32. */
static inline double unit_roundoff(enum precision precision)
{
    return precision == PRECISION_FP32 ? 0x1p-24 : precision == PRECISION_TF32 ? 0x1p-10 : 0x1p-9;
}
