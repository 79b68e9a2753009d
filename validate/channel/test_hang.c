/* What hang.sh runs: a job in which something goes wrong. MODE RANK TIMEOUT; the given rank is the culprit.
   The others wait for a message from it that never comes. */
#include "channel/call.h"
#include "channel/channel.h"
#include "fake_device.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void describe(const struct progress *progress, char *line, size_t size)
{
    snprintf(line, size, "last done: action %d; now: action %d of %s", progress->current - 1,
        progress->current, (const char *)progress->context);
}

static void count_action(struct progress *progress)
{
    progress->current++;
    progress->count++;
}

/* A channel from the culprit to each other rank. */
static struct channels *open_channels(struct job *job, int culprit, int messages)
{
    struct channel_plan *plan = allocate((size_t)job->size, sizeof *plan);
    for (int r = 0; r < job->size; r++)
        plan[r] = (struct channel_plan){ .from = culprit,
            .to = r,
            .local = culprit == r,
            .messages = messages,
            .send_buffers = 1,
            .receive_buffers = 1 };
    const struct channels_request request = { .transport = "auto",
        .job = job,
        .device = &fake_device,
        .plan = plan,
        .count = job->size,
        .message_bytes = 4096,
        .overlap = true,
        .transfers_a_step = job->size };
    struct channels *channels = NULL;
    struct text error = { 0 };
    if (!channels_open(&request, &channels, &error)) fail("%s", error.data);
    free(plan);
    return channels;
}

/* The word that a device writes as it computes. */
static int reached;

static void *compute(void *seconds)
{
    for (int i = 0; i < 12; i++) {
        nap(*(const double *)seconds);
        __atomic_fetch_add(&reached, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void go_wrong(const char *mode, struct job *job)
{
    if (!strcmp(mode, "fail")) fail("on purpose");
    if (!strcmp(mode, "mpi-error")) {
        job_lock();
        MPI_CALL(MPI_Send(NULL, 0, MPI_BYTE, job->size, 0, job->communicator));
    }
    if (!strcmp(mode, "lock")) job_lock();
    if (!strcmp(mode, "stop")) raise(SIGSTOP);
    for (volatile unsigned long spin = 0;; spin++) continue;
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    if (argc < 4) fail("MODE RANK TIMEOUT expected");
    const char *mode = argv[1];
    const int culprit = atoi(argv[2]);
    const double timeout = atof(argv[3]);

    static struct progress progress = { .current = 0, .describe = describe, .context = "this test" };
    struct channels *channels =
        open_channels(&job, culprit, !strcmp(mode, "disagree") && job.rank == culprit ? 2 : 1);
    if (!strcmp(mode, "fail")) {
        /* The others compute, and have no watchdog that could end them. */
        nap(0.2);
        go_wrong(job.rank == culprit ? mode : "spin", &job);
    }
    struct watchdog *watchdog = watchdog_start(&job, &progress, timeout);
    count_action(&progress);
    if (!strcmp(mode, "slow")) {
        /* Nobody hangs: one action somewhere within each timeout, one after another on the ranks, for many
         * timeouts. */
        for (int i = 0; i < 12; i++) {
            nap(0.6 * timeout);
            if (i % job.size == job.rank) count_action(&progress);
        }
    } else if (!strcmp(mode, "computing")) {
        /* The hosts stand still for many timeouts, and one device goes on. */
        double seconds = 0.6 * timeout;
        pthread_t device;
        atomic_store(&progress.reached, &reached);
        pthread_create(&device, NULL, compute, &seconds);
        pthread_join(device, NULL);
    } else {
        if (job.rank == culprit) go_wrong(mode, &job);
        channel_receive(channels, job.rank, 0);
        channel_await_receive(channels, job.rank, 0);
    }
    job_barrier(&job);
    watchdog_stop(watchdog);
    channels_close(channels);
    if (job.rank == 0) printf("all ranks came to the end\n");
    job_end(&job);
    return 0;
}
