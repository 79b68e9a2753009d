#include "channel/nccl.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* What a rank is to NCCL. */
struct standing {
    char kind[16], host[128], uuid[48];
    int rank;
    int channels;    /* that need a communicator on this rank */
    int connections; /* hardware queues that CUDA spreads streams over */
    int serialises;  /* whether NCCL would run the channels' transfers one after the other */
};

/* --- The environment --- */

static const char *const connections_name = "CUDA_DEVICE_MAX_CONNECTIONS";
static const char *const order_name = "NCCL_LAUNCH_ORDER_IMPLICIT";
static const int most_connections =
    32; /* CUDA C++ Programming Guide, environment variables: 1 to 32, 8 if unset */

static int connections(void)
{
    const char *value = getenv(connections_name);
    const long number = value ? strtol(value, NULL, 10) : 8;
    return number < 1 ? 1 : number > most_connections ? most_connections : (int)number;
}

static bool orders_launches(void)
{
    const char *value = getenv(order_name);
    return value && strtol(value, NULL, 0) != 0;
}

/* With NCCL_LAUNCH_ORDER_IMPLICIT NCCL orders what the communicators of a device do by the order of the
   host's calls (NCCL user guide, "Using multiple NCCL communicators concurrently"). Where driver and runtime
   are of CUDA 12.3 or newer it orders the starts of its kernels, which is no harm: a transfer starts behind
   compute that the host enqueued earlier, and the program has been proved with the host blocked at any call.
   Below, each kernel waits for the end of the one before, and a receive posted ahead for the rest of the
   program (src/enqueue.cc of NCCL 2.26, getImplicitOrder). */
static bool serialises(void)
{
    int driver = 0, runtime = 0;
    if (!orders_launches()) return false;
    CUDA_CALL(cudaDriverGetVersion(&driver));
    CUDA_CALL(cudaRuntimeGetVersion(&runtime));
    return driver < 12030 || runtime < 12030;
}

/* Ranks of one host that share a GPU are taken for a mistake by NCCL, those of two hosts cannot be found out.
   Before the first call of NCCL, which reads it once. */
static void pretend_own_host(const struct job *job)
{
    char name[192];
    snprintf(name, sizeof name, "%s-rank-%d", job->host, job->rank);
    if (setenv("NCCL_HOSTID", name, 1)) fail("cannot set NCCL_HOSTID");
}

/* --- The judgement, by rank 0 for all. Of the whole job, not of one part of it: two parts may meet on a
   host, and NCCL itself finds a GPU that two ranks share only where they have a communicator together --- */

static int channels_needed(const struct channels_request *request)
{
    int needed = 0;
    for (int c = 0; c < request->count; c++) {
        const struct channel_plan *plan = &request->plan[c];
        needed += !plan->local && (plan->from == request->job->rank || plan->to == request->job->rank);
    }
    return needed;
}

/* Of all ranks of the job, on its rank 0; NULL elsewhere. */
static struct standing *gather(const struct channels_request *request)
{
    struct job *world = request->job->world;
    struct standing mine = {
        .rank = world->rank, .channels = channels_needed(request), .connections = connections()
    };
    snprintf(mine.kind, sizeof mine.kind, "%s", request->device->kind);
    snprintf(mine.host, sizeof mine.host, "%s", request->job->host);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", request->device->uuid);
    if (!strcmp(mine.kind, "cuda")) mine.serialises = serialises();
    return job_gather(world, &mine, sizeof mine, NULL, NULL);
}

static bool need_cuda(const struct standing *all, int size, struct text *error)
{
    for (int r = 0; r < size; r++)
        if (strcmp(all[r].kind, "cuda")) {
            text_add(error,
                "transport 'nccl': rank %d on %s computes on device '%s', and NCCL needs 'cuda'; nearest "
                "run.transport='auto'",
                r, all[r].host, all[r].kind);
            return false;
        }
    return true;
}

static int by_uuid(const void *a, const void *b)
{
    const struct standing *x = a, *y = b;
    const int order = strcmp(x->uuid, y->uuid);
    return order ? order : x->rank - y->rank;
}

/* Sorts a copy, and leaves the two of lowest rank among those that share in pair. */
static bool share_gpu(const struct standing *all, int size, struct standing pair[2])
{
    struct standing *sorted = allocate((size_t)size, sizeof *sorted);
    memcpy(sorted, all, (size_t)size * sizeof *sorted);
    qsort(sorted, (size_t)size, sizeof *sorted, by_uuid);
    bool found = false;
    for (int r = 1; r < size; r++) {
        if (strcmp(sorted[r - 1].uuid, sorted[r].uuid) || (found && sorted[r - 1].rank > pair[0].rank))
            continue;
        if (found && sorted[r - 1].rank == pair[0].rank) continue;
        pair[0] = sorted[r - 1];
        pair[1] = sorted[r];
        found = true;
    }
    free(sorted);
    return found;
}

