/* The transport over MPI, as the compute thread sees it: it posts transfers, and polls when it must wait. */
#include "channel/mpi.h"
#include "base/cpus.h"
#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static struct mpi *mpi_of(const struct channels *channels)
{
    return channels->state;
}

/* --- Within a step --- */

static void post(struct mpi *mpi, struct spot *spot)
{
    struct device *device = mpi->channels->request.device;
    device->event_record(device, spot->event);
    if (spot->is_send && spot->pinned)
        device->copy_beside(
            device, spot->pinned, spot->memory, 4 * (size_t)mpi->words, spot->event, spot->staged);
    pthread_mutex_lock(&mpi->mutex);
    assert(!spot->in_flight);
    spot->in_flight = true;
    mpi->incomplete++;
    mpi->ring[(mpi->ring_first + mpi->ring_length++) % mpi->spot_count] = spot;
    if (mpi->channels->request.overlap) {
        if (!mpi->is_polling) mpi_poll(mpi);
        mpi->is_new |= spot->is_send && spot->in_flight;
        if (mpi->incomplete && (mpi->is_dozing || mpi->is_new)) pthread_cond_signal(&mpi->work);
    }
    pthread_mutex_unlock(&mpi->mutex);
}

/* Where ranks have no cores to spare, others work while this one waits. */
static void pause_waiting(struct mpi *mpi)
{
    static const struct timespec pause = { .tv_nsec = 100000 };
    pthread_mutex_unlock(&mpi->mutex);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&mpi->mutex);
}

/* Waits for one spot, or with spot NULL for all that was posted. */
static double await(struct mpi *mpi, struct spot *spot)
{
    pthread_mutex_lock(&mpi->mutex);
    double waited = 0;
    if (spot ? spot->in_flight : mpi->incomplete > 0) {
        const double start = seconds_now();
        mpi->is_waiting = true;
        while (spot ? spot->in_flight : mpi->incomplete > 0) {
            if (mpi->is_polling)
                pthread_cond_wait(&mpi->done, &mpi->mutex);
            else if (!mpi_poll(mpi) && !mpi->cores_to_spare)
                pause_waiting(mpi);
        }
        mpi->is_waiting = false;
        waited = seconds_now() - start;
    }
    pthread_mutex_unlock(&mpi->mutex);
    return waited;
}

static void mpi_receive(struct channels *channels, int channel, int buffer)
{
    post(mpi_of(channels), &mpi_of(channels)->receives[channel][buffer]);
}

static double mpi_await_receive(struct channels *channels, int channel, int buffer)
{
    struct device *device = channels->request.device;
    struct spot *spot = &mpi_of(channels)->receives[channel][buffer];
    const double waited = await(mpi_of(channels), spot);
    if (spot->pinned) device->event_await(device, spot->staged);
    return waited;
}

static double mpi_await_send(struct channels *channels, int channel, int buffer)
{
    return await(mpi_of(channels), &mpi_of(channels)->sends[channel][buffer]);
}

static double mpi_send(struct channels *channels, int channel, int buffer)
{
    post(mpi_of(channels), &mpi_of(channels)->sends[channel][buffer]);
    return channels->request.overlap ? 0 : mpi_await_send(channels, channel, buffer);
}

static void mpi_finish_step(struct channels *channels)
{
    if (mpi_of(channels)->spot_count) await(mpi_of(channels), NULL);
}

/* --- Open and close --- */

static void make_spot(struct mpi *mpi, struct spot *spot, int channel, int buffer, bool is_send)
{
    const struct channel_ends *ends = &mpi->channels->ends[channel];
    struct device *device = mpi->channels->request.device;
    *spot = (struct spot){ .channel = channel,
        .buffer = buffer,
        .is_send = is_send,
        .memory = is_send ? ends->send[buffer] : ends->receive[buffer],
        .event = device->event_create(device) };
    if (device->is_host) return;
    spot->pinned = device->allocate_pinned(device, mpi->channels->request.message_bytes);
    spot->staged = device->event_create(device);
}

