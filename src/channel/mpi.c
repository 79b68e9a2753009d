/* The transport over MPI. One communication thread a rank makes all MPI calls for messages: without it, a
   large message does not move while the rank computes. The compute thread hands transfers over through a ring
   and sleeps on a condition when it must wait, for there may be more ranks than cores. */
#include "channel/call.h"
#include "channel/transport.h"
#include <assert.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static const double pause_busy = 100e-6; /* between two polls while nothing completes */
static const double pause_idle =
    5e-3; /* nothing posted: the library may still owe an acknowledgement to a peer */
static const double spin_at_most =
    100e-6; /* polls without a pause, at the beginning of a wait, where cores are to spare */

/* Where a buffer is on its way. IDLE -> POSTED (in the ring) -> COMPLETE -> IDLE once awaited. */
enum stage { IDLE, POSTED, COMPLETE };

/* One buffer of one end of a channel. stage is guarded by mpi.mutex; posted is the communication thread's. */
struct spot {
    int channel, buffer;
    bool is_send;
    float *memory;
    struct event *event; /* the compute stream's work that must be done before the transfer starts */
    enum stage stage;
    double posted;
};

struct mpi {
    struct channels *channels;
    MPI_Comm communicator;           /* messages only; the tag is the channel */
    int words;                       /* of a message, 4 bytes each */
    struct spot **receives, **sends; /* [channel][buffer], parts of spots */
    struct spot *spots;
    int spot_count;
    bool cores_to_spare;

    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work; /* something for the communication thread */
    pthread_cond_t done; /* something completed */
    /* Guarded by the mutex. */
    struct spot **ring; /* [spot_count]: a spot is in it once at most */
    int ring_first, ring_length;
    int incomplete; /* posted and not yet complete */
    bool is_waiting, closing;
    double waiting_since;

    /* The communication thread's own: what MPI works on, in the order of starting. */
    MPI_Request *requests; /* [spot_count] */
    struct spot **active;
    int *indices;
    MPI_Status *statuses;
    int active_count;
};

static struct mpi *mpi_of(const struct channels *channels)
{
    return channels->state;
}

/* --- The communication thread --- */

static void start_transfer(struct mpi *mpi, struct spot *spot)
{
    const struct channel_plan *plan = &mpi->channels->request.plan[spot->channel];
    struct device *device = mpi->channels->request.device;
    MPI_Request *request = &mpi->requests[mpi->active_count];
    spot->posted = device->event_seconds(device, spot->event);
    /* Words and not floats: what travels is bits. */
    if (spot->is_send)
        MPI_CALL(MPI_Isend(
            spot->memory, mpi->words, MPI_UINT32_T, plan->to, spot->channel, mpi->communicator, request));
    else
        MPI_CALL(MPI_Irecv(
            spot->memory, mpi->words, MPI_UINT32_T, plan->from, spot->channel, mpi->communicator, request));
    mpi->active[mpi->active_count++] = spot;
}

/* The next transfer of the ring, if the compute stream has come so far. Transfers start in the order of the
   posts: within a channel that is what makes it a FIFO, and events of one stream are reached in no other
   order. */
static struct spot *take_ready(struct mpi *mpi)
{
    struct device *device = mpi->channels->request.device;
    struct spot *spot = NULL;
    pthread_mutex_lock(&mpi->mutex);
    if (mpi->ring_length && device->event_reached(device, mpi->ring[mpi->ring_first]->event)) {
        spot = mpi->ring[mpi->ring_first];
        mpi->ring_first = (mpi->ring_first + 1) % mpi->spot_count;
        mpi->ring_length--;
    }
    pthread_mutex_unlock(&mpi->mutex);
    return spot;
}

/* Starts what is ready and tests what is active; MPI sets the requests of completed ones to MPI_REQUEST_NULL.
 * How many. */
static int poll_mpi(struct mpi *mpi)
{
    int completed = 0;
    job_lock();
    for (struct spot *spot = take_ready(mpi); spot; spot = take_ready(mpi)) start_transfer(mpi, spot);
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

static bool is_behind(struct mpi *mpi, int kept, const struct spot *spot)
{
    for (int i = 0; i < kept; i++)
        if (mpi->active[i]->channel == spot->channel && mpi->active[i]->is_send == spot->is_send) return true;
    return false;
}

/* Reports the completed transfers, with the mutex held, in the order in which they were started within each
   end of a channel: MPI matches messages in order, but may be done with a later one first. */
static void hand_back(struct mpi *mpi)
{
    const double now = seconds_now();
    int kept = 0;
    for (int i = 0; i < mpi->active_count; i++) {
        struct spot *spot = mpi->active[i];
        if (mpi->requests[i] != MPI_REQUEST_NULL || is_behind(mpi, kept, spot)) {
            mpi->requests[kept] = mpi->requests[i];
            mpi->active[kept++] = spot;
            continue;
        }
        const struct transfer transfer = { .channel = spot->channel,
            .buffer = spot->buffer,
            .is_send = spot->is_send,
            .posted = spot->posted,
            .complete = now };
        channels_record(mpi->channels, transfer);
        spot->stage = COMPLETE;
        mpi->incomplete--;
    }
    mpi->active_count = kept;
    pthread_cond_broadcast(&mpi->done);
}

static void wait_for_work(struct mpi *mpi, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * seconds);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&mpi->work, &mpi->mutex, &until);
}

