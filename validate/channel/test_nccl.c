/* Over NCCL, on CUDA devices: every channel is a FIFO, receives are posted ahead, and the host never waits in
   a step. MODE (see main): what nccl.sh asks for are jobs that must fail, or that a missing wait between
   streams makes fail. */
#include "device_content.h"
#include "channel/call.h"
#include "channel/nccl.h"
#include "device/kinds.h"
#include "counters.h"
#include "nccl_double.h"

enum { STEPS = 3 };
static struct progress progress = { .current = -1 };
static struct device *device;

static void open_device(const struct job *job)
{
    const struct device_request request = { .kind = "cuda",
        .threads = 1,
        .local_rank = job->host_rank,
        .microbatch_size = 1,
        .sequence = 4,
        .hidden = 8,
        .heads = 2,
        .ffn = 16 };
    struct text error = { 0 };
    if (!cuda_device_open(&request, &device, &error)) fail("%s", error.data);
}

static struct channels_request request_for(
    struct job *job, const struct channel_plan *plan, int count, size_t bytes, bool overlap, int transfers)
{
    return (struct channels_request){ .transport = "nccl",
        .job = job,
        .device = device,
        .plan = plan,
        .count = count,
        .message_bytes = bytes,
        .overlap = overlap,
        .transfers_a_step = transfers,
        .channel_ctas = 2,
        .probe_seconds = 20 };
}

static struct channels *open_channels(const struct channels_request *request)
{
    struct channels *channels = NULL;
    struct text error = { 0 };
    if (!channels_open(request, &channels, &error)) fail("%s", error.data);
    return channels;
}

/* --- Traffic --- */

/* A step enqueues, and does nothing else: it allocates nothing, and the host does not wait. */
static void run_quiet_step(struct channels *channels, const struct traffic *traffic, const struct job *job,
    int step, const struct content *content)
{
    const unsigned long allocations = double_allocations(), waits = double_synchronizations();
    run_step(channels, traffic, job, step, content);
    CHECK(double_allocations() == allocations, "a step allocated");
    CHECK(double_synchronizations() == waits, "a step made the host wait for the device");
    CHECK(double_default_stream_uses() == 0, "the default stream was used");
}

/* How many messages were wrong. */
static unsigned long run_traffic(
    struct job *job, const char *transport, uint64_t seed, size_t bytes, int messages, bool overlap)
{
    uint64_t random = seed;
    struct traffic traffic;
    struct device_content own;
    make_traffic(&traffic, job, &random, bytes, messages);
    struct channels_request request =
        request_for(job, traffic.plan, traffic.count, bytes, overlap, traffic.transfers);
    request.transport = transport;
    const size_t before = device->held(device);
    struct channels *channels = open_channels(&request);
    CHECK(device->held(device) - before == channels_bytes(traffic.plan, traffic.count, job->rank, bytes),
        "%zu bytes are held", device->held(device) - before);
    device_content_open(&own, device, bytes, seed + 1 + (uint64_t)job->rank, &progress);
    const struct content content = { &own, device_fill, device_check, device_compute };
    for (int step = 1; step <= STEPS; step++) {
        device->start_clock(device);
        run_quiet_step(channels, &traffic, job, step, &content);
        device_content_judge(&own);
    }
    job_barrier(job);
    channels_close(channels);
    device_content_close(&own);
    CHECK(device->held(device) == before, "%zu bytes are still held", device->held(device) - before);
    CHECK(double_nccl_communicators() == 0, "%d communicators are left", double_nccl_communicators());
    free(traffic.order);
    return own.wrong;
}

static unsigned long all_traffic(struct job *job, const char *transport, uint64_t seed, int rounds)
{
    const struct {
        size_t bytes;
        int messages;
    } sizes[] = { { 64, 60 }, { 4100, 30 } };
    unsigned long wrong = 0;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int overlap = 0; overlap < 2; overlap++)
                wrong += run_traffic(job, transport, seed++, sizes[i].bytes, sizes[i].messages, overlap);
    return wrong;
}

/* --- What is opened, and what is refused --- */

static const struct channel_plan ring_of_2[] = {
    { CHANNEL_ACTIVATION, 0, 1, false, 4, 2, 3 },
    { CHANNEL_GRADIENT, 0, 1, false, 4, 1, 1 },
    { CHANNEL_ACTIVATION, 1, 0, false, 4, 1, 2 },
    { CHANNEL_GRADIENT, 1, 0, false, 4, 2, 2 },
};

