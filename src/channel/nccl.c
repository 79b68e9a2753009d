/* The transport over NCCL, within a step: the host enqueues and never waits. A transfer waits on the
   channel's stream for the compute stream's work so far, and compute waits for a transfer only where it needs
   it. Each of these waits is a function of its own, so that a test can leave out one kind and see that it is
   missed. */
#include "channel/nccl.h"
#include "channel/call.h"
#include <assert.h>
#include <math.h>
#include <string.h>

static struct nccl *nccl_of(const struct channels *channels)
{
    return channels->state;
}

void nccl_result(ncclResult_t result, const char *call, const char *file, int line)
{
    if (result == ncclSuccess) return;
    const char *folder = strstr(file, "src/channel/"), *last = ncclGetLastError(NULL);
    fail("%.*s at %s:%d: %s%s%s", (int)strcspn(call, "("), call, folder ? folder : file, line,
        ncclGetErrorString(result), last && *last ? ": " : "", last ? last : "");
}

/* --- Waits between streams --- */

static void receive_waits_for_free_buffer(const struct nccl *nccl, const struct move *move)
{
    CUDA_CALL(cudaStreamWaitEvent(nccl->links[move->channel].stream, move->posted->event, 0));
}

static void send_waits_for_producer(const struct nccl *nccl, const struct move *move)
{
    CUDA_CALL(cudaStreamWaitEvent(nccl->links[move->channel].stream, move->posted->event, 0));
}

static void compute_waits_for_message(const struct nccl *nccl, const struct move *move)
{
    CUDA_CALL(cudaStreamWaitEvent(nccl->device->compute, move->complete->event, 0));
}

static void compute_waits_for_sent(const struct nccl *nccl, const struct move *move)
{
    CUDA_CALL(cudaStreamWaitEvent(nccl->device->compute, move->complete->event, 0));
}

/* --- Messages --- */

/* Bytes: what travels is bits. */
void nccl_send(const struct nccl *nccl, int channel, int buffer, size_t bytes)
{
    const struct link *link = &nccl->links[channel];
    NCCL_CALL(ncclSend(nccl->channels->ends[channel].send[buffer], bytes, ncclUint8, link->to_self ? 0 : 1,
        link->comm, link->stream));
}

void nccl_receive(const struct nccl *nccl, int channel, int buffer, size_t bytes)
{
    const struct link *link = &nccl->links[channel];
    NCCL_CALL(ncclRecv(
        nccl->channels->ends[channel].receive[buffer], bytes, ncclUint8, 0, link->comm, link->stream));
}

void nccl_send_to_self(
    const struct nccl *nccl, int channel, int send_buffer, int receive_buffer, size_t bytes)
{
    NCCL_CALL(ncclGroupStart());
    nccl_send(nccl, channel, send_buffer, bytes);
    nccl_receive(nccl, channel, receive_buffer, bytes);
    NCCL_CALL(ncclGroupEnd());
}

/* --- Within a step --- */

static struct move *post(struct nccl *nccl, int channel, int buffer, bool is_send)
{
    assert(nccl->move_count < nccl->channels->request.transfers_a_step);
    struct device *device = &nccl->device->device;
    struct move *move = &nccl->moves[nccl->move_count++];
    move->channel = channel;
    move->buffer = buffer;
    move->is_send = is_send;
    device->event_record(device, move->posted);
    return move;
}

static void push(struct halves *halves, struct move *move)
{
    assert(halves->count < halves->room);
    halves->move[(halves->first + halves->count++) % halves->room] = move;
}

static struct move *pop(struct halves *halves)
{
    struct move *move = halves->move[halves->first];
    halves->first = (halves->first + 1) % halves->room;
    halves->count--;
    return move;
}

/* Enqueues the oldest message to this rank itself of which both halves have been posted, if there is one. */
static void move_to_self(struct nccl *nccl, int channel)
{
    struct link *link = &nccl->links[channel];
    if (!link->sends.count || !link->receives.count) return;
    struct move *send = pop(&link->sends), *receive = pop(&link->receives);
    receive_waits_for_free_buffer(nccl, receive);
    send_waits_for_producer(nccl, send);
    nccl_send_to_self(nccl, channel, send->buffer, receive->buffer, nccl->channels->request.message_bytes);
    cuda_record_on(send->complete, link->stream);
    cuda_record_on(receive->complete, link->stream);
    link->sent[send->buffer] = send;
    link->received[receive->buffer] = receive;
}

static void post_receive(struct channels *channels, int channel, int buffer)
{
    struct nccl *nccl = nccl_of(channels);
    struct link *link = &nccl->links[channel];
    struct move *move = post(nccl, channel, buffer, false);
    if (link->to_self) {
        push(&link->receives, move);
        move_to_self(nccl, channel);
        return;
    }
    receive_waits_for_free_buffer(nccl, move);
    nccl_receive(nccl, channel, buffer, channels->request.message_bytes);
    cuda_record_on(move->complete, link->stream);
    link->received[buffer] = move;
}

