#include "channel/mpi.h"
#include "base/cpus.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include <time.h>

/* Between two polls while something is under way and the rank computes: of the compute thread, which polls
   between kernels and within long ones; and of the communication thread, where the compute thread has not. A
   timer that wakes the latter costs more than its poll, and costs the compute thread: 10 to 40 microseconds
   were measured on a virtual machine, where 1000 of them a second made computation take 6 % longer, 10000 a
   third. So each time it finds that the compute thread polls, it sleeps twice as long, up to pause_rare.
   Beside a GPU that computes, the core has nothing else to do. */
static const double pause_between = 100e-6, pause_busy = 1e-3, pause_rare = 8e-3, pause_beside_gpu = 100e-6;
/* The next few polls of the communication thread come sooner after a send that did not end at once, for its
   two ranks may have to agree before it moves; and after a poll that took long_poll, and `moving` times what
   one costs that moves nothing: it has moved as much of a message as could be, and so must the peer's thread
   in between. Not where the compute thread polls. */
static const double pause_soon = 100e-6, long_poll = 50e-6, moving = 4;
enum { SOON = 8 };
/* Polls that move nothing take at most one part in `share` of a core, which may be the compute thread's. What
   one costs is the least that one has cost of late, and at most `rise` times what was thought before: what
   moves a part of a message takes longer, but that work must be done by somebody. */
static const double least_cost = 5e-6, share = 20, rise = 1.0003;
static const double pause_aside = 1e-3; /* while the compute thread waits, and polls itself */
static const double pause_idle =
    5e-3; /* nothing posted: the library may still owe an acknowledgement to a peer */

/* --- Starting transfers --- */

static bool is_ready(struct mpi *mpi, const struct spot *spot)
{
    struct device *device = mpi->channels->request.device;
    if (spot->is_copying) return false; /* pinned still holds the message before */
    return device->event_reached(device, spot->is_send && spot->pinned ? spot->staged : spot->event);
}

/* The next transfer of the ring, if the device has come so far. Transfers start in the order of the posts:
   within a channel that is what makes it a FIFO, and events of one stream are reached in no other order. */
static struct spot *take_ready(struct mpi *mpi)
{
    struct device *device = mpi->channels->request.device;
    struct spot *spot = NULL;
    pthread_mutex_lock(&mpi->mutex);
    if (mpi->ring_length && is_ready(mpi, mpi->ring[mpi->ring_first])) {
        spot = mpi->ring[mpi->ring_first];
        mpi->ring_first = (mpi->ring_first + 1) % mpi->spot_count;
        mpi->ring_length--;
    }
    pthread_mutex_unlock(&mpi->mutex);
    if (spot) spot->posted = device->event_seconds(device, spot->event);
    return spot;
}

static void start_transfer(struct mpi *mpi, struct spot *spot)
{
    const struct channel_plan *plan = &mpi->channels->request.plan[spot->channel];
    MPI_Request *request = &mpi->requests[mpi->active_count];
    void *memory = spot->pinned ? spot->pinned : spot->memory;
    /* Words and not floats: what travels is bits. */
    if (spot->is_send)
        MPI_CALL(
            mpi->send(memory, mpi->words, MPI_UINT32_T, plan->to, spot->channel, mpi->communicator, request));
    else
        MPI_CALL(MPI_Irecv(
            memory, mpi->words, MPI_UINT32_T, plan->from, spot->channel, mpi->communicator, request));
    mpi->active[mpi->active_count++] = spot;
}

/* Starts what is ready and tests what is active; MPI sets the requests of completed ones to MPI_REQUEST_NULL.
   How many. The device is asked before the lock is taken: nobody else's MPI call waits for a driver. */
