/* The channels that a placement needs, and which of them carries what. */
#include "dataflow.h"
#include <stdio.h>
#include <stdlib.h>

const char *compute_text(struct compute compute, char *buffer, size_t size)
{
    const bool known = compute.kind >= 0 && compute.kind < COMPUTE_KINDS;
    snprintf(buffer, size, "%c chunk %d microbatch %d", known ? compute_letter[compute.kind] : '?',
        compute.chunk, compute.microbatch);
    return buffer;
}

const char *channel_text(const struct channel_plan *channel, char *buffer, size_t size)
{
    const char *kind = channel->kind == CHANNEL_ACTIVATION ? "activations" : "gradients";
    snprintf(buffer, size, "%s %d -> %d", kind, channel->from, channel->to);
    return buffer;
}

int channel_order(const void *a, const void *b)
{
    const struct channel_plan *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    if (x->to != y->to) return x->to < y->to ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

static int channel_find(const struct program *program, enum channel_kind kind, int from, int to)
{
    const struct channel_plan wanted = { .kind = kind, .from = from, .to = to };
    const struct channel_plan *found = bsearch(
        &wanted, program->channels, (size_t)program->channel_count, sizeof *program->channels, channel_order);
    return found ? (int)(found - program->channels) : -1;
}

void wiring_make(struct wiring *wiring, const struct program *program)
{
    *wiring = (struct wiring){ .chunks = program->chunks,
        .microbatches = program->microbatches,
        .split = allocate((size_t)program->chunks * (size_t)program->microbatches, sizeof(bool)) };
    for (enum compute_kind kind = COMPUTE_F; kind <= COMPUTE_B; kind++) {
        int *const output = wiring->output[message_kind(kind)] =
            allocate((size_t)program->chunks, sizeof(int));
        for (int chunk = 0; chunk < program->chunks; chunk++) {
            const struct compute maker = { kind, chunk, 0 };
            struct compute user;
            output[chunk] = -1;
            if (output_user(maker, program->chunks, &user))
                output[chunk] = channel_find(
                    program, message_kind(kind), program->rank_of[chunk], program->rank_of[user.chunk]);
        }
    }
}

void wiring_free(struct wiring *wiring)
{
    free(wiring->output[CHANNEL_ACTIVATION]);
    free(wiring->output[CHANNEL_GRADIENT]);
    free(wiring->split);
}
