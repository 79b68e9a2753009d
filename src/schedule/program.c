/* Lowering: from each rank's order of computes to its program, with sends, receives, buffers and slots.
   Linear in the number of computes. A schedule that breaks its contract (a compute that is missing, doubled
   or early) still gives a program, in which what has no place has buffer or slot -1, so that program_check
   can say what is wrong. */
#include "dataflow.h"
#include "occupancy.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A set of places of which the lowest free one is given out. */
struct pool {
    char *used;
    int first_free, most; /* every place below first_free is used; `most` ever in use at once, since the
                             lowest goes first */
};

static int pool_take(struct pool *pool)
{
    while (pool->used[pool->first_free]) pool->first_free++;
    const int place = pool->first_free++;
    pool->used[place] = 1;
    if (place >= pool->most) pool->most = place + 1;
    return place;
}

static void pool_give(struct pool *pool, int place)
{
    if (place < 0) return;
    pool->used[place] = 0;
    if (place < pool->first_free) pool->first_free = place;
}

/* What lowering knows of a channel: message k, in the order in which its sender makes them. */
struct route {
    struct compute *maker; /* [messages] */
    int *buffer;           /* [messages] the receive buffer in which it lands */
    int posted;            /* receives so far */
    int sent;
    struct pool local; /* the buffers of a local hand-over */
};

struct lowering {
    const struct schedule *schedule;
    struct program *program;
    struct wiring wiring; /* its notes are made with number_messages */
    struct route *routes; /* [channels] */
    int *message;         /* [compute_index] a compute's output's number on its channel; -1 none */
    int *local_buffer;    /* [compute_index] where a local hand-over lies; -1 none */
    int *slot;            /* [chunk][microbatch] -1 none */
};

static void list_channels(struct program *program, bool self_channels)
{
    struct channel_plan *channels = allocate(2 * (size_t)program->chunks, sizeof *channels);
    int needed = 0, count = 0;
    for (int chunk = 0; chunk + 1 < program->chunks; chunk++) {
        const int a = program->rank_of[chunk], b = program->rank_of[chunk + 1];
        const bool local = a == b && !self_channels;
        channels[needed++] =
            (struct channel_plan){ .kind = CHANNEL_ACTIVATION, .from = a, .to = b, .local = local };
        channels[needed++] =
            (struct channel_plan){ .kind = CHANNEL_GRADIENT, .from = b, .to = a, .local = local };
    }
    qsort(channels, (size_t)needed, sizeof *channels, channel_order);
    for (int i = 0; i < needed; i++)
        if (count == 0 || channel_order(&channels[count - 1], &channels[i])) channels[count++] = channels[i];
    program->channels = channels;
    program->channel_count = count;
}

static void number_messages(struct lowering *l)
{
    const struct schedule *schedule = l->schedule;
    const int chunks = schedule->chunks, m = schedule->microbatches;
    struct channel_plan *channels = l->program->channels;
    for (int rank = 0; rank < schedule->ranks; rank++) {
        for (int i = 0; i < schedule->count[rank]; i++) {
            const struct compute compute = schedule->order[rank][i];
            assert(compute.kind < COMPUTE_KINDS);
            assert(compute.chunk >= 0 && compute.chunk < chunks && compute.microbatch >= 0 &&
                   compute.microbatch < m);
            assert(schedule->rank_of[compute.chunk] == rank);
            const int out = output_channel(&l->wiring, compute);
            wiring_note(&l->wiring, compute);
            if (out >= 0) l->message[compute_index(compute, chunks, m)] = channels[out].messages++;
        }
    }
    for (int c = 0; c < l->program->channel_count; c++) {
        const size_t messages = (size_t)channels[c].messages;
        l->routes[c].maker = allocate(messages, sizeof(struct compute));
        l->routes[c].buffer = allocate(messages, sizeof(int));
        for (size_t k = 0; k < messages; k++) l->routes[c].buffer[k] = -1;
        l->routes[c].local.used = allocate(messages + 1, 1);
    }
    for (int rank = 0; rank < schedule->ranks; rank++) {
        for (int i = 0; i < schedule->count[rank]; i++) {
            const struct compute compute = schedule->order[rank][i];
            const int out = output_channel(&l->wiring, compute);
            if (out >= 0) l->routes[out].maker[l->message[compute_index(compute, chunks, m)]] = compute;
        }
    }
}