static int poll_mpi(struct mpi *mpi)
{
    int completed = 0, ready = 0;
    for (struct spot *spot = take_ready(mpi); spot; spot = take_ready(mpi)) mpi->ready[ready++] = spot;
    job_lock();
    for (int i = 0; i < ready; i++) start_transfer(mpi, mpi->ready[i]);
    if (mpi->active_count) {
        int result = MPI_Testsome(mpi->active_count, mpi->requests, &completed, mpi->indices, mpi->statuses);
        for (int i = 0; result == MPI_ERR_IN_STATUS && i < completed; i++)
            if (mpi->statuses[i].MPI_ERROR != MPI_SUCCESS) result = mpi->statuses[i].MPI_ERROR;
        mpi_result(result, "MPI_Testsome", __FILE__, __LINE__);
    } else {
        int any;
        MPI_CALL(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, mpi->communicator, &any, MPI_STATUS_IGNORE));
    }
    job_unlock();
    return completed;
}

/* --- Reporting them, with the mutex held --- */

static void complete(struct mpi *mpi, const struct spot *spot, double now)
{
    const struct transfer transfer = { .channel = spot->channel,
        .buffer = spot->buffer,
        .is_send = spot->is_send,
        .posted = spot->posted,
        .complete = now };
    channels_record(mpi->channels, transfer);
    mpi->incomplete--;
}

static bool is_behind(struct mpi *mpi, int kept, const struct spot *spot)
{
    for (int i = 0; i < kept; i++)
        if (mpi->active[i]->channel == spot->channel && mpi->active[i]->is_send == spot->is_send) return true;
    return false;
}

/* Hands back what MPI is done with, in the order in which it was started within each end of a channel: MPI
   matches messages in order, but may be done with a later one first. */
static void hand_back(struct mpi *mpi)
{
    struct device *device = mpi->channels->request.device;
    const double now = seconds_now();
    int kept = 0;
    for (int i = 0; i < mpi->active_count; i++) {
        struct spot *spot = mpi->active[i];
        if (mpi->requests[i] != MPI_REQUEST_NULL || is_behind(mpi, kept, spot)) {
            mpi->requests[kept] = mpi->requests[i];
            mpi->active[kept++] = spot;
            continue;
        }
        if (spot->pinned && !spot->is_send) {
            device->copy_beside(
                device, spot->memory, spot->pinned, 4 * (size_t)mpi->words, NULL, spot->staged);
            spot->is_copying = true;
            mpi->copying[mpi->copying_count++] = spot;
        } else {
            complete(mpi, spot, now);
        }
        spot->in_flight = false;
    }
    mpi->active_count = kept;
}

/* Records the messages whose copies to the device have ended; they end in the order in which they were
   started. How many. */
static int finish_copies(struct mpi *mpi)
{
    struct device *device = mpi->channels->request.device;
    int ended = 0;
    while (ended < mpi->copying_count && device->event_reached(device, mpi->copying[ended]->staged)) {
        struct spot *spot = mpi->copying[ended++];
        complete(mpi, spot, device->event_seconds(device, spot->staged));
        spot->is_copying = false;
    }
    mpi->copying_count -= ended;
    memmove(mpi->copying, mpi->copying + ended, (size_t)mpi->copying_count * sizeof *mpi->copying);
    return ended;
}

/* --- Who polls --- */

int mpi_poll(struct mpi *mpi)
{
    assert(!mpi->is_polling);
    mpi->is_polling = true;
    pthread_mutex_unlock(&mpi->mutex);
    const int completed = poll_mpi(mpi);
    pthread_mutex_lock(&mpi->mutex);
    if (completed) hand_back(mpi);
    const int arrived = finish_copies(mpi);
    mpi->is_polling = false;
    mpi->polled = seconds_now();
    return completed + arrived;
}

/* After a poll that took so many seconds; `pause`: the least to the next. */
static void keep_pace(struct pace *pace, double took, double pause)
{
    pace->cost = fmin(took, rise * fmax(pace->cost, least_cost));
    pace->pause = fmax(pause, share * pace->cost);
}

