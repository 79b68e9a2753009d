/* On a device whose memory MPI cannot read, messages go through pinned host memory: every channel is a FIFO
   there too, though kernels and copies are late, and the host only waits for messages, never for the device.
 */
#include "traffic.h"
#include "channel/call.h"
#include "device_content.h"
#include "late_device.h"

enum { STEPS = 3 };
static struct progress progress = { .current = -1 };

static struct channels *open_channels(
    struct job *job, const struct channel_plan *plan, int count, size_t bytes, bool overlap, int transfers)
{
    const struct channels_request request = { .transport = "auto",
        .job = job,
        .device = &late_device,
        .plan = plan,
        .count = count,
        .message_bytes = bytes,
        .overlap = overlap,
        .transfers_a_step = transfers };
    struct channels *channels = NULL;
    struct text error = { 0 };
    if (!channels_open(&request, &channels, &error)) fail("%s", error.data);
    return channels;
}

static unsigned long run_traffic(struct job *job, uint64_t seed, size_t bytes, int messages, bool overlap)
{
    uint64_t random = seed;
    struct traffic traffic;
    struct device_content own;
    make_traffic(&traffic, job, &random, bytes, messages);
    struct channels *channels =
        open_channels(job, traffic.plan, traffic.count, bytes, overlap, traffic.transfers);
    CHECK(late_held == channels_bytes(traffic.plan, traffic.count, job->rank, bytes),
        "%zu bytes of device memory are held", late_held);
    device_content_open(&own, &late_device, bytes, seed + 1 + (uint64_t)job->rank, &progress);
    const struct content content = { &own, device_fill, device_check, device_compute };
    for (int step = 1; step <= STEPS; step++) {
        run_step(channels, &traffic, job, step, &content);
        device_content_judge(&own);
    }
    job_barrier(job);
    struct text lines = { 0 };
    channels_describe(channels, &lines);
    CHECK(late_pinned == 0 || strstr(lines.data, "staged"), "%s", lines.data);
    text_free(&lines);
    channels_close(channels);
    device_content_close(&own);
    CHECK(late_held == 0 && late_pinned == 0, "%zu bytes and %zu pinned buffers are still held", late_held,
        late_pinned);
    free(traffic.order);
    return own.wrong;
}

/* The next compute is enqueued while the copy of its message is still under way, and a receive can be posted
   again behind it. */
static void the_host_does_not_wait_for_copies(struct job *job)
{
    static const struct channel_plan plan[] = { { CHANNEL_ACTIVATION, 0, 1, false, 4, 1, 1 } };
    struct channels *channels = open_channels(job, plan, 1, 1 << 20, true, 8);
    struct event *event = late_device.event_create(&late_device);
    late_delay = 0.02;
    bool copies_were_behind = false;
    for (int i = 0; i < 4; i++) {
        if (job->rank == 0) {
            channel_await_send(channels, 0, 0);
            channel_send(channels, 0, 0);
        } else {
            channel_receive(channels, 0, 0);
            channel_await_receive(channels, 0, 0);
            late_device.event_record(&late_device, event);
            copies_were_behind |= !late_device.event_reached(&late_device, event);
        }
    }
    const struct transfer *transfers;
    int count;
    channels_finish_step(channels, &transfers, &count);
    CHECK(late_pending(LATE_BESIDE) <= 1, "the step is over, and copies are not");
    late_device.synchronize(&late_device);
    for (int i = 0; i < count; i++)
        CHECK(transfers[i].complete > transfers[i].posted &&
                  (i == 0 || transfers[i].complete > transfers[i - 1].complete),
            "transfer %d: posted %f, complete %f", i, transfers[i].posted, transfers[i].complete);
    CHECK(count == 4, "%d transfers", count);
    CHECK(job->rank == 0 || copies_were_behind, "the host waited for every copy");
    late_delay = 300e-6;
    late_device.event_destroy(&late_device, event);
    job_barrier(job);
    channels_close(channels);
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    late_open();
    const struct {
        size_t bytes;
        int messages;
    } sizes[] = { { 64, 150 }, { 4096, 100 }, { 100000, 40 }, { (size_t)1 << 20, 20 } };
    uint64_t seed = 20250101;
    struct watchdog *watchdog = watchdog_start(&job, &progress, 15.0);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int overlap = 0; overlap < 2; overlap++) {
                const unsigned long wrong =
                    run_traffic(&job, seed++, sizes[i].bytes, sizes[i].messages, overlap);
                CHECK(wrong == 0, "%zu bytes, overlap %d: %lu messages are wrong", sizes[i].bytes, overlap,
                    wrong);
            }
    if (job.size == 2) the_host_does_not_wait_for_copies(&job);

    /* The test sees what it is for: without the compute stream's waits messages are read before they are
     * there. */
    late_forgets_waits = true;
    const unsigned long wrong = run_traffic(&job, seed, 100000, 60, true);
    CHECK(job_sum(&job, (double)wrong) > 0, "nobody missed the compute stream's waits for messages");
    job_barrier(&job);
    watchdog_stop(watchdog);
    late_close();
    job_end(&job);
    return check_result();
}
