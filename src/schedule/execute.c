/* The abstract execution of a program. */
#include "execute.h"
#include <assert.h>
#include <stdlib.h>

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* One side of message k is ready at `now`; where the other was before it, the message is delivered. */
static void meet(struct transfers *t, int k, double now, const struct costs *costs)
{
    if (k >= t->posted || k >= t->started) {
        t->time[k] = now;
        return;
    }
    const double free_since = k > 0 ? t->time[k - 1] : 0;
    t->time[k] = later(later(t->time[k], now), free_since) + costs->latency + costs->transfer;
    t->delivered = k + 1;
}

/* True where message k (-1: none) of channel c has been delivered, with *now no earlier than that; else the
 * rank waits. */
static bool await(struct execution *e, int rank, int c, int k, double *now)
{
    const struct transfers *t = &e->transfers[c];
    if (k < 0) return true;
    if (k >= t->delivered) {
        e->channel[rank] = c;
        e->message[rank] = k;
        return false;
    }
    *now = later(*now, t->time[k]);
    return true;
}

static bool try_compute(struct execution *e, int rank, const struct operation *operation)
{
    const struct channel_plan *channels = e->program->channels;
    const struct endpoint in = operation->input, out = operation->output;
    double start = e->clock[rank];
    if (in.channel >= 0 && !channels[in.channel].local &&
        !await(e, rank, in.channel, e->transfers[in.channel].received[in.buffer], &start))
        return false;
    if (out.channel >= 0 && !channels[out.channel].local &&
        !await(e, rank, out.channel, e->transfers[out.channel].sent[out.buffer], &start))
        return false;
    const double *of_chunk = e->costs->seconds[operation->compute.kind];
    assert(of_chunk);
    const double seconds = of_chunk[operation->compute.chunk];
    e->clock[rank] = start + seconds;
    e->busy[rank] += seconds;
    if (e->start) e->start[rank][e->computed[rank]] = start;
    if (e->end) e->end[rank][e->computed[rank]] = e->clock[rank];
    e->computed[rank]++;
    return true;
}

/* Executes the rank's next operation, or says that it waits. *touched: the channel on which it moved
 * something; -1 none. */
static bool try_operation(struct execution *e, int rank, int *touched)
{
    const struct operation *operation = &e->program->rank[rank].operations[e->position[rank]];
    *touched = -1;
    if (operation->kind == OPERATION_COMPUTE) return try_compute(e, rank, operation);
    if (operation->kind == OPERATION_RECEIVE) {
        struct transfers *t = &e->transfers[ *touched = operation->input.channel];
        const int k = t->received[operation->input.buffer] = t->posted++;
        meet(t, k, e->clock[rank], e->costs);
        return true;
    }
    struct transfers *t = &e->transfers[operation->output.channel];
    if (!e->sending[rank]) {
        *touched = operation->output.channel;
        const int k = t->sent[operation->output.buffer] = t->started++;
        meet(t, k, e->clock[rank], e->costs);
    }
    e->sending[rank] = e->blocking_sends && !await(e, rank, operation->output.channel,
                                                t->sent[operation->output.buffer], &e->clock[rank]);
    return !e->sending[rank];
}

static void execution_prepare(struct execution *e)
{
    const struct program *program = e->program;
    const size_t ranks = (size_t)program->ranks;
    size_t messages = 0, receive_buffers = 0, send_buffers = 0;
    for (int c = 0; c < program->channel_count; c++) {
        messages += (size_t)program->channels[c].messages;
        receive_buffers += (size_t)program->channels[c].receive_buffers;
        send_buffers += (size_t)program->channels[c].send_buffers;
    }
    e->position = allocate(ranks, sizeof *e->position);
    e->clock = allocate(ranks, sizeof *e->clock);
    e->busy = allocate(ranks, sizeof *e->busy);
    e->computed = allocate(ranks, sizeof *e->computed);
    e->channel = allocate(ranks, sizeof *e->channel);
    e->message = allocate(ranks, sizeof *e->message);
    e->sending = allocate(ranks, sizeof *e->sending);
    e->transfers = allocate((size_t)program->channel_count, sizeof *e->transfers);
    e->times = allocate(messages, sizeof *e->times);
    e->received = allocate(receive_buffers, sizeof *e->received);
    e->sent = allocate(send_buffers, sizeof *e->sent);
    for (size_t i = 0; i < receive_buffers; i++) e->received[i] = -1;
    for (size_t i = 0; i < send_buffers; i++) e->sent[i] = -1;
    for (size_t rank = 0; rank < ranks; rank++) e->channel[rank] = -1;

    double *time = e->times;
    int *received = e->received, *sent = e->sent;
    for (int c = 0; c < program->channel_count; c++) {
        e->transfers[c] = (struct transfers){ .time = time, .received = received, .sent = sent };
        time += program->channels[c].messages;
        received += program->channels[c].receive_buffers;
        sent += program->channels[c].send_buffers;
    }
}

bool execution_run(struct execution *e, const struct program *program, bool blocking_sends,
    const struct costs *costs, double **start, double **end)
{
    *e = (struct execution){
        .program = program, .blocking_sends = blocking_sends, .costs = costs, .start = start, .end = end
    };
    execution_prepare(e);
    int *ready =
        allocate((size_t)program->ranks, sizeof *ready); /* a stack: each rank is on it at most once */
    int ready_count = 0, finished = 0;
    for (int rank = program->ranks - 1; rank >= 0; rank--) ready[ready_count++] = rank;
    while (ready_count > 0) {
        const int rank = ready[--ready_count];
        bool moving = true;
        while (moving && e->position[rank] < program->rank[rank].count) {
            int touched;
            moving = try_operation(e, rank, &touched);
            if (moving) e->position[rank]++;
            if (touched < 0) continue;
            const struct channel_plan *channel = &program->channels[touched];
            const int other = channel->from == rank ? channel->to : channel->from;
            if (e->channel[other] != touched) continue;
            e->channel[other] = -1;
            ready[ready_count++] = other;
        }
        if (moving) finished++;
    }
    free(ready);
    return finished == program->ranks;
}

void execution_free(struct execution *e)
{
    free(e->position);
    free(e->clock);
    free(e->busy);
    free(e->computed);
    free(e->channel);
    free(e->message);
    free(e->sending);
    free(e->transfers);
    free(e->times);
    free(e->received);
    free(e->sent);
    *e = (struct execution){ 0 };
}