__attribute__((unused)) static bool holds(const struct halves *halves, int buffer)
{
    for (int i = 0; i < halves->count; i++)
        if (halves->move[(halves->first + i) % halves->room]->buffer == buffer) return true;
    return false;
}

/* A buffer that was not used in this step was drained at the end of its own. */
static double await_receive(struct channels *channels, int channel, int buffer)
{
    struct nccl *nccl = nccl_of(channels);
    const struct link *link = &nccl->links[channel];
    assert(!holds(&link->receives, buffer)); /* else compute would read before its message is sent */
    if (link->received[buffer]) compute_waits_for_message(nccl, link->received[buffer]);
    return 0;
}

static double await_send(struct channels *channels, int channel, int buffer)
{
    struct nccl *nccl = nccl_of(channels);
    const struct link *link = &nccl->links[channel];
    assert(!holds(&link->sends, buffer)); /* else compute would wait for a receive that is posted behind it */
    if (link->sent[buffer]) compute_waits_for_sent(nccl, link->sent[buffer]);
    return 0;
}

static double post_send(struct channels *channels, int channel, int buffer)
{
    struct nccl *nccl = nccl_of(channels);
    struct link *link = &nccl->links[channel];
    struct move *move = post(nccl, channel, buffer, true);
    if (link->to_self) {
        push(&link->sends, move);
        move_to_self(nccl, channel);
    } else {
        send_waits_for_producer(nccl, move);
        nccl_send(nccl, channel, buffer, channels->request.message_bytes);
        cuda_record_on(move->complete, link->stream);
        link->sent[buffer] = move;
    }
    return channels->request.overlap ? 0 : await_send(channels, channel, buffer);
}

/* --- The end of a step --- */

static bool is_drained(cudaStream_t stream)
{
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaErrorNotReady) {
        cudaGetLastError(); /* no error: it shall not be found after the next launch */
        return false;
    }
    CUDA_CALL(state);
    return true;
}

static void check_communicators(const struct nccl *nccl)
{
    for (int c = 0; c < nccl->channels->request.count; c++) {
        const ncclComm_t comm = nccl->links[c].comm;
        ncclResult_t state = ncclSuccess;
        if (comm) NCCL_CALL(ncclCommGetAsyncError(comm, &state));
        if (state != ncclSuccess && state != ncclInProgress)
            fail("channel %d: NCCL reports: %s: %s", c, ncclGetErrorString(state), ncclGetLastError(comm));
    }
}

/* Stream `channel`, or with the number of channels compute. */
static bool is_done(const struct nccl *nccl, int channel, const bool *half_open)
{
    struct device *device = &nccl->device->device;
    if (channel < nccl->channels->request.count)
        return !nccl->links[channel].comm || (half_open && half_open[channel]) ||
               is_drained(nccl->links[channel].stream);
    return half_open ? device->event_reached(device, nccl->probed) : is_drained(nccl->device->compute);
}

bool nccl_drain(const struct nccl *nccl, const bool *half_open, double seconds)
{
    const double start = seconds_now();
    for (int c = 0; c <= nccl->channels->request.count; c++)
        while (!is_done(nccl, c, half_open)) {
            check_communicators(nccl);
            if (seconds_now() - start > seconds) return false;
            nap(20e-6);
        }
    check_communicators(nccl);
    return true;
}

static void forget_buffers(struct nccl *nccl)
{
    for (int c = 0; c < nccl->channels->request.count; c++) {
        const struct channel_ends *ends = &nccl->channels->ends[c];
        struct link *link = &nccl->links[c];
        if (!link->comm) continue;
        assert(link->receives.count == 0 && link->sends.count == 0);
        for (int b = 0; b < ends->receive_buffers; b++) link->received[b] = NULL;
        for (int b = 0; b < ends->send_buffers; b++) link->sent[b] = NULL;
    }
}

/* The moves of one end of a channel complete in the order of their posts. */
static void finish_step(struct channels *channels)
{
    struct nccl *nccl = nccl_of(channels);
    struct device *device = &nccl->device->device;
    nccl_drain(nccl, NULL, INFINITY); /* how long is too long, the watchdog says */
    for (int i = 0; i < nccl->move_count; i++) {
        const struct move *move = &nccl->moves[i];
        const struct transfer transfer = { .channel = move->channel,
            .buffer = move->buffer,
            .is_send = move->is_send,
            .posted = device->event_seconds(device, move->posted),
            .complete = device->event_seconds(device, move->complete) };
        channels_record(channels, transfer);
    }
    nccl->move_count = 0;
    forget_buffers(nccl);
}

const struct transport transport_nccl = {
    .name = "nccl",
    .fits = nccl_fits,
    .accepts = nccl_accepts,
    .open = nccl_open,
    .close = nccl_close,
    .receive = post_receive,
    .await_receive = await_receive,
    .send = post_send,
    .await_send = await_send,
    .finish_step = finish_step,
    .describe = nccl_describe,
};
