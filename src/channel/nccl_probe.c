/* Neither CUDA nor NCCL promises that streams progress independently, and the transport needs that: a
   transfer that waits for the other rank must hold up neither the computation behind it nor other channels,
   from which what ends it may follow. So each start tries.

   First all receives are posted ahead, kernels fill the device, and the sends follow behind them. Then each
   channel in turn is half open, its receive posted and its send withheld, or the other way about, and compute
   waits for it; all else must come to its end nevertheless. In a model of in-order hardware queues that finds
   any two streams of which one can block the other. Each rank tries one of its channels at a time, all ranks
   at once. */
#include "channel/nccl.h"
#include "channel/call.h"
#include <stdlib.h>

enum { KERNELS = 8 }; /* a buffer: more than one is running while transfers wait */

enum side { RECEIVES, SENDS };

/* Half-open channels: which of their sides is posted, and the number of each among the channels of the rank
   that posts it. So a rank has one such side at most. */
struct round {
    enum side posted;
    int turn;
};

/* --- What is enqueued --- */

static void channel_waits_for_compute(const struct nccl *nccl, int channel)
{
    CUDA_CALL(cudaStreamWaitEvent(nccl->links[channel].stream, nccl->probed->event, 0));
}

static void compute_waits_for_channel(const struct nccl *nccl, int channel)
{
    cuda_record_on(nccl->half_open, nccl->links[channel].stream);
    CUDA_CALL(cudaStreamWaitEvent(nccl->device->compute, nccl->half_open->event, 0));
}

/* Whether this rank has that side of the channel, and a stream for it. */
static bool has_side(const struct nccl *nccl, int channel, enum side side)
{
    const struct channel_ends *ends = &nccl->channels->ends[channel];
    return nccl->links[channel].comm && (side == SENDS ? ends->send_buffers : ends->receive_buffers) > 0;
}

/* One side of so many messages, behind the compute stream's work at the last record. To itself a rank sends
   both sides together, with the sends. */
static void enqueue(const struct nccl *nccl, int channel, enum side side, int messages)
{
    const struct channel_plan *plan = &nccl->channels->request.plan[channel];
    const size_t bytes = nccl->channels->request.message_bytes;
    const bool to_self = nccl->links[channel].to_self;
    if (to_self && side == RECEIVES) return;
    channel_waits_for_compute(nccl, channel);
    for (int b = 0; b < messages; b++)
        if (to_self)
            nccl_send_to_self(nccl, channel, b % plan->send_buffers, b % plan->receive_buffers, bytes);
        else if (side == SENDS)
            nccl_send(nccl, channel, b % plan->send_buffers, bytes);
        else
            nccl_receive(nccl, channel, b % plan->receive_buffers, bytes);
}

/* --- The two kinds of round --- */

/* The number of a channel among those of its sender, or of its receiver. */
static int number_of(const struct channels_request *request, int channel, enum side side)
{
    const struct channel_plan *plan = request->plan;
    int number = 0;
    for (int c = 0; c < channel; c++) {
        if (plan[c].from == plan[c].to) continue;
        number += side == SENDS ? plan[c].from == plan[channel].from : plan[c].to == plan[channel].to;
    }
    return number;
}

static bool is_half_open(const struct nccl *nccl, int channel, const struct round *round)
{
    const struct link *link = &nccl->links[channel];
    return round && link->comm && !link->to_self &&
           number_of(&nccl->channels->request, channel, round->posted) == round->turn;
}

/* Kernels on the compute stream, that write the buffers of one side: not those of half-open channels. */
static void fill(const struct nccl *nccl, enum side side, const struct round *half_open)
{
    const struct channels_request *request = &nccl->channels->request;
    const struct random key = { .purpose = RANDOM_INPUT, .deviation = 1 };
    for (int c = 0; c < request->count; c++) {
        if (!has_side(nccl, c, side) || is_half_open(nccl, c, half_open)) continue;
        const struct channel_ends *ends = &nccl->channels->ends[c];
        const int buffers = side == SENDS ? ends->send_buffers : ends->receive_buffers;
        for (int i = 0; i < buffers * KERNELS; i++)
            request->device->random(request->device, &key, request->message_bytes / sizeof(float),
                side == SENDS ? ends->send[i % buffers] : ends->receive[i % buffers]);
    }
}