/* The message that a compute takes, on channel *channel (-1: none, or never made). */
static int input_message(const struct lowering *l, struct compute user, int *channel)
{
    struct compute maker;
    *channel = input_channel(&l->wiring, user, l->schedule->chunks);
    if (*channel < 0 || !input_maker(user, l->schedule->chunks, &maker)) return -1;
    return l->message[compute_index(maker, l->schedule->chunks, l->schedule->microbatches)];
}

/* The fewest buffers with which a receiver that takes messages in another order than they are sent can hold
   those it is not ready for: 1 where the orders are the same. */
static void fewest_buffers(const struct lowering *l, int *fewest)
{
    int *taken = allocate((size_t)l->program->channel_count, sizeof *taken);
    for (int c = 0; c < l->program->channel_count; c++) fewest[c] = 1;
    for (int rank = 0; rank < l->schedule->ranks; rank++) {
        for (int i = 0; i < l->schedule->count[rank]; i++) {
            int c;
            const int message = input_message(l, l->schedule->order[rank][i], &c);
            if (c < 0) continue;
            if (message + 1 - taken[c] > fewest[c]) fewest[c] = message + 1 - taken[c];
            taken[c]++;
        }
    }
    free(taken);
}

static void choose_buffers(struct lowering *l, int send_buffers, int receive_buffers)
{
    struct program *program = l->program;
    int *fewest = allocate((size_t)program->channel_count, sizeof *fewest);
    int *occupancy = allocate((size_t)program->channel_count, sizeof *occupancy);
    fewest_buffers(l, fewest);
    if (receive_buffers == 0) occupancy_estimate(l->schedule, program, &l->wiring, occupancy);
    for (int c = 0; c < program->channel_count; c++) {
        struct channel_plan *channel = &program->channels[c];
        if (channel->local) continue; /* known when the rank is lowered */
        int count = receive_buffers ? receive_buffers : occupancy[c] > 2 ? occupancy[c] : 2;
        if (count < fewest[c]) count = fewest[c];
        channel->receive_buffers = count < channel->messages ? count : channel->messages;
        channel->send_buffers = send_buffers < channel->messages ? send_buffers : channel->messages;
    }
    free(fewest);
    free(occupancy);
}

static struct operation *append(struct rank_program *rank, enum operation_kind kind, struct compute compute)
{
    struct operation *operation = &rank->operations[rank->count++];
    *operation = (struct operation){ kind, compute, -1, { -1, -1 }, { -1, -1 } };
    return operation;
}

/* Posts the receive of the channel's next message into a buffer. */
static void append_receive(struct lowering *l, struct rank_program *rank, int c, int buffer)
{
    struct route *route = &l->routes[c];
    struct compute user;
    output_user(route->maker[route->posted], l->schedule->chunks, &user);
    route->buffer[route->posted++] = buffer;
    append(rank, OPERATION_RECEIVE, as_planned(&l->wiring, user))->input = (struct endpoint){ c, buffer };
}

/* At the start: all buffers of all channels, in the order in which the rank will come to need them. */
static void append_first_receives(struct lowering *l, struct rank_program *rank, int r)
{
    for (int i = 0; i < l->schedule->count[r]; i++) {
        const int c = input_channel(&l->wiring, l->schedule->order[r][i], l->schedule->chunks);
        if (c < 0 || l->program->channels[c].local) continue;
        if (l->routes[c].posted < l->program->channels[c].receive_buffers)
            append_receive(l, rank, c, l->routes[c].posted);
    }
}

