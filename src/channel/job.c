#include "channel/job.h"
#include "channel/call.h"
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GATHER_TAG = 1, CLOCK_TAG = 2 };
size_t job_piece = (size_t)1 << 30;

/* --- The lock --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool lock_is_ours; /* so that a failure inside a locked call can still reach MPI_Abort */

void job_lock(void)
{
    pthread_mutex_lock(&lock);
    lock_is_ours = true;
}

void job_unlock(void)
{
    lock_is_ours = false;
    pthread_mutex_unlock(&lock);
}

bool job_lock_within(double seconds)
{
    const double start = seconds_now();
    while (pthread_mutex_trylock(&lock)) {
        if (seconds_now() - start > seconds) return false;
        nap(50e-6);
    }
    return lock_is_ours = true;
}

void nap(double seconds)
{
    struct timespec time = { .tv_sec = (time_t)seconds };
    time.tv_nsec = (long)(1e9 * (seconds - (double)time.tv_sec));
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR) continue;
}

/* --- Failure --- */

void mpi_result(int code, const char *call, const char *file, int line)
{
    if (code == MPI_SUCCESS) return;
    char why[MPI_MAX_ERROR_STRING + 1] = "unknown error";
    int length = 0;
    MPI_Error_string(code, why, &length);
    const char *folder = strstr(file, "src/channel/");
    fail("%.*s at %s:%d: %s", (int)strcspn(call, "("), call, folder ? folder : file, line, why);
}

static volatile sig_atomic_t abort_code;

static void leave(int number)
{
    (void)number;
    _exit(abort_code);
}

void job_abort(int code)
{
    static atomic_flag begun = ATOMIC_FLAG_INIT;
    if (atomic_flag_test_and_set(&begun))
        for (;;) pause(); /* another thread is ending the job: its code counts */
    /* Should the launcher not answer to MPI_Abort, we go without it. */
    abort_code = code;
    signal(SIGALRM, leave);
    alarm(5);
    int begun_mpi = 0, ended_mpi = 0;
    MPI_Initialized(&begun_mpi);
    MPI_Finalized(&ended_mpi);
    if (begun_mpi && !ended_mpi && (lock_is_ours || job_lock_within(1.0))) MPI_Abort(MPI_COMM_WORLD, code);
    _exit(code);
}

/* --- Start and end --- */

/* What the launcher says of the number of ranks, in the names that launchers use. Slurm's SLURM_NTASKS is not
   among them: a batch script has it too, and runs once. SLURM_STEP_NUM_TASKS is set by srun alone. */
static void refuse_wrong_launcher(const struct job *job)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
        "JSM_NAMESPACE_SIZE", "SLURM_STEP_NUM_TASKS" };
    if (job->size != 1) return;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (!value) continue;
        const long ranks = strtol(value, NULL, 10);
        /* An mpirun inside a Slurm step says its own number first: one rank in a larger step is no mistake.
         */
        if (ranks == 1) return;
        if (ranks > 1)
            fail("MPI has 1 rank, but the launcher says %s=%s: the mpirun or srun used is not that of this "
                 "program's "
                 "MPI library (%s); use that library's own",
                names[i], value, job->library);
    }
}

static void describe_library(struct job *job)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0, version = 0, subversion = 0;
    MPI_CALL(MPI_Get_library_version(text, &length));
    MPI_CALL(MPI_Get_version(&version, &subversion));
    text[strcspn(text, "\n")] = 0;
    for (char *c = text; *c; c++)
        if (*c == '\t') *c = ' ';
    snprintf(job->library, sizeof job->library, "%.*s; MPI %d.%d", (int)sizeof job->library - 32, text,
        version, subversion);
}

/* Where Open MPI may not copy from another process's memory, it moves a message through shared memory, three
   pieces a poll, of 32 KiB each as it is shipped; and while ranks compute, polls are rare. Unless the
   environment says otherwise, pieces are of 256 KiB. The names are those of versions 4 and 5. */
static void ask_for_large_pieces(void)
{
    static const char *const names[] = { "OMPI_MCA_btl_vader_max_send_size",
        "OMPI_MCA_btl_sm_max_send_size" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], "262144", 0);
}