static bool need_own_gpus(const struct standing *all, int size, struct text *error)
{
    struct standing pair[2];
    if (!share_gpu(all, size, pair)) return true;
    text_add(error,
        "transport 'nccl': rank %d and rank %d on %s share one GPU (%s), which NCCL does not support; set "
        "run.transport='mpi', or, for the sake of right results alone, run.share_device=.true.",
        pair[0].rank, pair[1].rank, pair[0].host, pair[0].uuid);
    return false;
}

static bool need_connections(const struct standing *all, int size, struct text *error)
{
    for (int r = 0; r < size; r++) {
        const int needed = 1 + 2 * all[r].channels;
        if (all[r].connections >= needed) continue;
        text_add(error,
            "transport 'nccl': %s=%d on rank %d, which has %d channels, must be at least %d (one hardware "
            "queue for "
            "compute and two a channel, for NCCL has a stream of its own in each communicator): with fewer, "
            "a "
            "receive posted ahead can hold up the compute behind it; ",
            connections_name, all[r].connections, r, all[r].channels, needed);
        if (needed <= most_connections)
            text_add(error, "nearest %s=%d", connections_name, needed);
        else
            text_add(error, "there are %d at most: set run.transport='mpi'", most_connections);
        return false;
    }
    return true;
}

static bool need_concurrency(const struct standing *all, int size, struct text *error)
{
    for (int r = 0; r < size; r++)
        if (all[r].serialises && all[r].channels > 1) {
            text_add(error,
                "transport 'nccl': %s=%s on rank %d makes NCCL wait for the end of each transfer before the "
                "next one "
                "of any channel starts (with CUDA older than 12.3), so that a receive posted ahead blocks "
                "all others; "
                "unset it, or set run.transport='mpi'",
                order_name, "1", r);
            return false;
        }
    return true;
}

bool nccl_accepts(const struct channels_request *request, struct text *error)
{
    struct job *job = request->job->world;
    if (request->share_device) pretend_own_host(job);
    struct text verdict = { 0 };
    struct standing *all = gather(request);
    if (all && need_cuda(all, job->size, &verdict) &&
        (request->share_device || need_own_gpus(all, job->size, &verdict)) &&
        need_connections(all, job->size, &verdict))
        need_concurrency(all, job->size, &verdict);
    free(all);
    job_broadcast_text(job, &verdict, 0);
    const bool accepted = verdict.length == 0;
    if (!accepted) text_add(error, "%s", verdict.data);
    text_free(&verdict);
    return accepted;
}

bool nccl_fits(const struct channels_request *request)
{
    struct text ignored = { 0 };
    struct job *job = request->job->world;
    struct standing *all = gather(request);
    int fits = all && need_cuda(all, job->size, &ignored) && need_own_gpus(all, job->size, &ignored);
    free(all);
    text_free(&ignored);
    job_broadcast(job, &fits, sizeof fits, 0);
    return fits;
}

/* --- The listing --- */

static void add_version(struct text *lines, const char *what, int code)
{
    text_add(lines, "%s%d.%d.%d", what, code / 10000, code / 100 % 100, code % 100);
}

void nccl_libraries(struct text *list)
{
    int version = 0;
    NCCL_CALL(ncclGetVersion(&version));
    add_version(list, "NCCL ", version);
    add_version(list, " (built with ", NCCL_VERSION_CODE);
    text_add(list, "); ");
}

void nccl_describe(const struct channels *channels, struct text *lines)
{
    const struct nccl *nccl = channels->state;
    const struct channels_request *request = &channels->request;
    add_version(lines, "NCCL ", nccl->version);
    add_version(lines, " (built with ", NCCL_VERSION_CODE);
    text_add(lines, "): %d communicators on rank %d, one a channel, of %d thread blocks each\n",
        nccl->link_count, request->job->rank, request->channel_ctas);
    text_add(lines, "%s: %d hardware queues, %d needed\n", connections_name, connections(),
        1 + 2 * nccl->link_count);
    if (request->overlap && nccl->link_count)
        text_add(lines, "receives posted ahead did not hold up the computation behind them in the probe\n");
    if (request->share_device)
        text_add(lines,
            "NCCL_HOSTID is another on each rank, so that ranks can share a GPU: results are right, times "
            "mean nothing\n");
    if (orders_launches())
        text_add(lines, "%s: transfers of all channels start in the order of the host's calls\n", order_name);
    for (char **variable = environ; *variable; variable++)
        if (!strncmp(*variable, "NCCL_", 5)) text_add(lines, "%s\n", *variable);
}