/* The first of the ranks that hang speaks for all. All ranks come here together. */
static void judge(const struct nccl *nccl, bool hangs)
{
    const struct channels_request *request = &nccl->channels->request;
    struct job *job = request->job;
    const double speaker = job->size - job_max(job, hangs ? job->size - job->rank : 0);
    if (speaker == job->size) return;
    if (speaker == job->rank)
        fail("NCCL: a transfer that waits for the other rank holds up computation or other channels: the "
             "probe of %d channels did not end within %g s; set run.transport='mpi', or try "
             "pipeline.overlap=.false.",
            nccl->link_count, request->probe_seconds);
    nap(3); /* its failure ends this rank too */
    job_abort(EXIT_FAILED);
}

static void run_ahead(const struct nccl *nccl)
{
    const struct channels_request *request = &nccl->channels->request;
    struct device *device = request->device;
    device->event_record(device, nccl->probed);
    for (int c = 0; c < request->count; c++)
        if (has_side(nccl, c, RECEIVES)) enqueue(nccl, c, RECEIVES, request->plan[c].receive_buffers);
    fill(nccl, SENDS, NULL);
    device->event_record(device, nccl->probed);
    for (int c = 0; c < request->count; c++)
        if (has_side(nccl, c, SENDS)) enqueue(nccl, c, SENDS, request->plan[c].receive_buffers);
    judge(nccl, !nccl_drain(nccl, NULL, request->probe_seconds));
}

/* One message's side on every channel that is half open, or on every other. */
static void enqueue_side(const struct nccl *nccl, enum side side, const struct round *round, bool half_open)
{
    for (int c = 0; c < nccl->channels->request.count; c++)
        if (has_side(nccl, c, side) && is_half_open(nccl, c, round) == half_open) enqueue(nccl, c, side, 1);
}

/* half_open: [count] scratch. */
static void run_half_open(const struct nccl *nccl, const struct round *round, bool *half_open)
{
    const struct channels_request *request = &nccl->channels->request;
    struct device *device = request->device;
    const enum side withheld = round->posted == SENDS ? RECEIVES : SENDS;
    device->event_record(device, nccl->probed);
    enqueue_side(nccl, round->posted, round, true);
    fill(nccl, round->posted, round);
    fill(nccl, withheld, NULL);
    device->event_record(device, nccl->probed);
    for (int c = 0; c < request->count; c++) {
        half_open[c] = is_half_open(nccl, c, round);
        if (half_open[c] && has_side(nccl, c, round->posted)) compute_waits_for_channel(nccl, c);
    }
    enqueue_side(nccl, RECEIVES, round, false);
    enqueue_side(nccl, SENDS, round, false);
    judge(nccl, !nccl_drain(nccl, half_open, request->probe_seconds));
    enqueue_side(nccl, withheld, round, true);
    judge(nccl, !nccl_drain(nccl, NULL, request->probe_seconds));
}

void nccl_probe(const struct nccl *nccl)
{
    const struct channels_request *request = &nccl->channels->request;
    bool *half_open = allocate((size_t)request->count, sizeof *half_open);
    job_barrier(request->job);
    run_ahead(nccl);
    for (int side = RECEIVES; side <= SENDS; side++) {
        int turns = 0;
        for (int c = 0; c < request->count; c++)
            if (request->plan[c].from != request->plan[c].to && number_of(request, c, side) >= turns)
                turns = number_of(request, c, side) + 1;
        for (int turn = 0; turn < turns; turn++)
            run_half_open(nccl, &(struct round){ .posted = side, .turn = turn }, half_open);
    }
    free(half_open);
}