void job_start(struct job *job, int *argc, char ***argv)
{
    ask_for_large_pieces();
    *job = (struct job){ .parts = 1, .world = job, .communicator = MPI_COMM_NULL };
    int level = MPI_THREAD_SINGLE;
    MPI_CALL(MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level));
    job->started = seconds_now();
    MPI_CALL(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
    MPI_CALL(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
    fail_hook(job_abort);
    MPI_CALL(MPI_Comm_rank(MPI_COMM_WORLD, &job->rank));
    MPI_CALL(MPI_Comm_size(MPI_COMM_WORLD, &job->size));

    char host[MPI_MAX_PROCESSOR_NAME + 1] = "";
    int length = 0;
    MPI_CALL(MPI_Get_processor_name(host, &length));
    snprintf(job->host, sizeof job->host, "%.*s", (int)sizeof job->host - 1, host);
    char who[160];
    snprintf(who, sizeof who, "rank %d on %s", job->rank, job->host);
    fail_identity(who);

    describe_library(job);
    if (level < MPI_THREAD_SERIALIZED)
        fail("the MPI library gives thread level %d, and at least MPI_THREAD_SERIALIZED (%d) is needed: %s",
            level, MPI_THREAD_SERIALIZED, job->library);
    refuse_wrong_launcher(job);

    MPI_Comm of_host;
    MPI_CALL(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, job->rank, MPI_INFO_NULL, &of_host));
    MPI_CALL(MPI_Comm_rank(of_host, &job->host_rank));
    MPI_CALL(MPI_Comm_size(of_host, &job->host_ranks));
    MPI_CALL(MPI_Comm_free(&of_host));
    MPI_CALL(MPI_Comm_dup(MPI_COMM_WORLD, &job->communicator));
}

void job_end(struct job *job)
{
    job_lock();
    MPI_CALL(MPI_Comm_free(&job->communicator));
    MPI_CALL(MPI_Finalize());
    job_unlock();
}

void job_split(struct job *world, int ranks, struct job *part)
{
    assert(ranks > 0 && world->size % ranks == 0);
    *part = *world;
    part->part = world->rank / ranks;
    part->parts = world->size / ranks;
    part->rank = world->rank % ranks;
    part->size = ranks;
    job_barrier(world); /* so that nobody waits inside MPI, with the lock held, for a rank that is late */
    job_lock();
    MPI_CALL(MPI_Comm_split(world->communicator, part->part, part->rank, &part->communicator));
    job_unlock();
}

void job_leave(struct job *part)
{
    job_lock();
    MPI_CALL(MPI_Comm_free(&part->communicator));
    job_unlock();
}

MPI_Comm job_duplicate(struct job *job)
{
    MPI_Comm duplicate;
    MPI_Request request;
    job_lock();
    MPI_CALL(MPI_Comm_idup(job->communicator, &duplicate, &request));
    job_unlock();
    job_complete(&request);
    return duplicate;
}

/* --- What all ranks do together --- */

void job_complete(MPI_Request *request)
{
    const double start = seconds_now();
    for (;;) {
        int done = 0;
        job_lock();
        MPI_CALL(MPI_Test(request, &done, MPI_STATUS_IGNORE));
        job_unlock();
        if (done) return;
        /* The ranks may be more than the cores: whoever waits longer than a message takes gives its core
         * away. */
        if (seconds_now() - start > 5e-6) nap(60e-6);
    }
}

