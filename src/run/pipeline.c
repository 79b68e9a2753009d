#include "run/rehearsal.h"
#include "run/worker.h"
#include <stdlib.h>
#include <string.h>

struct pipeline {
    struct pipeline_request request;
    const struct rank_program *program;
    struct worker *worker;
    struct event **start, **end; /* [computes] */
    struct event *begun;         /* of the step */
    double *waited;              /* [computes] of the step that runs: what the host waited */
    char (*name)[48];            /* [computes] "F chunk 3 microbatch 5" */
    int computes;
    int *reached; /* in pinned memory: computes completed in all steps, as the device says */
    int enqueued; /* computes, in all steps */

    struct action_record *actions;
    size_t action_count;
    struct transfer_record *transfers;
    size_t transfer_count, transfer_capacity;
    int *sent, *received; /* [channels][messages]: the SEND or RECEIVE operation of the k-th message, by
                             first_message */
    size_t *first_message;
    int *seen_sends, *seen_receives; /* [channels] messages completed in the step, for the records */
};

/* --- set-up --- */

static void index_messages(struct pipeline *p)
{
    const struct program *program = p->request.program;
    p->first_message = allocate((size_t)program->channel_count + 1, sizeof *p->first_message);
    for (int c = 0; c < program->channel_count; c++)
        p->first_message[c + 1] = p->first_message[c] + (size_t)program->channels[c].messages;
    const size_t messages = p->first_message[program->channel_count];
    p->sent = allocate(messages, sizeof *p->sent);
    p->received = allocate(messages, sizeof *p->received);
    p->seen_sends = allocate((size_t)program->channel_count, sizeof *p->seen_sends);
    p->seen_receives = allocate((size_t)program->channel_count, sizeof *p->seen_receives);
    for (int i = 0; i < p->program->count; i++) {
        const struct operation *o = &p->program->operations[i];
        if (o->kind == OPERATION_SEND)
            p->sent[p->first_message[o->output.channel] + (size_t)p->seen_sends[o->output.channel]++] = i;
        if (o->kind == OPERATION_RECEIVE)
            p->received[p->first_message[o->input.channel] + (size_t)p->seen_receives[o->input.channel]++] =
                i;
        p->computes += o->kind == OPERATION_COMPUTE;
    }
    p->transfer_capacity = (size_t)(p->program->count - p->computes) * (size_t)p->request.steps;
    p->transfers = allocate(p->transfer_capacity, sizeof *p->transfers);
    p->actions = allocate((size_t)p->computes * (size_t)p->request.steps, sizeof *p->actions);
    p->waited = allocate((size_t)p->computes, sizeof *p->waited);
    p->name = allocate((size_t)p->computes, sizeof *p->name);
    int number = 0;
    for (int i = 0; i < p->program->count; i++)
        if (p->program->operations[i].kind == OPERATION_COMPUTE)
            compute_text(p->program->operations[i].compute, p->name[number++], sizeof *p->name);
}

struct pipeline *pipeline_create(const struct pipeline_request *request)
{
    struct pipeline *p = allocate(1, sizeof *p);
    struct device *device = request->device;
    p->request = *request;
    p->program = &request->program->rank[request->rank];
    p->worker = request->rehearsal ? rehearsal_create(request) : compute_create(request);
    index_messages(p);
    p->start = allocate((size_t)p->computes, sizeof *p->start);
    p->end = allocate((size_t)p->computes, sizeof *p->end);
    for (int i = 0; i < p->computes; i++) {
        p->start[i] = device->event_create(device);
        p->end[i] = device->event_create(device);
    }
    p->begun = device->event_create(device);
    p->reached = device->allocate_pinned(device, sizeof *p->reached);
    request->progress->reached = p->reached;
    device->store_word(device, p->reached, 0); /* used once before the first step */
    device->synchronize(device);
    return p;
}

void pipeline_close(struct pipeline *p)
{
    if (!p) return;
    struct device *device = p->request.device;
    p->worker->close(p->worker);
    p->request.progress->reached = NULL;
    device->release_pinned(device, p->reached);
    device->event_destroy(device, p->begun);
    for (int i = 0; i < p->computes; i++) {
        device->event_destroy(device, p->start[i]);
        device->event_destroy(device, p->end[i]);
    }
    void *const host[] = { p->start, p->end, p->waited, p->name, p->actions, p->transfers, p->sent,
        p->received, p->first_message, p->seen_sends, p->seen_receives };
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
    free(p);
}

/* --- one step --- */

static bool is_local(const struct pipeline *p, int channel)
{
    return p->request.program->channels[channel].local;
}

/* Returns the seconds that the host stood still for the compute's input and for its output buffer. */
static double run_compute(struct pipeline *p, int step, int number, const struct operation *o)
{
    struct channels *channels = p->request.channels;
    struct device *device = p->request.device;
    double waited = 0;
    if (o->input.channel >= 0 && !is_local(p, o->input.channel))
        waited += channel_await_receive(channels, o->input.channel, o->input.buffer);
    if (o->output.channel >= 0 && !is_local(p, o->output.channel))
        waited += channel_await_send(channels, o->output.channel, o->output.buffer);
    float *input =
        o->input.channel >= 0 ? channel_receive_buffer(channels, o->input.channel, o->input.buffer) : NULL;
    float *output =
        o->output.channel >= 0 ? channel_send_buffer(channels, o->output.channel, o->output.buffer) : NULL;

    device->range_push(device, p->name[number]);
    device->event_record(device, p->start[number]);
    p->worker->compute[o->compute.kind](p->worker, step, o, input, output);
    device->event_record(device, p->end[number]);
    device->range_pop(device);
    device->store_word(device, p->reached, ++p->enqueued);
    return waited;
}

