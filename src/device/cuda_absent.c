/* In the place of cuda/: what an executable has that is linked without it. */
#include "device/kinds.h"

const bool cuda_is_built = false;

void cuda_libraries(struct text *list)
{
    text_add(list, "CUDA not built in; ");
}

bool cuda_device_open(const struct device_request *request, struct device **device, struct text *error)
{
    (void)device;
    text_add(error, "device '%s': this build has no CUDA; device='host' computes on the CPUs", request->kind);
    return false;
}
