/* One variant's kernels as a table. */
#include "device/host/kernels.h"

#define TEXT_(word) #word
#define TEXT(word) TEXT_(word)

static size_t own_size(const struct device_request *request)
{
    const size_t gemm = KERNEL(gemm_own_size)(request), attention = KERNEL(attention_own_size)(request);
    return gemm > attention ? gemm : attention;
}

const struct host_kernels KERNEL(host_kernels) = {
    .variant = TEXT(VARIANT),
    .own_size = own_size,
    .gemm = KERNEL(gemm),
    .attention_forward = KERNEL(attention_forward),
    .attention_backward = KERNEL(attention_backward),
    .peak = KERNEL(peak),
    .norm_forward = KERNEL(norm_forward),
    .norm_again = KERNEL(norm_again),
    .norm_backward = KERNEL(norm_backward),
    .norm_columns = KERNEL(norm_columns),
    .column_sum = KERNEL(column_sum),
    .gelu_forward = KERNEL(gelu_forward),
    .gelu_backward = KERNEL(gelu_backward),
    .loss = KERNEL(loss),
    .random = KERNEL(random),
    .digest = KERNEL(digest),
};
