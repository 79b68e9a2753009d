/* The life of every slot and buffer, followed through each rank's program. */
#include "checker.h"
#include <stdio.h>
#include <stdlib.h>

enum { EMPTY = -1 };

/* What lies where on the rank at hand, as the compute_index of the compute that uses it (receive buffers),
   that made it (send buffers), or whose saved tensors it has (slots, by the F). EMPTY: free, or under way,
   which a later use waits for. */
struct memory {
    const struct checker *check;
    int rank, position;
    const struct operation *operation;
    int64_t **receive, **send; /* [channel][buffer] */
    int64_t *slot;
};

static int64_t name_of(const struct memory *memory, struct compute compute)
{
    const struct program *program = memory->check->program;
    return (int64_t)compute_index(compute, program->chunks, program->microbatches);
}

static void say_where(const struct memory *memory)
{
    static const char *const doing[] = { "", "receive for ", "send of " };
    char text[64];
    text_add(memory->check->error, "rank %d, operation %d, %s%s: ", memory->rank, memory->position,
        doing[memory->operation->kind], compute_text(memory->operation->compute, text, sizeof text));
}

/* "receive buffer 1 of activations 0 -> 1 <what>[ of <whose>]". */
static bool refuse_buffer(
    const struct memory *memory, bool receive, struct endpoint at, const char *what, int64_t whose)
{
    char text[64];
    say_where(memory);
    text_add(memory->check->error, "%s buffer %d of %s %s", receive ? "receive" : "send", at.buffer,
        channel_text(&memory->check->program->channels[at.channel], text, sizeof text), what);
    if (whose != EMPTY)
        text_add(memory->check->error, " %s",
            compute_text(compute_named(memory->check, whose), text, sizeof text));
    return false;
}

/* The endpoint names the channel that it should, and a buffer that exists. */
static bool check_endpoint(const struct memory *memory, bool receive, struct endpoint at, int should)
{
    const struct program *program = memory->check->program;
    char text[64];
    if (at.channel != should) {
        say_where(memory);
        text_add(memory->check->error, "its %s is on channel %d, but the placement has it on %d (%s)",
            receive ? "input" : "output", at.channel, should,
            should < 0 ? "none" : channel_text(&program->channels[should], text, sizeof text));
        return false;
    }
    if (at.channel < 0) return true;
    const struct channel_plan *channel = &program->channels[at.channel];
    const bool shared = receive || channel->local;
    const int count = shared ? channel->receive_buffers : channel->send_buffers;
    if (at.buffer >= 0 && at.buffer < count) return true;
    refuse_buffer(memory, shared, at, "does not exist", EMPTY);
    text_add(memory->check->error, ": there are %d", count);
    return false;
}

static bool check_slot(struct memory *memory)
{
    const struct operation *o = memory->operation;
    const struct compute forward = { COMPUTE_F, o->compute.chunk, o->compute.microbatch };
    const int slots = memory->check->program->rank[memory->rank].slots;
    char text[64];
    if (o->slot < 0 || o->slot >= slots) {
        say_where(memory);
        text_add(memory->check->error, "slot %d does not exist: the rank has %d", o->slot, slots);
        return false;
    }
    int64_t *holds = &memory->slot[o->slot];
    const int64_t wanted = o->compute.kind == COMPUTE_F ? EMPTY : name_of(memory, forward);
    if (*holds != wanted) {
        say_where(memory);
        text_add(memory->check->error, "slot %d ", o->slot);
        if (*holds == EMPTY)
            text_add(memory->check->error, "is empty");
        else
            text_add(memory->check->error, "holds %s until its %c",
                compute_text(compute_named(memory->check, *holds), text, sizeof text),
                memory->check->wiring.split[*holds] ? 'W' : 'B');
        return false;
    }
    if (o->compute.kind == COMPUTE_F) *holds = name_of(memory, o->compute);
    if (o->compute.kind == COMPUTE_B || o->compute.kind == COMPUTE_W) *holds = EMPTY;
    return true;
}

static bool check_compute(struct memory *memory)
{
    const struct checker *check = memory->check;
    const struct program *program = check->program;
    const struct operation *o = memory->operation;
    const int in = input_channel(&check->wiring, o->compute, program->chunks);
    const int out = output_channel(&check->wiring, o->compute);
    if (!check_endpoint(memory, true, o->input, in) || !check_endpoint(memory, false, o->output, out) ||
        !check_slot(memory))
        return false;
    int64_t *input = in < 0 ? NULL : &memory->receive[in][o->input.buffer];
    if (input && *input == EMPTY)
        return refuse_buffer(memory, true, o->input, "is empty: nothing before it provides its input", EMPTY);
    if (input && *input != name_of(memory, o->compute))
        return refuse_buffer(memory, true, o->input, "is not its input, but that of", *input);
    if (out >= 0) {
        const bool local = program->channels[out].local;
        int64_t *output =
            local ? &memory->receive[out][o->output.buffer] : &memory->send[out][o->output.buffer];
        struct compute user;
        output_user(o->compute, program->chunks, &user);
        if (*output != EMPTY)
            return refuse_buffer(memory, local, o->output,
                local ? "still holds the input of" : "still holds the unsent output of", *output);
        *output = name_of(memory, local ? user : o->compute);
        if (local) check->hand_overs[out]++;
    }
    if (input) *input = EMPTY;
    return true;
}