static void communicators_are_as_asked_for(struct job *job)
{
    const struct channels_request request = request_for(job, ring_of_2, 4, 256, true, 16);
    struct channels *channels = open_channels(&request);
    const struct nccl *nccl = channels->state;
    CHECK(double_nccl_communicators() == 4 && nccl->link_count == 4, "%d communicators", nccl->link_count);
    for (int c = 0; c < 4; c++) {
        const ncclConfig_t config = double_nccl_config(nccl->links[c].comm);
        CHECK(config.blocking == 1 && config.splitShare == 0 && config.cgaClusterSize == 0, "channel %d", c);
        CHECK(config.minCTAs == 2 && config.maxCTAs == 2, "channel %d: %d to %d CTAs", c, config.minCTAs,
            config.maxCTAs);
        int lowest, highest, priority;
        CUDA_CALL(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
        CUDA_CALL(cudaStreamGetPriority(nccl->links[c].stream, &priority));
        CHECK(priority == highest, "channel %d has a stream of priority %d", c, priority);
        const int buffers = channels->ends[c].receive_buffers + channels->ends[c].send_buffers;
        CHECK(double_nccl_registered(nccl->links[c].comm) == buffers,
            "channel %d: %d of %d buffers are registered", c, double_nccl_registered(nccl->links[c].comm),
            buffers);
    }
    struct text lines = { 0 };
    channels_describe(channels, &lines);
    CHECK(strstr(lines.data, "4 communicators") && strstr(lines.data, "2 thread blocks") &&
              strstr(lines.data, "CUDA_DEVICE_MAX_CONNECTIONS") && !strstr(lines.data, "NCCL_HOSTID"),
        "%s", lines.data);
    if (job->rank == 0) printf("%s", lines.data);
    text_free(&lines);
    channels_close(channels);
}

static bool reached_within(struct event *event, double seconds)
{
    for (const double start = seconds_now(); seconds_now() - start < seconds; nap(100e-6))
        if (device->event_reached(device, event)) return true;
    return false;
}

/* With overlap off compute goes on after a send only when the message is there; else at once. */
static void compute_waits_for_sends_with_overlap_off(struct job *job, bool overlap)
{
    const struct channels_request request = request_for(job, ring_of_2, 4, 256, overlap, 16);
    struct channels *channels = open_channels(&request);
    const struct nccl *nccl = channels->state;
    struct event *behind = device->event_create(device);
    const struct transfer *transfers;
    int count;
    if (job->rank == 0) {
        const double waited = channel_send(channels, 0, 1);
        device->event_record(device, behind);
        CHECK(waited == 0, "the host waited %g s", waited);
        CHECK(reached_within(behind, 0.2) == overlap, "overlap %d", overlap);
    }
    job_barrier(job);
    if (job->rank == 1) channel_receive(channels, 0, 2);
    channels_finish_step(channels, &transfers, &count);
    CHECK(count == 1 && transfers[0].channel == 0 && transfers[0].buffer == (job->rank == 0 ? 1 : 2),
        "%d transfers", count);
    CHECK(job->rank == 0 ? !nccl->links[0].sent[1] : !nccl->links[0].received[2],
        "the next step would wait for a transfer of this one");
    device->event_destroy(device, behind);
    job_barrier(job);
    channels_close(channels);
}

static void refused(const struct channels_request *request, const char *why)
{
    struct channels *channels = NULL;
    struct text error = { 0 };
    const size_t before = device->held(device);
    const bool opened = channels_open(request, &channels, &error);
    CHECK(!opened && !channels, "was opened, though '%s'", why);
    CHECK(error.data && strstr(error.data, why) && !strchr(error.data, '\n'), "'%s' does not say '%s'",
        error.data, why);
    CHECK(device->held(device) == before, "%zu bytes are held", device->held(device) - before);
    text_free(&error);
}

static bool takes_nccl(const struct channels_request *request)
{
    struct channels *channels = open_channels(request);
    const bool nccl = !strcmp(channels->transport->name, "nccl");
    channels_close(channels);
    return nccl;
}

/* A rank that would be refused on its own is refused on all. */
static void what_cannot_work_is_refused(struct job *job)
{
    struct channels_request request = request_for(job, ring_of_2, 4, 256, true, 16);
    if (job->rank == 1) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "8", 1);
    refused(&request, "CUDA_DEVICE_MAX_CONNECTIONS=8 on rank 1, which has 4 channels, must be at least 9");
    refused(&request, "nearest CUDA_DEVICE_MAX_CONNECTIONS=9");
    if (job->rank == 1) unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    refused(&request, "CUDA_DEVICE_MAX_CONNECTIONS=8 on rank 1");
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);

    struct device host = { .kind = "host", .is_host = true };
    request.device = job->rank == 1 ? &host : device;
    refused(&request, "rank 1 on ");
    refused(&request, "computes on device 'host', and NCCL needs 'cuda'");
    request.device = device;

    char uuid[sizeof device->uuid];
    memcpy(uuid, device->uuid, sizeof uuid);
    CHECK(uuid[0], "the device has no UUID");
    request.transport = "auto";
    CHECK(takes_nccl(&request), "'auto' does not take NCCL");
    snprintf(device->uuid, sizeof device->uuid, "GPU-of-both");
    CHECK(!takes_nccl(&request), "'auto' takes NCCL on a shared GPU");
    request.transport = "nccl";
    refused(&request, "rank 0 and rank 1 on ");
    refused(&request, "share one GPU (GPU-of-both)");
    refused(&request,
        "set run.transport='mpi', or, for the sake of right results alone, run.share_device=.true.");
    memcpy(device->uuid, uuid, sizeof uuid);

    /* The runtime that this runs on is newer than 12.3: no harm, and it is said. */
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
    struct text lines = { 0 };
    struct channels *channels = open_channels(&request);
    channels_describe(channels, &lines);
    CHECK(strstr(lines.data, "NCCL_LAUNCH_ORDER_IMPLICIT: ") &&
              strstr(lines.data, "NCCL_LAUNCH_ORDER_IMPLICIT=1\n"),
        "%s", lines.data);
    text_free(&lines);
    channels_close(channels);
    unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

