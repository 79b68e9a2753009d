#include "run/pipeline.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pipeline {
    struct pipeline_request request;
    const struct rank_program *program;
    size_t layer_size, saved_size,
        boundary; /* elements: parameters of a layer, saved tensors of a layer, a boundary tensor */

    int *layers, layer_count;   /* this rank's layers, ascending */
    int *local_of;              /* [model layers] index among them, or -1 */
    float *weights, *gradients; /* [layer_count][layer_size] */
    float *slots; /* [slots][slot_size]: the saved tensors of each layer of the chunk, and on the last chunk's
                     rank dout */
    size_t slot_size;
    int slot_layers;
    bool has_last;
    struct layer_work work;
    float *work_memory, *out, *target, *loss; /* out, target: only on the last chunk's rank */

    struct observer *observer;
    struct event **start, **end; /* [computes] */
    double *waited;              /* [computes] of the step that runs */
    int computes;

    struct action_record *actions;
    size_t action_count;
    struct transfer_record *transfers;
    size_t transfer_count, transfer_capacity;
    int *sent, *received; /* [channels][messages]: the SEND or RECEIVE operation of the k-th message, by
                             first_message */
    size_t *first_message;
    int *seen_sends, *seen_receives; /* [channels] messages completed in the step, for the records */
};

static int chunk_layers(const struct pipeline *p, int chunk)
{
    return partition_layers(p->request.partition, chunk);
}

static bool is_last(const struct pipeline *p, int chunk)
{
    return chunk == p->request.program->chunks - 1;
}

/* --- set-up --- */

static float *device_floats(struct device *device, size_t count)
{
    return device->allocate(device, checked_product(count, sizeof(float), "device memory"));
}

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
}

static void make_layers(struct pipeline *p)
{
    const struct pipeline_request *r = &p->request;
    p->layer_count = (int)memory_layers(r->partition, r->program, r->rank);
    p->layers = allocate((size_t)p->layer_count, sizeof *p->layers);
    p->local_of = allocate((size_t)r->model->layers, sizeof *p->local_of);
    for (int i = 0; i < r->model->layers; i++) p->local_of[i] = -1;
    int count = 0;
    for (int chunk = 0; chunk < r->program->chunks; chunk++)
        if (r->program->rank_of[chunk] == r->rank)
            for (int layer = r->partition->first[chunk]; layer < r->partition->first[chunk + 1]; layer++) {
                p->local_of[layer] = count;
                p->layers[count++] = layer;
            }
    p->weights = device_floats(r->device, (size_t)p->layer_count * p->layer_size);
    p->gradients = device_floats(r->device, (size_t)p->layer_count * p->layer_size);
    for (int i = 0; i < p->layer_count; i++)
        layer_parameters(r->device, r->model, p->layers[i], p->weights + (size_t)i * p->layer_size);
}

struct pipeline *pipeline_create(const struct pipeline_request *request)
{
    struct pipeline *p = allocate(1, sizeof *p);
    p->request = *request;
    const struct model *model = request->model;
    struct device *device = request->device;
    p->program = &request->program->rank[request->rank];
    p->layer_size = parameters_size(model);
    p->saved_size = layer_saved_size(model);
    p->boundary = boundary_size(model);
    p->has_last = request->program->rank_of[request->program->chunks - 1] == request->rank;
    p->slot_layers = memory_slot_layers(request->partition, request->program, request->rank);
    p->slot_size = memory_slot_elements(model, request->partition, request->program, request->rank);
    make_layers(p);
    p->slots =
        device_floats(device, checked_product((size_t)p->program->slots, p->slot_size, "activation slots"));
    p->work_memory = device_floats(device, layer_work_size(model));
    p->work = layer_work_view(model, p->work_memory);
    if (p->has_last) {
        p->out = device_floats(device, p->boundary);
        p->target = device_floats(device, p->boundary);
        p->loss = device_floats(device, 1);
    }
    index_messages(p);
    p->start = allocate((size_t)p->computes, sizeof *p->start);
    p->end = allocate((size_t)p->computes, sizeof *p->end);
    for (int i = 0; i < p->computes; i++) {
        p->start[i] = device->event_create(device);
        p->end[i] = device->event_create(device);
    }
    const size_t digests = memory_step_digests(model, (size_t)p->layer_count, &request->reporting);
    p->observer =
        observer_create(device, model, &request->reporting, digests, (digests + 1) * (size_t)request->steps);
    device->synchronize(device);
    return p;
}