static void *communicate(void *argument)
{
    struct mpi *mpi = argument;
    const bool overlap = mpi->channels->request.overlap;
    prctl(PR_SET_TIMERSLACK,
        1000ul); /* nanoseconds; 50 microseconds by default, half as much again as a pause */
    pthread_mutex_lock(&mpi->mutex);
    while (!mpi->closing) {
        if (!overlap && !mpi->is_waiting) {
            pthread_cond_wait(&mpi->work, &mpi->mutex);
            continue;
        }
        pthread_mutex_unlock(&mpi->mutex);
        const int completed = poll_mpi(mpi);
        pthread_mutex_lock(&mpi->mutex);
        if (completed) {
            hand_back(mpi);
            continue;
        }
        const bool spin =
            mpi->is_waiting && mpi->cores_to_spare && seconds_now() - mpi->waiting_since < spin_at_most;
        if (!spin && !mpi->closing) wait_for_work(mpi, mpi->incomplete ? pause_busy : pause_idle);
    }
    pthread_mutex_unlock(&mpi->mutex);
    return NULL;
}

/* --- The compute thread --- */

static void post(struct mpi *mpi, struct spot *spot)
{
    struct device *device = mpi->channels->request.device;
    device->event_record(device, spot->event);
    pthread_mutex_lock(&mpi->mutex);
    assert(spot->stage != POSTED);
    spot->stage = POSTED;
    mpi->incomplete++;
    mpi->ring[(mpi->ring_first + mpi->ring_length++) % mpi->spot_count] = spot;
    if (mpi->channels->request.overlap) pthread_cond_signal(&mpi->work);
    pthread_mutex_unlock(&mpi->mutex);
}

/* Waits for one spot, or with spot NULL for all that was posted. */
static double await(struct mpi *mpi, struct spot *spot)
{
    pthread_mutex_lock(&mpi->mutex);
    double waited = 0;
    if (spot ? spot->stage == POSTED : mpi->incomplete > 0) {
        const double start = seconds_now();
        mpi->is_waiting = true;
        mpi->waiting_since = start;
        pthread_cond_signal(&mpi->work);
        while (spot ? spot->stage == POSTED : mpi->incomplete > 0) pthread_cond_wait(&mpi->done, &mpi->mutex);
        mpi->is_waiting = false;
        waited = seconds_now() - start;
    }
    if (spot) spot->stage = IDLE;
    pthread_mutex_unlock(&mpi->mutex);
    return waited;
}

static void mpi_receive(struct channels *channels, int channel, int buffer)
{
    post(mpi_of(channels), &mpi_of(channels)->receives[channel][buffer]);
}

static double mpi_await_receive(struct channels *channels, int channel, int buffer)
{
    return await(mpi_of(channels), &mpi_of(channels)->receives[channel][buffer]);
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

/* What a sender thinks of a channel, so that ranks with different plans do not get far. */
struct greeting {
    uint64_t kind, messages, message_bytes;
};

/* One small message through every channel, so that connections exist: all receives, then all sends, then all
 * waited for. */
static void greet(struct mpi *mpi)
{
    const struct channels_request *request = &mpi->channels->request;
    const int count = request->count, rank = request->job->rank;
    struct greeting *mine = allocate((size_t)count, sizeof *mine),
                    *theirs = allocate((size_t)count, sizeof *theirs);
    MPI_Request *requests = allocate((size_t)count, sizeof *requests);
    job_lock();
    for (int c = 0; c < count; c++) {
        const struct channel_plan *plan = &request->plan[c];
        mine[c] = theirs[c] =
            (struct greeting){ plan->kind, (uint64_t)plan->messages, request->message_bytes };
        requests[c] = MPI_REQUEST_NULL;
        if (plan->to == rank && plan->from != rank)
            MPI_CALL(MPI_Irecv(&theirs[c], 3, MPI_UINT64_T, plan->from, c, mpi->communicator, &requests[c]));
    }
    for (int c = 0; c < count; c++) {
        const struct channel_plan *plan = &request->plan[c];
        if (plan->from == rank && plan->to != rank)
            MPI_CALL(MPI_Isend(&mine[c], 3, MPI_UINT64_T, plan->to, c, mpi->communicator, &requests[c]));
    }
    job_unlock();
    for (int c = 0; c < count; c++) {
        job_complete(&requests[c]);
        if (memcmp(&mine[c], &theirs[c], sizeof mine[c]))
            fail("channel %d: rank %d sends %llu messages of %llu bytes, rank %d expects %llu of %llu", c,
                request->plan[c].from, (unsigned long long)theirs[c].messages,
                (unsigned long long)theirs[c].message_bytes, rank, (unsigned long long)mine[c].messages,
                (unsigned long long)mine[c].message_bytes);
    }
    free(mine);
    free(theirs);
    free(requests);
}

static void make_spots(struct mpi *mpi)
{
    struct channels *channels = mpi->channels;
    struct device *device = channels->request.device;
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
        for (int b = 0; b < ends->receive_buffers; b++)
            *next++ = (struct spot){
                .channel = c, .buffer = b, .memory = ends->receive[b], .event = device->event_create(device)
            };
        mpi->sends[c] = next;
        for (int b = 0; b < ends->send_buffers; b++)
            *next++ = (struct spot){ .channel = c,
                .buffer = b,
                .is_send = true,
                .memory = ends->send[b],
                .event = device->event_create(device) };
    }
    mpi->ring = allocate((size_t)mpi->spot_count, sizeof *mpi->ring);
    mpi->requests = allocate((size_t)mpi->spot_count, sizeof *mpi->requests);
    mpi->active = allocate((size_t)mpi->spot_count, sizeof *mpi->active);
    mpi->indices = allocate((size_t)mpi->spot_count, sizeof *mpi->indices);
    mpi->statuses = allocate((size_t)mpi->spot_count, sizeof *mpi->statuses);
}

