#include "channel/watchdog.h"
#include "base/cpus.h"
#include "channel/call.h"
#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { REPORT_TAG = 1, ANSWER_TAG = 2 };

struct report {
    uint64_t count, last; /* actions completed on this rank; whether this is the rank's last report */
};

enum verdict { GO_ON, STOP, CLOSE }; /* CLOSE answers a last report */

struct answer {
    uint64_t sum, verdict;
};

/* Rank 0's end of the talk with one other rank. */
struct peer {
    struct report report;
    struct answer answer;
    MPI_Request receiving, sending;
    uint64_t count;
    bool answer_owed, closed;
};

struct watchdog {
    struct job *job;
    struct progress *progress;
    double timeout, interval;
    MPI_Comm communicator; /* its own, so that its messages meet no others */
    pthread_t thread;
    pthread_mutex_t mutex; /* of closing */
    pthread_cond_t wake;
    bool closing;

    /* Below: the thread's own. Seconds without what the name says. */
    double without_change, without_own_change, without_answer, without_lock;
    uint64_t sum, own;
    bool told_to_stop;
    struct peer *peers; /* rank 0: [size]; peers[0] is not used */
    struct peer
        up; /* other ranks: the talk with rank 0; `sending` carries the report, `receiving` the answer */
};

/* --- The talk: reports to rank 0, answers from it. Under the lock; nothing here waits --- */

static bool is_done(MPI_Request *request)
{
    int done = 1;
    if (*request != MPI_REQUEST_NULL) MPI_CALL(MPI_Test(request, &done, MPI_STATUS_IGNORE));
    return done;
}

static void expect_report(struct watchdog *w, int rank)
{
    struct peer *peer = &w->peers[rank];
    MPI_CALL(MPI_Irecv(&peer->report, 2, MPI_UINT64_T, rank, REPORT_TAG, w->communicator, &peer->receiving));
}

static void expect_answer(struct watchdog *w)
{
    MPI_CALL(MPI_Irecv(&w->up.answer, 2, MPI_UINT64_T, 0, ANSWER_TAG, w->communicator, &w->up.receiving));
}

/* Takes the reports that have come and answers them. True when all other ranks are closed. */
static bool talk_down(struct watchdog *w)
{
    uint64_t sum = w->own;
    bool closed = true;
    for (int r = 1; r < w->job->size; r++) {
        struct peer *peer = &w->peers[r];
        while (!peer->closed && !(peer->answer_owed && peer->report.last) && is_done(&peer->receiving)) {
            peer->count = peer->report.count;
            peer->answer_owed = true;
            if (!peer->report.last) expect_report(w, r);
        }
        sum += peer->count;
    }
    if (sum != w->sum) w->without_change = 0;
    w->sum = sum;
    for (int r = 1; r < w->job->size; r++) {
        struct peer *peer = &w->peers[r];
        const bool idle = is_done(&peer->sending);
        if (idle && !peer->closed && (peer->answer_owed || w->told_to_stop)) {
            const bool last = peer->answer_owed && peer->receiving == MPI_REQUEST_NULL;
            const enum verdict verdict = last ? CLOSE : w->told_to_stop ? STOP : GO_ON;
            peer->answer = (struct answer){ sum, (uint64_t)verdict };
            peer->answer_owed = false;
            peer->closed = last;
            MPI_CALL(
                MPI_Isend(&peer->answer, 2, MPI_UINT64_T, r, ANSWER_TAG, w->communicator, &peer->sending));
            closed = false;
        }
        closed = closed && peer->closed && idle;
    }
    w->without_answer = 0;
    return closed;
}

/* Reports, and takes rank 0's answers. True when rank 0 has answered the last report. */
static bool talk_up(struct watchdog *w, bool closing)
{
    struct peer *up = &w->up;
    while (!up->closed && is_done(&up->receiving)) {
        w->without_answer = 0;
        if (up->answer.sum != w->sum) w->without_change = 0;
        w->sum = up->answer.sum;
        if (up->answer.verdict == STOP) w->told_to_stop = true;
        up->closed = up->answer.verdict == CLOSE;
        if (!up->closed) expect_answer(w);
    }
    const bool idle = is_done(&up->sending);
    if (idle && !up->report.last) {
        up->report = (struct report){ w->own, closing };
        MPI_CALL(MPI_Isend(&up->report, 2, MPI_UINT64_T, 0, REPORT_TAG, w->communicator, &up->sending));
        return false;
    }
    return idle && up->closed;
}

/* True when the talk is over. Without the lock there is no talk. */
static bool talk(struct watchdog *w, bool closing)
{
    if (!job_lock_within(0.5 * w->interval)) return false;
    w->without_lock = 0;
    const bool over = w->job->rank == 0 ? talk_down(w) && closing : talk_up(w, closing);
    job_unlock();
    return over;
}

/* --- The judgement --- */