void pipeline_close(struct pipeline *p)
{
    if (!p) return;
    struct device *device = p->request.device;
    observer_close(p->observer);
    for (int i = 0; i < p->computes; i++) {
        device->event_destroy(device, p->start[i]);
        device->event_destroy(device, p->end[i]);
    }
    float *const memory[] = { p->weights, p->gradients, p->slots, p->work_memory, p->out, p->target,
        p->loss };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        if (memory[i]) device->release(device, memory[i]);
    void *const host[] = { p->layers, p->local_of, p->start, p->end, p->waited, p->actions, p->transfers,
        p->sent, p->received, p->first_message, p->seen_sends, p->seen_receives };
    for (size_t i = 0; i < sizeof host / sizeof *host; i++) free(host[i]);
    free(p);
}

/* --- one step --- */

static struct layer_saved saved_of(const struct pipeline *p, int slot, int place)
{
    return layer_saved_view(
        p->request.model, p->slots + (size_t)slot * p->slot_size + (size_t)place * p->saved_size);
}

/* The gradient of the last chunk's output, which F computes with the loss and B reads. */
static float *dout_of(const struct pipeline *p, int slot)
{
    return p->slots + (size_t)slot * p->slot_size + (size_t)p->slot_layers * p->saved_size;
}

static void inject(struct pipeline *p, int step, struct tensor tensor, int microbatch, float *data)
{
    const struct injection *i = &p->request.injection;
    if (!i->active || i->step != step || i->microbatch != microbatch || i->tensor.class != tensor.class ||
        i->layer != tensor.layer)
        return;
    if (tensor.class == TENSOR_GRADIENT && i->tensor.index != tensor.index) return;
    p->request.device->flip_bit(p->request.device, data, i->element, i->bit);
}

static void run_forward(
    struct pipeline *p, int step, const struct operation *o, const float *input, float *output)
{
    struct device *device = p->request.device;
    const struct model *model = p->request.model;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = p->request.partition->first[chunk], count = chunk_layers(p, chunk);
    float *const end = is_last(p, chunk) ? p->out : output;
    float *const begin = count > 0 ? saved_of(p, o->slot, 0).x : end;

    if (chunk == 0) {
        boundary_random(device, model, RANDOM_INPUT, step, microbatch, begin);
        observer_see(p->observer, (struct tensor){ TENSOR_INPUT, 0, microbatch }, begin, true);
    } else if (begin != input) { /* a chunk without layers may hand on the very buffer of a local channel */
        device->copy(device, begin, input, p->boundary * sizeof(float));
    }
    for (int i = 0; i < count; i++) {
        const int layer = first + i;
        const struct layer_saved saved = saved_of(p, o->slot, i);
        float *const out = i + 1 < count ? saved_of(p, o->slot, i + 1).x : end;
        layer_forward(
            device, model, p->weights + (size_t)p->local_of[layer] * p->layer_size, &saved, &p->work, out);
        const struct tensor tensor = { TENSOR_ACTIVATION, layer, microbatch };
        inject(p, step, tensor, microbatch, out);
        observer_see(p->observer, tensor, out, i + 1 == count);
    }
    if (is_last(p, chunk)) {
        boundary_random(device, model, RANDOM_TARGET, step, microbatch, p->target);
        observer_see(p->observer, (struct tensor){ TENSOR_TARGET, 0, microbatch }, p->target, true);
        const float inverse = 1.0f / (float)loss_elements(model);
        device->loss(device, model_tokens(model), (size_t)model->hidden, p->out, p->target, inverse,
            dout_of(p, o->slot), p->loss, microbatch > 0);
    }
}

