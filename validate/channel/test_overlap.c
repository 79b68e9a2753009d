/* On two ranks: a large message moves while both ranks compute and make no call, and does not with overlap
   off. The communication thread is woken no oftener than it need be, for that costs the thread that computes.
   A send waits for the device's work that fills its buffer. */
#include "../check.h"
#include "channel/call.h"
#include "channel/channel.h"
#include "fake_device.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

enum { TRIALS = 8 };
static const size_t BYTES = (size_t)48 << 20;
static const struct channel_plan plan[] = {
    { CHANNEL_ACTIVATION, 0, 1, false, 1, 1, 1 },
    { CHANNEL_GRADIENT, 1, 0, false, 1, 1, 1 },
};

static struct channels *open_channels(struct job *job, size_t bytes, bool overlap)
{
    const struct channels_request request = { .transport = "auto",
        .job = job,
        .device = &fake_device,
        .plan = plan,
        .count = 2,
        .message_bytes = bytes,
        .overlap = overlap,
        .transfers_a_step = 2 };
    struct channels *channels = NULL;
    struct text error = { 0 };
    if (!channels_open(&request, &channels, &error)) fail("%s", error.data);
    return channels;
}

/* One kernel; then what a device does between two. */
static void compute(double seconds)
{
    const double start = seconds_now();
    while (seconds_now() - start < seconds) continue;
    if (fake_device.meanwhile) fake_device.meanwhile(fake_device.meanwhile_argument);
}

static double kernel_seconds; /* compute is cut into kernels of so many seconds */

/* Both ranks send to each other; `seconds` of compute lie between the posts and the waits. The longest that a
   rank was kept waiting in all or, without compute, that the exchange took it: a message may move as it is
   posted. */
static double exchange(struct channels *channels, struct job *job, double seconds)
{
    const int in = 1 - job->rank, out = job->rank;
    job_barrier(job);
    const double start = seconds_now();
    channel_receive(channels, in, 0);
    double waited = channel_send(channels, out, 0);
    for (double left = seconds; left > 0; left -= kernel_seconds) compute(kernel_seconds);
    waited += channel_await_receive(channels, in, 0);
    waited += channel_await_send(channels, out, 0);
    const double took = seconds_now() - start;
    const struct transfer *transfers;
    int count;
    channels_finish_step(channels, &transfers, &count);
    CHECK(count == 2, "%d transfers", count);
    return job_max(job, seconds > 0 ? waited : took);
}

static double least_of_trials(struct channels *channels, struct job *job, double seconds)
{
    double least = 1e9;
    for (int i = 0; i < TRIALS; i++) {
        const double waited = exchange(channels, job, seconds);
        if (waited < least) least = waited;
    }
    return least;
}

static void large_messages_move(struct job *job)
{
    struct channels *channels = open_channels(job, BYTES, true);
    CHECK(fake_device.meanwhile, "the device was not asked to let the transport poll between kernels");
    const double transfer = least_of_trials(channels, job, 0), longer = 5 * transfer + 0.01;
    kernel_seconds = longer;
    const double waited = least_of_trials(channels, job, longer);
    kernel_seconds = 50e-6;
    const double waited_of_short = least_of_trials(channels, job, longer);
    channels_close(channels);
    channels = open_channels(job, BYTES, false);
    CHECK(!fake_device.meanwhile, "with overlap off something polls between kernels");
    kernel_seconds = longer;
    const double on_the_spot = least_of_trials(channels, job, longer);
    channels_close(channels);
    if (job->rank == 0)
        printf("exchange of 2 x %zu MiB: %.1f ms; waited after longer compute: %.2f ms, of short kernels "
               "%.2f ms, "
               "with overlap off %.1f ms\n",
            BYTES >> 20, 1e3 * transfer, 1e3 * waited, 1e3 * waited_of_short, 1e3 * on_the_spot);
    CHECK(waited < 0.15 * transfer, "waited %g s of %g s", waited, transfer);
    CHECK(waited_of_short < 0.15 * transfer, "short kernels: waited %g s of %g s", waited_of_short, transfer);
    CHECK(on_the_spot > 0.3 * transfer, "with overlap off %g s of %g s", on_the_spot, transfer);
}

/* A receive posted with overlap off does not complete while its rank computes, though its sender waits for
 * it. */