/* Where a GPU is shared in truth, and each rank says that it is a host of its own. */
static void ranks_can_share_a_gpu(struct job *job)
{
    struct channels_request request = request_for(job, ring_of_2, 4, 256, true, 16);
    request.share_device = true;
    struct channels *channels = open_channels(&request);
    struct text lines = { 0 };
    channels_describe(channels, &lines);
    CHECK(strstr(lines.data, "NCCL_HOSTID is another on each rank"), "%s", lines.data);
    text_free(&lines);
    channels_close(channels);
    unsetenv("NCCL_HOSTID");
}

/* --- Jobs that fail --- */

/* What went wrong on the network is said at the end of the step. */
static void end_with_an_asynchronous_error(struct job *job)
{
    const struct channels_request request = request_for(job, ring_of_2, 4, 256, true, 16);
    struct channels *channels = open_channels(&request);
    const struct transfer *transfers;
    int count;
    double_nccl_tolerate(1);
    if (job->rank == 0)
        nccl_send(channels->state, 0, 0, 252);
    else
        channel_receive(channels, 0, 0);
    channels_finish_step(channels, &transfers, &count);
    job_barrier(job);
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    const char *mode = argc > 1 ? argv[1] : "all";
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 20250101;
    open_device(&job);
    struct watchdog *watchdog = watchdog_start(&job, &progress, 20.0);
    unsigned long wrong = 0;
    if (!strcmp(mode, "all")) { /* at any number of ranks */
        wrong = all_traffic(&job, "nccl", seed, 2);
        wrong += all_traffic(&job, "mpi", seed, 1); /* staged through pinned memory */
        if (job.size == 2) communicators_are_as_asked_for(&job);
        for (int overlap = 0; overlap < 2 && job.size == 2; overlap++)
            compute_waits_for_sends_with_overlap_off(&job, overlap);
        if (job.size == 2) what_cannot_work_is_refused(&job);
    } else if (!strcmp(mode, "traffic")) { /* in the order that the environment asks for */
        wrong = all_traffic(&job, "nccl", seed, 1);
    } else if (!strcmp(mode, "share")) {
        ranks_can_share_a_gpu(&job);
    } else if (!strcmp(mode, "error")) {
        end_with_an_asynchronous_error(&job);
    } else if (!strcmp(mode, "probe")) {
        struct channels_request request = request_for(&job, ring_of_2, 4, 256, true, 16);
        request.probe_seconds = 1.5;
        channels_close(open_channels(&request));
        CHECK(true, "the probe passed");
    } else {
        fail("no such mode: '%s'", mode);
    }
    CHECK(wrong == 0, "%lu messages are wrong", wrong);
    job_barrier(&job);
    watchdog_stop(watchdog);
    device->close(device);
    job_end(&job);
    return check_result();
}