static void run_backward(struct pipeline *p, int step, const struct operation *o, float *input, float *output)
{
    struct device *device = p->request.device;
    const struct model *model = p->request.model;
    const int chunk = o->compute.chunk, microbatch = o->compute.microbatch;
    const int first = p->request.partition->first[chunk], count = chunk_layers(p, chunk);
    float *dout = is_last(p, chunk) ? dout_of(p, o->slot) : input;

    if (count == 0 && output && output != dout)
        device->copy(device, output, dout, p->boundary * sizeof(float));
    for (int i = count - 1; i >= 0; i--) {
        const int layer = first + i, local = p->local_of[layer];
        const struct layer_saved saved = saved_of(p, o->slot, i);
        float *const gradients = p->gradients + (size_t)local * p->layer_size;
        /* Inside the chunk the gradient of a layer's input takes the place of that of its output, which
         * nobody needs again. */
        float *const dx = i == 0 && output ? output : dout;
        layer_backward(device, model, p->weights + (size_t)local * p->layer_size, gradients, &saved, &p->work,
            dout, dx, microbatch > 0);
        for (int parameter = 0; parameter < PARAMETERS; parameter++)
            inject(p, step, (struct tensor){ TENSOR_GRADIENT, layer, parameter }, microbatch,
                gradients + parameter_offset(model, (enum parameter)parameter));
        const struct tensor tensor = { TENSOR_ACTIVATION_GRADIENT, layer, microbatch };
        inject(p, step, tensor, microbatch, dx);
        observer_see(p->observer, tensor, dx, i == 0);
        if (microbatch == model->microbatches - 1) observer_see_gradients(p->observer, layer, gradients);
        dout = dx;
    }
}

static bool is_local(const struct pipeline *p, int channel)
{
    return p->request.program->channels[channel].from == p->request.program->channels[channel].to;
}

/* Returns the seconds that compute stood still for its input and for its output buffer. */
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

    device->event_record(device, p->start[number]);
    if (o->compute.kind == COMPUTE_F)
        run_forward(p, step, o, input, output);
    else
        run_backward(p, step, o, input, output);
    device->event_record(device, p->end[number]);
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

struct step_record pipeline_step(struct pipeline *p, int step, bool timed, const struct sink *sink)
{
    struct device *device = p->request.device;
    struct progress *progress = p->request.progress;
    struct step_record record = { .step = step, .timed = timed, .start = seconds_now(), .loss = NAN };
    device->check_arithmetic(device);
    observer_begin(p->observer, step, sink);
    if (sink && p->request.reporting.parameters)
        for (int i = 0; i < p->layer_count; i++)
            observer_see_parameters(p->observer, p->layers[i], p->weights + (size_t)i * p->layer_size);

    int number = 0;
    for (int i = 0; i < p->program->count; i++) {
        const struct operation *o = &p->program->operations[i];
        atomic_store_explicit(&progress->current, i, memory_order_relaxed);
        switch (o->kind) {
        case OPERATION_RECEIVE:
            channel_receive(p->request.channels, o->input.channel, o->input.buffer);
            break;
        case OPERATION_SEND:
            record.exposed += channel_send(p->request.channels, o->output.channel, o->output.buffer);
            break;
        case OPERATION_COMPUTE:
            p->waited[number] = run_compute(p, step, number, o);
            number++;
            atomic_store_explicit(&progress->done, i, memory_order_relaxed);
            atomic_fetch_add_explicit(&progress->count, 1, memory_order_relaxed);
            break;
        }
    }
    atomic_store_explicit(&progress->current, p->program->count, memory_order_relaxed);
    record_transfers(p, step);
    device->synchronize(device);
    record.seconds = seconds_now() - record.start;

    number = 0;
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
            .waited = p->waited[number] };
        record.busy += a->end - a->start;
        record.exposed += a->waited;
        number++;
    }
    record.idle = record.seconds - record.busy;
    if (p->has_last) {
        float sum;
        device->download(device, &sum, p->loss, sizeof sum);
        record.loss = sum * (1.0f / (float)loss_elements(p->request.model));
        observer_loss(p->observer, record.loss);
    }
    observer_flush(p->observer);
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
    return observer_digests(p->observer, count);
}

const int *pipeline_layers(const struct pipeline *p, int *count)
{
    *count = p->layer_count;
    return p->layers;
}