static void nothing_moves_behind_compute_when_off(struct job *job)
{
    struct channels *channels = open_channels(job, BYTES, false);
    job_barrier(job);
    double waited = 0;
    if (job->rank == 0) {
        waited = channel_send(channels, 0, 0);
    } else {
        channel_receive(channels, 0, 0);
        compute(0.2);
        waited = channel_await_receive(channels, 0, 0);
    }
    const struct transfer *transfers;
    int count;
    channels_finish_step(channels, &transfers, &count);
    CHECK(count == 1, "%d transfers", count);
    CHECK(job->rank == 1 || waited > 0.15, "the send took %g s though its receiver computed 0.2 s", waited);
    CHECK(job->rank == 0 || waited > 0.0005, "the receive was there after %g s", waited);
    job_barrier(job);
    channels_close(channels);
}

/* The newest thread of this process: thread numbers grow. */
static int newest_thread(void)
{
    DIR *threads = opendir("/proc/self/task");
    if (!threads) fail("cannot read /proc/self/task");
    int newest = 0;
    for (const struct dirent *entry = readdir(threads); entry; entry = readdir(threads))
        if (atoi(entry->d_name) > newest) newest = atoi(entry->d_name);
    closedir(threads);
    return newest;
}

/* How often the thread has gone to sleep of its own will (/proc/[pid]/task/[tid]/status, proc(5)). */
static long sleeps(int thread)
{
    static const char key[] = "voluntary_ctxt_switches:";
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", thread);
    FILE *file = fopen(path, "r");
    if (!file) fail("cannot read %s", path);
    long count = -1;
    while (count < 0 && fgets(line, sizeof line, file))
        if (strncmp(line, key, sizeof key - 1) == 0) count = atol(line + sizeof key - 1);
    fclose(file);
    return count;
}

/* A send that cannot end, for its receiver comes late, behind a compute of short kernels and behind one long
   kernel. */
static void the_thread_is_seldom_woken(struct job *job)
{
    const int before = newest_thread();
    struct channels *channels = open_channels(job, BYTES, true);
    const int thread = newest_thread();
    if (thread == before) fail("no thread was made that communicates");
    static const double kernels[] = { 50e-6, 0.3 }, most[] = { 500, 2500 };
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        job_barrier(job);
        if (job->rank == 0) {
            channel_send(channels, 0, 0);
            const long first = sleeps(thread);
            const double begin = seconds_now();
            while (seconds_now() < begin + 0.3) compute(kernels[i]);
            const double rate = (double)(sleeps(thread) - first) / (seconds_now() - begin);
            job_barrier(job);
            channel_await_send(channels, 0, 0);
            printf("kernels of %g s: the communication thread slept %.0f times a second\n", kernels[i], rate);
            CHECK(
                rate > 50 && rate < most[i], "kernels of %g s: it slept %g times a second", kernels[i], rate);
        } else {
            job_barrier(job);
            channel_receive(channels, 0, 0);
            channel_await_receive(channels, 0, 0);
        }
        const struct transfer *transfers;
        int count;
        channels_finish_step(channels, &transfers, &count);
        CHECK(count == 1, "%d transfers", count);
    }
    channels_close(channels);
}

static void a_send_waits_for_the_device(struct job *job)
{
    struct channels *channels = open_channels(job, 4096, true);
    if (job->rank == 0) {
        float *buffer = channel_send_buffer(channels, 0, 0);
        buffer[1000] = 1;
        atomic_store(&fake_hold_events, true);
        channel_send(channels, 0, 0);
        nap(0.02);
        buffer[1000] = 2; /* the kernel that was enqueued before the send ends only now */
        atomic_store(&fake_hold_events, false);
        channel_await_send(channels, 0, 0);
    } else {
        channel_receive(channels, 0, 0);
        channel_await_receive(channels, 0, 0);
        const float got = channel_receive_buffer(channels, 0, 0)[1000];
        CHECK(got == 2, "the message left before its buffer was filled: %g", (double)got);
    }
    const struct transfer *transfers;
    int count;
    channels_finish_step(channels, &transfers, &count);
    CHECK(count == 1, "%d transfers", count);
    channels_finish_step(channels, &transfers, &count);
    CHECK(count == 0, "a step without messages has %d transfers", count);
    channels_close(channels);
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    if (job.size != 2) fail("this test is for 2 ranks, not %d", job.size);
    large_messages_move(&job);
    nothing_moves_behind_compute_when_off(&job);
    the_thread_is_seldom_woken(&job);
    a_send_waits_for_the_device(&job);
    job_end(&job);
    return check_result();
}
