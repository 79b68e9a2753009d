/* Built once for each variant, with the flags of its kernels: does the compiler fuse a product and a sum by
 * itself? */
#include "device/host/kernels.h"
#include "probe.h"

float KERNEL(probe_scalar)(float a, float b, float c)
{
    return a * b + c;
}

void KERNEL(probe_loop)(size_t count, const float *a, const float *b, float *c)
{
    for (size_t i = 0; i < count; i++) c[i] += a[i] * b[i];
}