static void make_spots(struct mpi *mpi)
{
    struct channels *channels = mpi->channels;
    const int count = channels->request.count;
    mpi->receives = allocate((size_t)count, sizeof *mpi->receives);
    mpi->sends = allocate((size_t)count, sizeof *mpi->sends);
    for (int c = 0; c < count; c++)
        if (!channels->ends[c].is_local)
            mpi->spot_count += channels->ends[c].receive_buffers + channels->ends[c].send_buffers;
    mpi->spots = allocate((size_t)mpi->spot_count, sizeof *mpi->spots);
    struct spot *next = mpi->spots;
    for (int c = 0; c < count; c++) {
        const struct channel_ends *ends = &channels->ends[c];
        if (ends->is_local) continue;
        mpi->receives[c] = next;
        for (int b = 0; b < ends->receive_buffers; b++) make_spot(mpi, next++, c, b, false);
        mpi->sends[c] = next;
        for (int b = 0; b < ends->send_buffers; b++) make_spot(mpi, next++, c, b, true);
    }
    mpi->ring = allocate((size_t)mpi->spot_count, sizeof *mpi->ring);
    mpi->requests = allocate((size_t)mpi->spot_count, sizeof *mpi->requests);
    mpi->active = allocate((size_t)mpi->spot_count, sizeof *mpi->active);
    mpi->copying = allocate((size_t)mpi->spot_count, sizeof *mpi->copying);
    mpi->ready = allocate((size_t)mpi->spot_count, sizeof *mpi->ready);
    mpi->indices = allocate((size_t)mpi->spot_count, sizeof *mpi->indices);
    mpi->statuses = allocate((size_t)mpi->spot_count, sizeof *mpi->statuses);
}

/* Whether the ranks of this host leave its cores idle while they wait. A mask narrower than the host is taken
   to be the rank's own: launchers that bind do so. */
static bool has_cores_to_spare(const struct job *job, const struct device *device)
{
    cpu_set_t mask;
    if (!process_cpus(&mask)) return false;
    const bool own = CPU_COUNT(&mask) < sysconf(_SC_NPROCESSORS_ONLN);
    return CPU_COUNT(&mask) >= (own ? 1 : job->host_ranks) * device->threads;
}

static bool mpi_fits(const struct channels_request *request)
{
    (void)request;
    return true;
}

static bool mpi_accepts(const struct channels_request *request, struct text *error)
{
    if (request->message_bytes % 4 || request->message_bytes / 4 > INT_MAX) {
        text_add(error,
            "a message of %zu bytes: MPI takes whole 4-byte words, at most %d of them; make "
            "batch.microbatch_size smaller",
            request->message_bytes, INT_MAX);
        return false;
    }
    return true;
}

static void mpi_open(struct channels *channels)
{
    const struct channels_request *request = &channels->request;
    struct mpi *mpi = allocate(1, sizeof *mpi);
    channels->state = mpi;
    mpi->channels = channels;
    mpi->words = (int)(request->message_bytes / 4);
    mpi->send = request->overlap ? MPI_Isend : MPI_Issend;
    mpi->communicator = job_duplicate(request->job);
    mpi->cores_to_spare = has_cores_to_spare(request->job, request->device);
    prctl(PR_SET_TIMERSLACK,
        1000ul); /* nanoseconds; 50 microseconds by default, half as much again as a pause */
    make_spots(mpi);
    channels_greet(channels, mpi->communicator, NULL);
    if (mpi->spot_count) mpi_thread_start(mpi);
}

static void mpi_close(struct channels *channels)
{
    struct mpi *mpi = mpi_of(channels);
    if (mpi->spot_count) mpi_thread_stop(mpi);
    job_lock();
    MPI_CALL(MPI_Comm_free(&mpi->communicator));
    job_unlock();

    struct device *device = channels->request.device;
    for (int i = 0; i < mpi->spot_count; i++) {
        device->event_destroy(device, mpi->spots[i].event);
        if (!mpi->spots[i].pinned) continue;
        device->event_destroy(device, mpi->spots[i].staged);
        device->release_pinned(device, mpi->spots[i].pinned);
    }
    void *const host[] = { mpi->receives, mpi->sends, mpi->spots, mpi->ring, mpi->requests, mpi->active,
        mpi->copying, mpi->ready, mpi->indices, mpi->statuses, mpi };
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
    channels->state = NULL;
}

static void mpi_describe(const struct channels *channels, struct text *lines)
{
    const struct mpi *mpi = mpi_of(channels);
    if (channels->request.device->is_host || !mpi->spot_count) return;
    text_add(lines, "messages are staged through %d pinned host buffers of %zu bytes\n", mpi->spot_count,
        channels->request.message_bytes);
}

const struct transport transport_mpi = {
    .name = "mpi",
    .fits = mpi_fits,
    .accepts = mpi_accepts,
    .open = mpi_open,
    .close = mpi_close,
    .receive = mpi_receive,
    .await_receive = mpi_await_receive,
    .send = mpi_send,
    .await_send = mpi_await_send,
    .finish_step = mpi_finish_step,
    .describe = mpi_describe,
};