/* By write(2): whoever hangs may hold the lock of stderr. */
static void print_stop(const struct watchdog *w, double quiet, const char *why)
{
    char line[1024], action[640] = "";
    if (w->progress->describe) w->progress->describe(w->progress, action, sizeof action);
    const int used = snprintf(line, sizeof line,
        "pipeleaf: timeout: rank %d on %s: no action completed anywhere for %.1f s%s%s%s\n", w->job->rank,
        w->job->host, quiet, why, action[0] ? "; " : "", action);
    const size_t length = used < (int)sizeof line ? (size_t)used : sizeof line - 1;
    line[length - 1] = '\n';
    if (write(STDERR_FILENO, line, length) < 0) return; /* nobody reads: the exit code still says it */
}

/* Prints this rank's line, gives the others the time to print theirs, and ends the job. */
static _Noreturn void stop(struct watchdog *w, double quiet, const char *why, double grace)
{
    print_stop(w, quiet, why);
    w->told_to_stop = true;
    for (const double start = seconds_now(); seconds_now() - start < grace; nap(w->interval)) talk(w, false);
    job_abort(EXIT_TIMEOUT);
}

static void judge(struct watchdog *w)
{
    const double timeout = w->timeout, grace = 0.3 + 4 * w->interval;
    /* What the others cannot know in time: rank 0's word reaches nobody while its lock is held. They find out
       a quarter later, and rank 0 must not end the job before they have spoken. */
    if (w->without_lock >= timeout && w->without_own_change >= timeout)
        stop(w, w->without_own_change, " (the lock for MPI is held)",
            grace + (w->job->rank == 0 ? 0.25 * timeout : 0));
    if (w->without_answer >= 1.25 * timeout && w->without_own_change >= timeout)
        stop(w, w->without_change, " (rank 0 is silent)", grace);
    /* Rank 0 decides for all; were its word lost, each decides for itself a little later. */
    const double slack = w->job->rank == 0 ? 0 : 4 * w->interval;
    if (w->told_to_stop || w->without_change >= timeout + slack) stop(w, w->without_change, "", grace);
}

/* What the host counted, and what the device did. */
static uint64_t count_actions(const struct progress *progress)
{
    const int *reached = atomic_load(&progress->reached);
    const int computed = reached ? __atomic_load_n(reached, __ATOMIC_RELAXED) : 0;
    return atomic_load_explicit(&progress->count, memory_order_relaxed) + (uint64_t)computed;
}

static void count_time(struct watchdog *w, double seconds)
{
    /* A whole job that was stopped and continued (Ctrl-Z, a suspended machine) has not been hanging
     * meanwhile. */
    const double most = 4 * w->interval;
    if (seconds > most) seconds = most;
    w->without_change += seconds;
    w->without_own_change += seconds;
    w->without_answer += seconds;
    w->without_lock += seconds;
    const uint64_t own = count_actions(w->progress);
    if (own != w->own) w->without_own_change = w->without_change = 0;
    w->own = own;
}

static bool wait_interval(struct watchdog *w)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(1e9 * w->interval);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&w->mutex);
    if (!w->closing) pthread_cond_timedwait(&w->wake, &w->mutex, &until);
    const bool closing = w->closing;
    pthread_mutex_unlock(&w->mutex);
    if (closing) nap(100e-6);
    return closing;
}

static void *watch(void *argument)
{
    struct watchdog *w = argument;
    bool closing = false;
    for (double then = seconds_now(); !talk(w, closing);) {
        closing = wait_interval(w);
        const double now = seconds_now();
        count_time(w, now - then);
        then = now;
        judge(w);
    }
    return NULL;
}

/* --- Start and stop --- */

struct watchdog *watchdog_start(struct job *job, struct progress *progress, double timeout)
{
    assert(timeout > 0);
    struct watchdog *w = allocate(1, sizeof *w);
    w->job = job;
    w->progress = progress;
    w->timeout = timeout;
    w->interval = timeout / 20 < 0.25 ? timeout / 20 : 0.25;
    w->up.receiving = w->up.sending = MPI_REQUEST_NULL;
    w->communicator = job_duplicate(job);
    job_lock();
    if (job->rank == 0) {
        w->peers = allocate((size_t)job->size, sizeof *w->peers);
        for (int r = 0; r < job->size; r++) w->peers[r].receiving = w->peers[r].sending = MPI_REQUEST_NULL;
        for (int r = 1; r < job->size; r++) expect_report(w, r);
    } else {
        expect_answer(w);
    }
    job_unlock();

    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&w->mutex, NULL);
    const int bad = start_thread(&w->thread, watch, w);
    if (bad) fail("cannot start the watchdog's thread: %s", strerror(bad));
    return w;
}

void watchdog_stop(struct watchdog *w)
{
    pthread_mutex_lock(&w->mutex);
    w->closing = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    job_lock();
    MPI_CALL(MPI_Comm_free(&w->communicator));
    job_unlock();
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->mutex);
    free(w->peers);
    free(w);
}
