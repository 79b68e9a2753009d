#include "channel/call.h"
#include "channel/transport.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int receive_buffers_on(const struct channel_plan *plan, int rank)
{
    return plan->to == rank ? plan->receive_buffers : 0;
}

static int send_buffers_on(const struct channel_plan *plan, int rank)
{
    return plan->from == rank && !plan->local ? plan->send_buffers : 0;
}

size_t channels_bytes(const struct channel_plan *plan, int count, int rank, size_t message_bytes)
{
    size_t buffers = 0;
    for (int c = 0; c < count; c++)
        buffers += (size_t)(receive_buffers_on(&plan[c], rank) + send_buffers_on(&plan[c], rank));
    return checked_product(buffers, message_bytes, "channel buffers");
}

/* --- Open and close --- */

/* In the order of preference. */
static const struct transport *const transports[] = { &transport_nccl, &transport_mpi };

static const struct transport *choose_transport(const struct channels_request *request, struct text *error)
{
    const char *name = request->transport;
    const bool any = !strcmp(name, "auto");
    for (size_t i = 0; i < sizeof transports / sizeof transports[0]; i++)
        if (any ? transports[i]->fits(request) : !strcmp(name, transports[i]->name)) return transports[i];
    text_add(error, "transport '%s' is unknown: it is one of 'auto', 'mpi', 'nccl'", name);
    return NULL;
}

/* The tag of a message is its channel. */
static bool tags_suffice(const struct channels_request *request, struct text *error)
{
    int found = 0, *highest_tag = NULL;
    job_lock();
    MPI_CALL(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &highest_tag, &found));
    job_unlock();
    if (!found || request->count - 1 <= *highest_tag) return true;
    text_add(error, "%d channels: this MPI library has tags for %d", request->count, *highest_tag + 1);
    return false;
}

static float **allocate_buffers(struct device *device, int count, size_t bytes)
{
    float **buffers = allocate((size_t)count, sizeof *buffers);
    for (int b = 0; b < count; b++) buffers[b] = device->allocate(device, bytes);
    return buffers;
}

static void release_buffers(struct device *device, float **buffers, int count)
{
    for (int b = 0; b < count; b++) device->release(device, buffers[b]);
    free(buffers);
}

bool channels_open(const struct channels_request *request, struct channels **channels, struct text *error)
{
    const struct transport *transport = choose_transport(request, error);
    if (!transport || !tags_suffice(request, error) || !transport->accepts(request, error)) return false;

    struct channels *c = allocate(1, sizeof *c);
    const size_t count = (size_t)request->count;
    struct channel_plan *plan = allocate(count, sizeof *plan);
    if (count) memcpy(plan, request->plan, count * sizeof *plan);
    c->request = *request;
    c->request.plan = plan;
    c->transport = transport;
    c->ends = allocate(count, sizeof *c->ends);
    c->transfers = allocate((size_t)request->transfers_a_step, sizeof *c->transfers);
    for (int i = 0; i < request->count; i++) {
        struct channel_ends *ends = &c->ends[i];
        ends->is_local = plan[i].local;
        ends->receive_buffers = receive_buffers_on(&plan[i], request->job->rank);
        ends->send_buffers = send_buffers_on(&plan[i], request->job->rank);
        ends->receive = allocate_buffers(request->device, ends->receive_buffers, request->message_bytes);
        ends->send = allocate_buffers(request->device, ends->send_buffers, request->message_bytes);
    }
    transport->open(c);
    *channels = c;
    return true;
}

void channels_close(struct channels *channels)
{
    channels->transport->close(channels);
    struct device *device = channels->request.device;
    for (int i = 0; i < channels->request.count; i++) {
        struct channel_ends *ends = &channels->ends[i];
        release_buffers(device, ends->receive, ends->receive_buffers);
        release_buffers(device, ends->send, ends->send_buffers);
    }
    free((void *)channels->request.plan);
    free(channels->ends);
    free(channels->transfers);
    free(channels);
}

void channels_describe(const struct channels *channels, struct text *lines)
{
    channels->transport->describe(channels, lines);
}

/* --- Within a step --- */

static const struct channel_ends *ends_of(const struct channels *channels, int channel)
{
    assert(channel >= 0 && channel < channels->request.count);
    return &channels->ends[channel];
}

float *channel_receive_buffer(struct channels *channels, int channel, int buffer)
{
    const struct channel_ends *ends = ends_of(channels, channel);
    assert(buffer >= 0 && buffer < ends->receive_buffers);
    return ends->receive[buffer];
}

float *channel_send_buffer(struct channels *channels, int channel, int buffer)
{
    const struct channel_ends *ends = ends_of(channels, channel);
    if (ends->is_local) return channel_receive_buffer(channels, channel, buffer);
    assert(buffer >= 0 && buffer < ends->send_buffers);
    return ends->send[buffer];
}

static void begin_step(struct channels *channels)
{
    if (!channels->step_is_over) return;
    channels->step_is_over = false;
    channels->transfer_count = 0;
}

void channel_receive(struct channels *channels, int channel, int buffer)
{
    const struct channel_ends *ends = ends_of(channels, channel);
    if (ends->is_local) return;
    assert(buffer >= 0 && buffer < ends->receive_buffers);
    begin_step(channels);
    channels->transport->receive(channels, channel, buffer);
}

double channel_await_receive(struct channels *channels, int channel, int buffer)
{
    const struct channel_ends *ends = ends_of(channels, channel);
    if (ends->is_local) return 0;
    assert(buffer >= 0 && buffer < ends->receive_buffers);
    return channels->transport->await_receive(channels, channel, buffer);
}

double channel_send(struct channels *channels, int channel, int buffer)
{
    const struct channel_ends *ends = ends_of(channels, channel);
    if (ends->is_local) return 0;
    assert(buffer >= 0 && buffer < ends->send_buffers);
    begin_step(channels);
    return channels->transport->send(channels, channel, buffer);
}

double channel_await_send(struct channels *channels, int channel, int buffer)
{
    const struct channel_ends *ends = ends_of(channels, channel);
    if (ends->is_local) return 0;
    assert(buffer >= 0 && buffer < ends->send_buffers);
    return channels->transport->await_send(channels, channel, buffer);
}

void channels_record(struct channels *channels, struct transfer transfer)
{
    assert(channels->transfer_count < channels->request.transfers_a_step);
    channels->transfers[channels->transfer_count++] = transfer;
}

void channels_finish_step(struct channels *channels, const struct transfer **transfers, int *count)
{
    channels->transport->finish_step(channels);
    begin_step(channels); /* a step without a post has an empty list */
    channels->step_is_over = true;
    *transfers = channels->transfers;
    *count = channels->transfer_count;
}

void channels_libraries(struct text *list)
{
    nccl_libraries(list);
}