static void lower_rank(struct lowering *l, int r)
{
    const struct schedule *schedule = l->schedule;
    const int chunks = schedule->chunks, m = schedule->microbatches, count = schedule->count[r];
    struct channel_plan *channels = l->program->channels;
    struct rank_program *rank = &l->program->rank[r];
    struct pool slots = { allocate((size_t)count + 1, 1), 0, 0 };
    /* A compute, its send, and at most a first and a later receive; pages that stay untouched cost nothing.
     */
    rank->operations = allocate(4 * (size_t)count, sizeof *rank->operations);
    append_first_receives(l, rank, r);
    for (int i = 0; i < count; i++) {
        const struct compute compute = schedule->order[r][i];
        const size_t self = compute_index(compute, chunks, m);
        int *slot = &l->slot[pair_index(&l->wiring, compute)];
        int in;
        const int message = input_message(l, compute, &in), out = output_channel(&l->wiring, compute);
        struct operation *operation = append(rank, OPERATION_COMPUTE, compute);
        if (compute.kind == COMPUTE_F) *slot = pool_take(&slots);
        operation->slot = *slot;
        const bool local_in = in >= 0 && channels[in].local;
        if (in >= 0) {
            struct compute maker;
            input_maker(compute, chunks, &maker);
            operation->input.channel = in;
            if (local_in)
                operation->input.buffer = l->local_buffer[compute_index(maker, chunks, m)];
            else if (message >= 0)
                operation->input.buffer = l->routes[in].buffer[message];
        }
        const struct endpoint input = operation->input;
        const bool local_out = out >= 0 && channels[out].local;
        if (local_out) /* while the input is still held */
            operation->output =
                (struct endpoint){ out, l->local_buffer[self] = pool_take(&l->routes[out].local) };
        else if (out >= 0)
            operation->output = (struct endpoint){ out, l->routes[out].sent++ % channels[out].send_buffers };
        const struct endpoint output = operation->output;

        if (compute.kind == COMPUTE_B || compute.kind == COMPUTE_W) pool_give(&slots, *slot);
        if (local_in)
            pool_give(&l->routes[in].local, input.buffer);
        else if (in >= 0 && input.buffer >= 0 && l->routes[in].posted < channels[in].messages)
            append_receive(l, rank, in, input.buffer);
        if (out >= 0 && !local_out) append(rank, OPERATION_SEND, compute)->output = output;
    }
    rank->slots = slots.most;
    free(slots.used);
    struct operation *fitted = realloc(rank->operations, (size_t)(rank->count + 1) * sizeof *fitted);
    if (fitted) rank->operations = fitted;
}

void program_make(struct program *program, const struct schedule *schedule, int send_buffers,
    int receive_buffers, bool self_channels)
{
    assert(send_buffers >= 1 && receive_buffers >= 0);
    const size_t pairs = (size_t)schedule->chunks * (size_t)schedule->microbatches;
    *program = (struct program){
        .ranks = schedule->ranks,
        .chunks = schedule->chunks,
        .microbatches = schedule->microbatches,
        .group = schedule->group,
        .rank_of = allocate((size_t)schedule->chunks, sizeof *program->rank_of),
        .rank = allocate((size_t)schedule->ranks, sizeof *program->rank),
    };
    memcpy(program->rank_of, schedule->rank_of, (size_t)schedule->chunks * sizeof *program->rank_of);
    list_channels(program, self_channels);

    struct lowering l = {
        .schedule = schedule,
        .program = program,
        .routes = allocate((size_t)program->channel_count, sizeof *l.routes),
        .message = allocate(2 * pairs, sizeof *l.message),
        .local_buffer = allocate(2 * pairs, sizeof *l.local_buffer),
        .slot = allocate(pairs, sizeof *l.slot),
    };
    for (size_t i = 0; i < 2 * pairs; i++) l.message[i] = l.local_buffer[i] = -1;
    for (size_t i = 0; i < pairs; i++) l.slot[i] = -1;
    wiring_make(&l.wiring, program);
    number_messages(&l);
    choose_buffers(&l, send_buffers, receive_buffers);
    for (int rank = 0; rank < program->ranks; rank++) lower_rank(&l, rank);
    for (int c = 0; c < program->channel_count; c++) {
        if (program->channels[c].local) program->channels[c].receive_buffers = l.routes[c].local.most;
        free(l.routes[c].maker);
        free(l.routes[c].buffer);
        free(l.routes[c].local.used);
    }
    wiring_free(&l.wiring);
    free(l.routes);
    free(l.message);
    free(l.local_buffer);
    free(l.slot);
}

void program_free(struct program *program)
{
    for (int rank = 0; rank < program->ranks; rank++) free(program->rank[rank].operations);
    free(program->rank);
    free(program->rank_of);
    free(program->channels);
    *program = (struct program){ 0 };
}