static void start_thread(struct mpi *mpi)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&mpi->work, &monotonic);
    pthread_cond_init(&mpi->done, NULL);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&mpi->mutex, NULL);
    const int bad = pthread_create(&mpi->thread, NULL, communicate, mpi);
    if (bad) fail("cannot start the communication thread: %s", strerror(bad));
}

static void stop_thread(struct mpi *mpi)
{
    pthread_mutex_lock(&mpi->mutex);
    assert(mpi->incomplete == 0);
    mpi->closing = true;
    pthread_cond_signal(&mpi->work);
    pthread_mutex_unlock(&mpi->mutex);
    pthread_join(mpi->thread, NULL);
    pthread_cond_destroy(&mpi->work);
    pthread_cond_destroy(&mpi->done);
    pthread_mutex_destroy(&mpi->mutex);
}

/* Whether the ranks of this host leave its cores idle while they wait. A mask narrower than the host is taken
   to be the rank's own: launchers that bind do so. */
static bool has_cores_to_spare(const struct job *job, const struct device *device)
{
    cpu_set_t mask;
    if (sched_getaffinity(0, sizeof mask, &mask)) return false;
    return CPU_COUNT(&mask) >= job->host_ranks * device->threads;
}

static bool mpi_accepts(const struct channels_request *request, struct text *error)
{
    if (!strcmp(request->device->kind, "cuda")) {
        text_add(error, "transport 'mpi': this build cannot send from the memory of a CUDA device");
        return false;
    }
    if (request->message_bytes % 4 || request->message_bytes / 4 > INT_MAX) {
        text_add(error,
            "a message of %zu bytes: MPI takes whole 4-byte words, at most %d of them; make "
            "batch.microbatch_size smaller",
            request->message_bytes, INT_MAX);
        return false;
    }
    int found = 0, *highest_tag = NULL;
    job_lock();
    MPI_CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest_tag, &found));
    job_unlock();
    if (found && request->count - 1 > *highest_tag) {
        text_add(error, "%d channels: this MPI library has tags for %d", request->count, *highest_tag + 1);
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
    mpi->communicator = job_duplicate(request->job);
    mpi->cores_to_spare = has_cores_to_spare(request->job, request->device);
    make_spots(mpi);
    greet(mpi);
    if (mpi->spot_count) start_thread(mpi);
}

static void mpi_close(struct channels *channels)
{
    struct mpi *mpi = mpi_of(channels);
    if (mpi->spot_count) stop_thread(mpi);
    job_lock();
    MPI_CALL(MPI_Comm_free(&mpi->communicator));
    job_unlock();

    struct device *device = channels->request.device;
    for (int i = 0; i < mpi->spot_count; i++) device->event_destroy(device, mpi->spots[i].event);
    free(mpi->receives);
    free(mpi->sends);
    free(mpi->spots);
    free(mpi->ring);
    free(mpi->requests);
    free(mpi->active);
    free(mpi->indices);
    free(mpi->statuses);
    free(mpi);
    channels->state = NULL;
}

const struct transport transport_mpi = {
    .name = "mpi",
    .accepts = mpi_accepts,
    .open = mpi_open,
    .close = mpi_close,
    .receive = mpi_receive,
    .await_receive = mpi_await_receive,
    .send = mpi_send,
    .await_send = mpi_await_send,
    .finish_step = mpi_finish_step,
};
