/* What tests of portable attention need beside kernels.h. */
#pragma once
#include "device/cuda/kernels.h"

#if defined(__cplusplus)
extern "C" {
#endif

/* cuda_attention_prepare for a GPU whose blocks may have so many bytes of shared memory: how much there is
   decides which kernels are used, and never shows in the bits. */
void cuda_attention_prepare_for(size_t shared_bytes);

#if defined(__cplusplus)
}
#endif
