#include "channel/nccl.h"
#include "channel/call.h"
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- Communicators, streams, buffers --- */

static bool has_part(const struct channels *channels, int channel)
{
    const struct channel_ends *ends = &channels->ends[channel];
    return !ends->is_local && ends->receive_buffers + ends->send_buffers > 0;
}

/* The sender of each channel makes an id, and tells it to the receiver over MPI. */
static unsigned char (*share_ids(const struct channels *channels))[128]
{
    static_assert(sizeof(ncclUniqueId) == 128, "a greeting carries a unique id");
    const struct channels_request *request = &channels->request;
    unsigned char(*ids)[128] = allocate((size_t)request->count, sizeof *ids);
    for (int c = 0; c < request->count; c++)
        if (!request->plan[c].local && request->plan[c].from == request->job->rank)
            NCCL_CALL(ncclGetUniqueId((ncclUniqueId *)(void *)ids[c]));
    MPI_Comm communicator = job_duplicate(request->job);
    channels_greet(channels, communicator, ids);
    job_lock();
    MPI_CALL(MPI_Comm_free(&communicator));
    job_unlock();
    return ids;
}

/* All in one group: creating them one by one would have the ranks of a ring wait for each other. */
static void create_communicators(struct nccl *nccl)
{
    const struct channels_request *request = &nccl->channels->request;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;       /* a call has enqueued when it returns */
    config.splitShare = 0;     /* nothing in common with another communicator */
    config.cgaClusterSize = 0; /* thread blocks that need not start together */
    config.minCTAs = config.maxCTAs = request->channel_ctas;
    unsigned char(*ids)[128] = share_ids(nccl->channels);
    NCCL_CALL(ncclGroupStart());
    for (int c = 0; c < request->count; c++) {
        if (!has_part(nccl->channels, c)) continue;
        struct link *link = &nccl->links[c];
        const struct channel_plan *plan = &request->plan[c];
        ncclUniqueId id;
        memcpy(&id, ids[c], sizeof id);
        link->to_self = plan->from == plan->to;
        NCCL_CALL(ncclCommInitRankConfig(
            &link->comm, link->to_self ? 1 : 2, id, plan->from == request->job->rank ? 0 : 1, &config));
        nccl->link_count++;
    }
    NCCL_CALL(ncclGroupEnd());
    free(ids);
}

static void register_buffer(struct link *link, int index, void *memory, size_t bytes)
{
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
    NCCL_CALL(ncclCommRegister(link->comm, memory, bytes, &link->registered[index]));
#else
    (void)link, (void)index, (void)memory, (void)bytes;
#endif
}

static void make_halves(struct halves *halves, int buffers)
{
    *halves = (struct halves){ .move = allocate((size_t)buffers, sizeof *halves->move), .room = buffers };
}

static void make_link(struct nccl *nccl, int channel, int priority)
{
    struct link *link = &nccl->links[channel];
    const struct channel_ends *ends = &nccl->channels->ends[channel];
    const int receives = ends->receive_buffers, sends = ends->send_buffers;
    CUDA_CALL(cudaStreamCreateWithPriority(&link->stream, cudaStreamNonBlocking, priority));
    link->received = allocate((size_t)receives, sizeof *link->received);
    link->sent = allocate((size_t)sends, sizeof *link->sent);
    make_halves(&link->receives, receives);
    make_halves(&link->sends, sends);
    link->registered = allocate((size_t)(receives + sends), sizeof *link->registered);
    const size_t bytes = nccl->channels->request.message_bytes;
    for (int b = 0; b < receives; b++) register_buffer(link, b, ends->receive[b], bytes);
    for (int b = 0; b < sends; b++) register_buffer(link, receives + b, ends->send[b], bytes);
}

static void make_links(struct nccl *nccl)
{
    int lowest, highest;
    CUDA_CALL(cudaDeviceGetStreamPriorityRange(&lowest, &highest));
    for (int c = 0; c < nccl->channels->request.count; c++)
        if (nccl->links[c].comm) make_link(nccl, c, highest);
}

/* --- First uses --- */

/* One message of so many bytes on every channel that has a buffer `turn` on its longer end, all in one group.
 */