void job_barrier(struct job *job)
{
    MPI_Request request;
    job_lock();
    MPI_CALL(MPI_Ibarrier(job->communicator, &request));
    job_unlock();
    job_complete(&request);
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

void job_broadcast(struct job *job, void *data, size_t bytes, int root)
{
    for (size_t at = 0; at < bytes; at += job_piece) {
        MPI_Request request;
        const int count = (int)smaller(bytes - at, job_piece);
        job_lock();
        MPI_CALL(MPI_Ibcast((char *)data + at, count, MPI_BYTE, root, job->communicator, &request));
        job_unlock();
        job_complete(&request);
    }
}

void job_broadcast_text(struct job *job, struct text *text, int root)
{
    uint64_t length = text->length;
    job_broadcast(job, &length, sizeof length, root);
    if (job->rank != root) {
        text_free(text);
        const size_t capacity = (size_t)length + 1;
        *text =
            (struct text){ .data = allocate(capacity, 1), .length = (size_t)length, .capacity = capacity };
    }
    job_broadcast(job, text->data, text->length, root);
}

static void reduce(struct job *job, double *values, size_t count, MPI_Op operation)
{
    const size_t most = job_piece / sizeof(double) ? job_piece / sizeof(double) : 1;
    for (size_t at = 0; at < count; at += most) {
        MPI_Request request;
        job_lock();
        MPI_CALL(MPI_Iallreduce(MPI_IN_PLACE, values + at, (int)smaller(count - at, most), MPI_DOUBLE,
            operation, job->communicator, &request));
        job_unlock();
        job_complete(&request);
    }
}

double job_max(struct job *job, double value)
{
    reduce(job, &value, 1, MPI_MAX);
    return value;
}

double job_min(struct job *job, double value)
{
    reduce(job, &value, 1, MPI_MIN);
    return value;
}

double job_sum(struct job *job, double value)
{
    reduce(job, &value, 1, MPI_SUM);
    return value;
}

void job_max_list(struct job *job, double *values, int count)
{
    reduce(job, values, (size_t)count, MPI_MAX);
}

static void send_bytes(struct job *job, const void *data, size_t bytes, int to, int tag)
{
    for (size_t at = 0; at < bytes; at += job_piece) {
        MPI_Request request;
        const int count = (int)smaller(bytes - at, job_piece);
        job_lock();
        MPI_CALL(MPI_Isend((const char *)data + at, count, MPI_BYTE, to, tag, job->communicator, &request));
        job_unlock();
        job_complete(&request);
    }
}

static void receive_bytes(struct job *job, void *data, size_t bytes, int from, int tag)
{
    for (size_t at = 0; at < bytes; at += job_piece) {
        MPI_Request request;
        const int count = (int)smaller(bytes - at, job_piece);
        job_lock();
        MPI_CALL(MPI_Irecv((char *)data + at, count, MPI_BYTE, from, tag, job->communicator, &request));
        job_unlock();
        job_complete(&request);
    }
}

void *job_gather(struct job *job, const void *data, size_t bytes, size_t *total, size_t *offsets)
{
    uint64_t mine = bytes, *sizes = allocate((size_t)job->size, sizeof *sizes);
    MPI_Request request;
    job_lock();
    MPI_CALL(MPI_Iallgather(&mine, 1, MPI_UINT64_T, sizes, 1, MPI_UINT64_T, job->communicator, &request));
    job_unlock();
    job_complete(&request);

    size_t sum = 0;
    for (int r = 0; r < job->size; r++) {
        if (offsets) offsets[r] = sum;
        sum += (size_t)sizes[r];
    }
    if (offsets) offsets[job->size] = sum;
    if (total) *total = sum;

    /* Rank by rank and not MPI_Gatherv, whose counts and offsets are ints. */
    char *all = NULL;
    if (job->rank == 0) {
        all = allocate(sum + 1, 1); /* a zero after the last byte, for those who gather text */
        if (bytes) memcpy(all, data, bytes);
        size_t at = bytes;
        for (int r = 1; r < job->size; r++) {
            receive_bytes(job, all + at, (size_t)sizes[r], r, GATHER_TAG);
            at += (size_t)sizes[r];
        }
    } else {
        send_bytes(job, data, bytes, 0, GATHER_TAG);
    }
    free(sizes);
    return all;
}

/* One half of a round trip. Both sides test without naps, for their naps would be the measurement. */
static void clock_message(struct job *job, double *time, int peer, bool is_send)
{
    MPI_Request request;
    job_lock();
    if (is_send)
        MPI_CALL(MPI_Isend(time, 1, MPI_DOUBLE, peer, CLOCK_TAG, job->communicator, &request));
    else
        MPI_CALL(MPI_Irecv(time, 1, MPI_DOUBLE, peer, CLOCK_TAG, job->communicator, &request));
    job_unlock();
    const double start = seconds_now();
    for (int done = 0; !done;) {
        job_lock();
        MPI_CALL(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        job_unlock();
        if (!done && seconds_now() - start > 200e-6)
            nap(20e-6); /* the other side has no core: let it have ours */
    }
}

double job_clock_offset(struct job *job, int rounds, double *error)
{
    assert(rounds > 0);
    double offset = 0, shortest = 0, time = 0;
    job_barrier(job);
    if (job->rank == 0) {
        for (int r = 1; r < job->size; r++) {
            send_bytes(job, &time, sizeof time, r, GATHER_TAG); /* your turn */
            for (int i = 0; i < rounds; i++) {
                clock_message(job, &time, r, false);
                time = seconds_now();
                clock_message(job, &time, r, true);
            }
        }
    } else {
        receive_bytes(job, &time, sizeof time, 0, GATHER_TAG);
        for (int i = 0; i < rounds; i++) {
            double asked = seconds_now();
            const double begin = asked;
            clock_message(job, &asked, 0, true);
            clock_message(job, &time, 0, false);
            const double end = seconds_now();
            if (i == 0 || end - begin < shortest) {
                shortest = end - begin;
                offset = time - 0.5 * (begin + end);
            }
        }
    }
    if (error) *error = 0.5 * shortest;
    return offset;
}