static void record_transfers(struct pipeline *p, int step)
{
    const struct transfer *transfers;
    int count;
    channels_finish_step(p->request.channels, &transfers, &count);
    const size_t channels = (size_t)p->request.program->channel_count;
    memset(p->seen_sends, 0, channels * sizeof *p->seen_sends);
    memset(p->seen_receives, 0, channels * sizeof *p->seen_receives);
    for (int i = 0; i < count; i++) {
        const struct transfer *t = &transfers[i];
        const int nth = t->is_send ? p->seen_sends[t->channel]++ : p->seen_receives[t->channel]++;
        if (nth >= p->request.program->channels[t->channel].messages ||
            p->transfer_count == p->transfer_capacity)
            fail("step %d: more messages on channel %d than the program has", step, t->channel);
        const int operation =
            (t->is_send ? p->sent : p->received)[p->first_message[t->channel] + (size_t)nth];
        const struct compute *compute = &p->program->operations[operation].compute;
        p->transfers[p->transfer_count++] = (struct transfer_record){ .step = step,
            .channel = t->channel,
            .buffer = t->buffer,
            .is_send = t->is_send,
            .chunk = compute->chunk,
            .microbatch = compute->microbatch,
            .posted = t->posted,
            .complete = t->complete };
    }
}

/* How long compute stood still before its `number`-th action of the step. A device that computes beside the
   host waits by itself, from the end of the action before. Less than this is no wait, but the way from one
   kernel to the next. */
static const double gap = 5e-6;

static double waited_before(const struct pipeline *p, int number)
{
    struct device *device = p->request.device;
    if (device->is_host) return p->waited[number];
    const double seconds = device->event_seconds(device, p->start[number]) -
                           device->event_seconds(device, number > 0 ? p->end[number - 1] : p->begun);
    return seconds < gap ? 0 : seconds;
}

struct step_record pipeline_step(struct pipeline *p, int step, bool timed, const struct sink *sink)
{
    struct device *device = p->request.device;
    struct progress *progress = p->request.progress;
    device->start_clock(device);
    struct step_record record = { .step = step, .timed = timed, .start = seconds_now() };
    p->worker->begin(p->worker, step, sink);
    device->event_record(device, p->begun);

    int number = 0;
    double send_waited = 0; /* by the host; what a device waited for shows before its next action */
    for (int i = 0; i < p->program->count; i++) {
        const struct operation *o = &p->program->operations[i];
        atomic_store_explicit(&progress->current, i, memory_order_relaxed);
        switch (o->kind) {
        case OPERATION_RECEIVE:
            channel_receive(p->request.channels, o->input.channel, o->input.buffer);
            break;
        case OPERATION_SEND:
            send_waited += channel_send(p->request.channels, o->output.channel, o->output.buffer);
            break;
        case OPERATION_COMPUTE:
            p->waited[number] = run_compute(p, step, number, o);
            number++;
            break;
        }
    }
    atomic_store_explicit(&progress->current, p->program->count, memory_order_relaxed);
    record_transfers(p, step);
    device->synchronize(device);
    record.seconds = seconds_now() - record.start;

    number = 0;
    if (device->is_host) record.exposed = send_waited;
    for (int i = 0; i < p->program->count; i++) {
        const struct operation *o = &p->program->operations[i];
        if (o->kind != OPERATION_COMPUTE) continue;
        struct action_record *a = &p->actions[p->action_count++];
        *a = (struct action_record){ .step = step,
            .kind = (int32_t)o->compute.kind,
            .chunk = o->compute.chunk,
            .microbatch = o->compute.microbatch,
            .start = device->event_seconds(device, p->start[number]),
            .end = device->event_seconds(device, p->end[number]),
            .waited = waited_before(p, number) };
        record.busy += a->end - a->start;
        record.exposed += a->waited;
        number++;
    }
    record.idle = record.seconds - record.busy;
    record.loss = p->worker->finish(p->worker);
    atomic_store_explicit(&progress->current, -1, memory_order_relaxed);
    return record;
}

const struct action_record *pipeline_actions(const struct pipeline *p, size_t *count)
{
    *count = p->action_count;
    return p->actions;
}

const struct transfer_record *pipeline_transfers(const struct pipeline *p, size_t *count)
{
    *count = p->transfer_count;
    return p->transfers;
}

const struct tensor_digest *pipeline_digests(const struct pipeline *p, size_t *count)
{
    return p->worker->digests(p->worker, count);
}

const struct arrival *pipeline_arrivals(const struct pipeline *p, size_t *count)
{
    *count = 0;
    return p->worker->arrivals ? p->worker->arrivals(p->worker, count) : NULL;
}

const struct rehearsed *pipeline_rehearsed(const struct pipeline *p)
{
    return p->request.rehearsal ? rehearsal_result(p->worker) : NULL;
}