static void exchange(const struct nccl *nccl, int turn, size_t bytes)
{
    const struct channels_request *request = &nccl->channels->request;
    NCCL_CALL(ncclGroupStart());
    for (int c = 0; c < request->count; c++) {
        const struct channel_plan *plan = &request->plan[c];
        if (!nccl->links[c].comm || (turn >= plan->send_buffers && turn >= plan->receive_buffers)) continue;
        if (plan->from == request->job->rank) nccl_send(nccl, c, turn % plan->send_buffers, bytes);
        if (plan->to == request->job->rank) nccl_receive(nccl, c, turn % plan->receive_buffers, bytes);
    }
    NCCL_CALL(ncclGroupEnd());
}

/* NCCL connects at the first use of a communicator and blocks the host meanwhile: were that the first receive
   of a step, posted ahead, a ring of ranks would hang. So one byte through every channel at once; then a
   whole message from and into each buffer, for a buffer's first use may set something up too. */
static void connect_channels(const struct nccl *nccl)
{
    const struct channels_request *request = &nccl->channels->request;
    exchange(nccl, 0, 1);
    nccl_drain(nccl, NULL, INFINITY);
    int turns = 0;
    for (int c = 0; c < request->count; c++) {
        if (!nccl->links[c].comm) continue;
        if (request->plan[c].send_buffers > turns) turns = request->plan[c].send_buffers;
        if (request->plan[c].receive_buffers > turns) turns = request->plan[c].receive_buffers;
    }
    for (int turn = 0; turn < turns; turn++) exchange(nccl, turn, request->message_bytes);
    nccl_drain(nccl, NULL, INFINITY);
}

/* --- Open and close --- */

void nccl_open(struct channels *channels)
{
    const struct channels_request *request = &channels->request;
    struct device *device = request->device;
    assert(request->channel_ctas > 0);
    struct nccl *nccl = allocate(1, sizeof *nccl);
    channels->state = nccl;
    nccl->channels = channels;
    nccl->device = cuda_of(device);
    nccl->links = allocate((size_t)request->count, sizeof *nccl->links);
    nccl->moves = allocate((size_t)request->transfers_a_step, sizeof *nccl->moves);
    nccl->probed = device->event_create(device);
    nccl->half_open = device->event_create(device);
    for (int i = 0; i < request->transfers_a_step; i++) {
        nccl->moves[i].posted = device->event_create(device);
        nccl->moves[i].complete = device->event_create(device);
    }
    device->synchronize(device); /* the buffers are zeroed */
    NCCL_CALL(ncclGetVersion(&nccl->version));
    create_communicators(nccl);
    make_links(nccl);
    connect_channels(nccl);
    if (request->overlap) nccl_probe(nccl);
}

static void close_link(struct link *link, int registered)
{
    for (int b = 0; b < registered; b++) {
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
        if (link->registered[b]) NCCL_CALL(ncclCommDeregister(link->comm, link->registered[b]));
#endif
    }
    NCCL_CALL(ncclCommDestroy(link->comm));
    CUDA_CALL(cudaStreamDestroy(link->stream));
    void *const host[] = { link->registered, link->received, link->sent, link->receives.move,
        link->sends.move };
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
}

/* Communicators are destroyed in the order of the channels, the same on all ranks, for both ends may have to
 * come. */
void nccl_close(struct channels *channels)
{
    struct nccl *nccl = channels->state;
    struct device *device = channels->request.device;
    for (int c = 0; c < channels->request.count; c++) {
        const struct channel_ends *ends = &channels->ends[c];
        if (nccl->links[c].comm) close_link(&nccl->links[c], ends->receive_buffers + ends->send_buffers);
    }
    for (int i = 0; i < channels->request.transfers_a_step; i++) {
        device->event_destroy(device, nccl->moves[i].posted);
        device->event_destroy(device, nccl->moves[i].complete);
    }
    device->event_destroy(device, nccl->probed);
    device->event_destroy(device, nccl->half_open);
    free(nccl->moves);
    free(nccl->links);
    free(nccl);
    channels->state = NULL;
}
