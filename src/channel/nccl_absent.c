/* In the place of nccl.c, in an executable that is linked without it. */
#include "channel/transport.h"

static bool fits(const struct channels_request *request)
{
    (void)request;
    return false;
}

static bool accepts(const struct channels_request *request, struct text *error)
{
    (void)request;
    text_add(error, "transport 'nccl': this build has no NCCL");
    return false;
}

void nccl_libraries(struct text *list)
{
    text_add(list, "NCCL not built in; ");
}

const struct transport transport_nccl = { .name = "nccl", .fits = fits, .accepts = accepts };
