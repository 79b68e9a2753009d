/* What cannot be opened is refused in one line that says why, before anything is allocated. */
#include "../check.h"
#include "channel/channel.h"
#include "fake_device.h"
#include <string.h>

static void refused(struct job *job, const char *transport, const char *kind, size_t bytes, const char *why)
{
    static const struct channel_plan plan[] = { { CHANNEL_ACTIVATION, 0, 1, false, 1, 1, 1 } };
    struct device device = fake_device;
    device.kind = kind;
    const struct channels_request request = { .transport = transport,
        .job = job,
        .device = &device,
        .plan = plan,
        .count = 1,
        .message_bytes = bytes,
        .transfers_a_step = 2 };
    struct channels *channels = NULL;
    struct text error = { 0 };
    const bool opened = channels_open(&request, &channels, &error);
    CHECK(!opened && !channels, "'%s' on '%s' with %zu bytes was opened", transport, kind, bytes);
    CHECK(error.data && strstr(error.data, why) && !strchr(error.data, '\n'), "'%s' does not say '%s'",
        error.data, why);
    CHECK(fake_held == 0, "%zu bytes are held", fake_held);
    text_free(&error);
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    refused(&job, "nccl", "host", 64, "transport 'nccl': this build has no NCCL");
    refused(&job, "tcp", "host", 64, "transport 'tcp' is unknown: it is one of 'auto', 'mpi', 'nccl'");
    refused(&job, "mpi", "host", (size_t)1 << 33, "8589934592 bytes");
    refused(&job, "mpi", "host", 63, "63 bytes");

    /* By the plan alone: 2 receive buffers on rank 1, 3 send buffers on rank 0, a local channel's receive
       buffers once, and both ends of a channel from a rank to itself that is not local. */
    const struct channel_plan plan[] = { { CHANNEL_ACTIVATION, 0, 1, false, 9, 3, 2 },
        { CHANNEL_GRADIENT, 1, 1, true, 9, 0, 4 }, { CHANNEL_GRADIENT, 2, 2, false, 9, 1, 5 } };
    CHECK(channels_bytes(plan, 3, 0, 100) == 300, "rank 0: %zu", channels_bytes(plan, 3, 0, 100));
    CHECK(channels_bytes(plan, 3, 1, 100) == 600, "rank 1: %zu", channels_bytes(plan, 3, 1, 100));
    CHECK(channels_bytes(plan, 3, 2, 100) == 600, "rank 2: %zu", channels_bytes(plan, 3, 2, 100));
    CHECK(channels_bytes(plan, 3, 3, 100) == 0, "rank 3: %zu", channels_bytes(plan, 3, 3, 100));
    job_end(&job);
    return check_result();
}