/* Not an I where the backward is whole, nor a B where it is in halves. */
static bool is_planned(const struct checker *check, struct compute compute)
{
    return as_planned(&check->wiring, compute).kind == compute.kind;
}

static bool check_receive(struct memory *memory)
{
    const struct operation *o = memory->operation;
    const struct checker *check = memory->check;
    const int in = input_channel(&check->wiring, o->compute, check->program->chunks);
    if (in < 0 || check->program->channels[in].local || check->program->channels[in].to != memory->rank ||
        !is_planned(check, o->compute)) {
        say_where(memory);
        text_add(check->error, "nothing is sent to this rank for that");
        return false;
    }
    if (!check_endpoint(memory, true, o->input, in)) return false;
    int64_t *holds = &memory->receive[in][o->input.buffer];
    if (*holds != EMPTY) return refuse_buffer(memory, true, o->input, "is still to be read by", *holds);
    *holds = name_of(memory, o->compute);
    return true;
}

static bool check_send(struct memory *memory)
{
    const struct operation *o = memory->operation;
    const struct checker *check = memory->check;
    const int out = output_channel(&check->wiring, o->compute);
    if (out < 0 || check->program->channels[out].local ||
        check->program->channels[out].from != memory->rank || !is_planned(check, o->compute)) {
        say_where(memory);
        text_add(check->error, "this rank has no such message to send");
        return false;
    }
    if (!check_endpoint(memory, false, o->output, out)) return false;
    int64_t *holds = &memory->send[out][o->output.buffer];
    if (*holds == EMPTY) return refuse_buffer(memory, false, o->output, "holds nothing to send", EMPTY);
    if (*holds != name_of(memory, o->compute))
        return refuse_buffer(memory, false, o->output, "holds the output of", *holds);
    *holds = EMPTY;
    return true;
}

/* Nothing was received or made in vain. Slots are empty, since every F has had its B or W. */
static bool check_end(struct memory *memory)
{
    const struct checker *check = memory->check;
    for (int c = 0; c < check->program->channel_count; c++) {
        const struct channel_plan *channel = &check->program->channels[c];
        for (int side = 0; side < 2; side++) {
            const bool receive = side == 0;
            const int count = receive ? channel->receive_buffers : channel->send_buffers;
            for (int b = 0; b < count && (receive ? channel->to : channel->from) == memory->rank; b++) {
                const int64_t left = receive ? memory->receive[c][b] : memory->send[c][b];
                char on[64], text[64];
                if (left == EMPTY) continue;
                text_add(check->error, "rank %d, at the end: %s buffer %d of %s %s %s", memory->rank,
                    receive ? "receive" : "send", b, channel_text(channel, on, sizeof on),
                    receive ? "has not been read by" : "still holds the unsent output of",
                    compute_text(compute_named(check, left), text, sizeof text));
                return false;
            }
        }
    }
    return true;
}

static bool check_rank(struct memory *memory)
{
    static bool (*const check_operation[])(struct memory *) = { [OPERATION_COMPUTE] = check_compute,
        [OPERATION_RECEIVE] = check_receive,
        [OPERATION_SEND] = check_send };
    const struct rank_program *rank = &memory->check->program->rank[memory->rank];
    memory->slot = allocate(rank->slots > 0 ? (size_t)rank->slots : 0, sizeof *memory->slot);
    for (int slot = 0; slot < rank->slots; slot++) memory->slot[slot] = EMPTY;
    bool fine = true;
    for (int i = 0; i < rank->count && fine; i++) {
        memory->position = i;
        memory->operation = &rank->operations[i];
        fine = check_operation[memory->operation->kind](memory);
    }
    free(memory->slot);
    return fine && check_end(memory);
}

static int64_t *empty_buffers(int count)
{
    int64_t *buffers = allocate((size_t)count, sizeof *buffers);
    for (int i = 0; i < count; i++) buffers[i] = EMPTY;
    return buffers;
}

bool check_memory(const struct checker *check)
{
    const struct program *program = check->program;
    const size_t channels = (size_t)program->channel_count;
    struct memory memory = { .check = check };
    memory.receive = allocate(channels, sizeof *memory.receive);
    memory.send = allocate(channels, sizeof *memory.send);
    for (size_t c = 0; c < channels; c++) {
        memory.receive[c] = empty_buffers(program->channels[c].receive_buffers);
        memory.send[c] = empty_buffers(program->channels[c].send_buffers);
    }
    bool fine = true;
    for (memory.rank = 0; memory.rank < program->ranks && fine; memory.rank++) fine = check_rank(&memory);
    for (size_t c = 0; c < channels; c++) {
        free(memory.receive[c]);
        free(memory.send[c]);
    }
    free(memory.receive);
    free(memory.send);
    return fine;
}
