/* What all ranks do together, at any number of ranks; run with --pieces every operation is cut into pieces of
 * 40 bytes. */
#include "../check.h"
#include "channel/call.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static unsigned char content(int rank, size_t i)
{
    return (unsigned char)(31 * (unsigned)rank + 7 * (unsigned)i + (unsigned)(i >> 8));
}

static void gather(struct job *job)
{
    for (int round = 0; round < 3; round++) {
        /* No two ranks of one size; some have nothing. */
        const size_t mine = round == 0   ? 0
                            : round == 1 ? (size_t)(job->rank % 2) * 100
                                         : (size_t)job->rank * 1000 + 77;
        unsigned char *data = malloc(mine + 1);
        for (size_t i = 0; i < mine; i++) data[i] = content(job->rank, i);
        size_t total = 1, offsets[65];
        unsigned char *all = job_gather(job, data, mine, &total, offsets);
        CHECK((all != NULL) == (job->rank == 0), "rank %d", job->rank);
        CHECK(total == offsets[job->size], "total %zu, offsets end at %zu", total, offsets[job->size]);
        for (int r = 0; r < job->size && all; r++) {
            const size_t size = round == 0 ? 0 : round == 1 ? (size_t)(r % 2) * 100 : (size_t)r * 1000 + 77;
            CHECK(offsets[r + 1] - offsets[r] == size, "rank %d sent %zu bytes", r, size);
            size_t wrong = 0;
            for (size_t i = 0; i < size; i++) wrong += all[offsets[r] + i] != content(r, i);
            CHECK(wrong == 0, "%zu bytes of rank %d are wrong", wrong, r);
        }
        free(all);
        free(data);
        free(job_gather(job, "text", 4, NULL, NULL));
    }
}

static void broadcast(struct job *job)
{
    for (int root = 0; root < job->size; root++) {
        unsigned char data[1003];
        for (size_t i = 0; i < sizeof data; i++) data[i] = job->rank == root ? content(root, i) : 0;
        job_broadcast(job, data, sizeof data, root);
        size_t wrong = 0;
        for (size_t i = 0; i < sizeof data; i++) wrong += data[i] != content(root, i);
        CHECK(wrong == 0, "%zu bytes from root %d are wrong on rank %d", wrong, root, job->rank);

        struct text text = { 0 };
        text_add(&text, "what rank %d had before, longer than what it gets", job->rank);
        if (job->rank == root) {
            text.length = 0;
            text_add(&text, "deck of %d", root);
        }
        job_broadcast_text(job, &text, root);
        char expected[32];
        snprintf(expected, sizeof expected, "deck of %d", root);
        CHECK(!strcmp(text.data, expected) && text.length == strlen(expected), "rank %d has '%s'", job->rank,
            text.data);
        text_add(&text, "!");
        CHECK(text.data[text.length - 1] == '!', "the text cannot grow");
        text_free(&text);

        struct text nothing = { 0 };
        job_broadcast_text(job, &nothing, root);
        CHECK(nothing.length == 0, "rank %d", job->rank);
        text_free(&nothing);
    }
}

static void reductions(struct job *job)
{
    const double r = job->rank, n = job->size;
    CHECK(job_max(job, 10 - r) == 10, "maximum");
    CHECK(job_min(job, 10 - r) == 11 - n, "minimum");
    CHECK(job_sum(job, r) == n * (n - 1) / 2, "sum");
    double list[23];
    for (int i = 0; i < 23; i++) list[i] = i % job->size == job->rank ? 100 + i : i;
    job_max_list(job, list, 23);
    for (int i = 0; i < 23; i++) CHECK(list[i] == 100 + i, "element %d is %g", i, list[i]);
}

/* Every rank's clock has another zero here: the linker puts this in the place of seconds_now. */
double __real_seconds_now(void);
double __wrap_seconds_now(void);
static double clock_zero;
double __wrap_seconds_now(void)
{
    return __real_seconds_now() + clock_zero;
}

static void clocks(struct job *job)
{
    clock_zero = 1000.0 * job->rank;
    double error = -1;
    const double offset = job_clock_offset(job, 50, &error);
    CHECK(job->rank != 0 || (offset == 0 && error == 0), "rank 0 is its own clock: %g", offset);
    CHECK(job->rank == 0 || error > 0, "no round trip takes no time");
    CHECK(error < 0.05, "half a round trip of %g s within a host", error);
    /* Beside that zero the ranks of one host share one clock. */
    CHECK(job->host_ranks != job->size || fabs(offset + clock_zero) <= error + 1e-6,
        "offset %.9f and not %.9f, said to be within %g", offset, -clock_zero, error);
    job_clock_offset(job, 1, NULL);
    clock_zero = 0;
}

/* The lock is free while a collective operation waits: a rank that comes late keeps no other thread from MPI.
 */
static void *count_locks(void *argument)
{
    unsigned *locks = argument;
    const double start = seconds_now();
    while (seconds_now() - start < 0.15)
        if (job_lock_within(0.01)) {
            int any;
            MPI_CALL(MPI_Iprobe(MPI_ANY_SOURCE, 77, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE));
            ++*locks;
            job_unlock();
            nap(1e-3);
        }
    return NULL;
}

static void lock_is_free(struct job *job)
{
    unsigned locks = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, count_locks, &locks);
    if (job->rank == job->size - 1) nap(0.1);
    job_barrier(job);
    pthread_join(thread, NULL);
    CHECK(locks > 10, "in 0.15 s the lock was had %u times", locks);
}

/* A barrier holds everyone until the last has come. */
static void barrier(struct job *job)
{
    for (int late = 0; late < job->size; late++) {
        job_barrier(job);
        const double start = seconds_now();
        if (job->rank == late) nap(0.03);
        job_barrier(job);
        CHECK(seconds_now() - start >= 0.02, "rank %d left the barrier before rank %d came", job->rank, late);
    }
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    if (argc > 1 && !strcmp(argv[1], "--pieces")) job_piece = 40;
    CHECK(job.host_rank >= 0 && job.host_rank < job.host_ranks && job.host_ranks <= job.size,
        "host rank %d of %d", job.host_rank, job.host_ranks);
    CHECK(job.host[0] && strstr(job.library, "MPI "), "host '%s', library '%s'", job.host, job.library);
    if (job.rank == 0) printf("%s, library: %s\n", job.host, job.library);
    gather(&job);
    broadcast(&job);
    reductions(&job);
    clocks(&job);
    barrier(&job);
    lock_is_free(&job);
    job_end(&job);
    return check_result();
}
