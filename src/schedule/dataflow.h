/* Whose output a compute takes, and who takes its output. This is the model's dataflow, no schedule's. */
#pragma once
#include "schedule/program.h"

/* The compute that makes the input of `user`; false where there is none (chunk 0's F reads the step's inputs,
   the last chunk's B the loss). */
static inline bool input_maker(struct compute user, int chunks, struct compute *maker)
{
    *maker = user;
    maker->chunk += user.kind == COMPUTE_F ? -1 : 1;
    return maker->chunk >= 0 && maker->chunk < chunks;
}

/* The compute that uses the output of `maker`; false where there is none. */
static inline bool output_user(struct compute maker, int chunks, struct compute *user)
{
    *user = maker;
    user->chunk += maker.kind == COMPUTE_F ? 1 : -1;
    return user->chunk >= 0 && user->chunk < chunks;
}

/* What an F hands on are activations, what a B hands on are gradients. */
static inline enum channel_kind output_kind(struct compute maker)
{
    return maker.kind == COMPUTE_F ? CHANNEL_ACTIVATION : CHANNEL_GRADIENT;
}

/* A number for each F and B: 0 .. 2*chunks*microbatches - 1. */
static inline size_t compute_index(struct compute c, int chunks, int microbatches)
{
    return ((size_t)(c.kind == COMPUTE_B) * (size_t)chunks + (size_t)c.chunk) * (size_t)microbatches +
           (size_t)c.microbatch;
}

static inline bool same_compute(struct compute a, struct compute b)
{
    return a.kind == b.kind && a.chunk == b.chunk && a.microbatch == b.microbatch;
}

static inline bool channel_is_local(const struct channel_plan *channel)
{
    return channel->from == channel->to;
}

/* "activations 0 -> 1", into a buffer of the caller's. */
const char *channel_text(const struct channel_plan *channel, char *buffer, size_t size);

/* The order of struct program's channels: by from, to, kind. For qsort. */
int channel_order(const void *a, const void *b);

/* Which channel carries what: output[COMPUTE_F or COMPUTE_B][chunk] takes that compute's output; -1 where it
   has no user or the program lacks the channel. */
struct wiring {
    int *output[2];
};
void wiring_make(struct wiring *wiring, const struct program *program);
void wiring_free(struct wiring *wiring);

/* The channel of a compute's output, and of its input; -1 where there is none. */
static inline int output_channel(const struct wiring *wiring, struct compute maker)
{
    return wiring->output[maker.kind][maker.chunk];
}
static inline int input_channel(const struct wiring *wiring, struct compute user, int chunks)
{
    struct compute maker;
    return input_maker(user, chunks, &maker) ? output_channel(wiring, maker) : -1;
}