void mpi_meanwhile(void *argument)
{
    struct mpi *mpi = argument;
    const double now = seconds_now();
    if (now < mpi->next_look) return;
    mpi->next_look = now + pause_between;
    pthread_mutex_lock(&mpi->mutex);
    if (mpi->incomplete && !mpi->is_polling && now - mpi->polled >= mpi->pace.pause) {
        mpi_poll(mpi);
        mpi->looks++;
        keep_pace(&mpi->pace, mpi->polled - now, pause_between);
    }
    pthread_mutex_unlock(&mpi->mutex);
}

/* --- The thread --- */

static void wait_for_work(struct mpi *mpi, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * seconds);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    mpi->is_dozing = mpi->incomplete == 0;
    pthread_cond_timedwait(&mpi->work, &mpi->mutex, &until);
    mpi->is_dozing = false;
}

/* CPU time of this thread. */
static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *communicate(void *argument)
{
    struct mpi *mpi = argument;
    const bool is_host = mpi->channels->request.device->is_host;
    const double pause = is_host ? pause_busy : pause_beside_gpu, longest = is_host ? pause_rare : pause;
    struct pace pace = { .pause = pause };
    double due = pause, sleep = pause; /* seconds after the last poll; to the next look */
    int soon = 0;                      /* polls that are to come sooner */
    unsigned looks = 0;
    double before = thread_seconds();
    pthread_mutex_lock(&mpi->mutex);
    while (!mpi->closing) {
        bool completed = false;
        const bool has_looked = mpi->looks != looks; /* the compute thread, and will go on */
        looks = mpi->looks;
        if (has_looked) soon = 0;
        const bool is_due =
            !mpi->is_polling && seconds_now() - mpi->polled >= 0.9 * (has_looked ? pause : due);
        if (!mpi->is_waiting && is_due) {
            completed = mpi_poll(mpi) > 0;
            if (mpi->is_waiting) pthread_cond_signal(&mpi->done); /* the compute thread's turn */
            const double took = thread_seconds() - before;
            if (took >= fmax(long_poll, moving * pace.cost)) soon = SOON;
            keep_pace(&pace, took, pause);
        }
        before = thread_seconds();
        if (completed || mpi->closing) continue;
        if (mpi->is_new) soon = SOON;
        mpi->is_new = false;
        due = soon > 0 ? fmax(pause_soon, share * pace.cost) : pace.pause;
        sleep = has_looked && !is_due && soon == 0 ? fmax(due, fmin(2 * sleep, longest)) : due;
        if (soon > 0) soon--;
        wait_for_work(mpi, !mpi->incomplete ? pause_idle : mpi->is_waiting ? pause_aside : sleep);
    }
    pthread_mutex_unlock(&mpi->mutex);
    return NULL;
}

void mpi_thread_start(struct mpi *mpi)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mpi->work, &monotonic);
    pthread_cond_init(&mpi->done, NULL);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&mpi->mutex, NULL);
    if (!mpi->channels->request.overlap) return;
    struct device *device = mpi->channels->request.device;
    device->meanwhile = mpi_meanwhile;
    device->meanwhile_argument = mpi;
    const int bad = start_thread(&mpi->thread, communicate, mpi);
    if (bad) fail("cannot start the communication thread: %s", strerror(bad));
}

void mpi_thread_stop(struct mpi *mpi)
{
    assert(mpi->incomplete == 0);
    if (mpi->channels->request.overlap) {
        mpi->channels->request.device->meanwhile = NULL;
        pthread_mutex_lock(&mpi->mutex);
        mpi->closing = true;
        pthread_cond_signal(&mpi->work);
        pthread_mutex_unlock(&mpi->mutex);
        pthread_join(mpi->thread, NULL);
    }
    pthread_cond_destroy(&mpi->work);
    pthread_cond_destroy(&mpi->done);
    pthread_mutex_destroy(&mpi->mutex);
}
