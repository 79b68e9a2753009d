/* Whose output a compute takes, and who takes its output. This is the model's dataflow, no schedule's. */
#pragma once
#include "schedule/program.h"

/* What an F takes and hands on are activations; what a B or an I does are gradients. A W does neither: it
   reads what its I left in the slot. */
static inline enum channel_kind message_kind(enum compute_kind kind)
{
    return kind == COMPUTE_F ? CHANNEL_ACTIVATION : CHANNEL_GRADIENT;
}

/* The compute that makes the input of `user`; false where there is none (chunk 0's F reads the step's inputs,
   the last chunk's B or I the loss; a W has none). One that makes a gradient is named B here: as_planned says
   whether it is an I. */
static inline bool input_maker(struct compute user, int chunks, struct compute *maker)
{
    const bool forward = user.kind == COMPUTE_F;
    *maker =
        (struct compute){ forward ? COMPUTE_F : COMPUTE_B, user.chunk + (forward ? -1 : 1), user.microbatch };
    return user.kind != COMPUTE_W && maker->chunk >= 0 && maker->chunk < chunks;
}

/* The compute that uses the output of `maker`; false where there is none. B stands for I here too. */
static inline bool output_user(struct compute maker, int chunks, struct compute *user)
{
    const bool forward = maker.kind == COMPUTE_F;
    *user = (struct compute){ forward ? COMPUTE_F : COMPUTE_B, maker.chunk + (forward ? 1 : -1),
        maker.microbatch };
    return maker.kind != COMPUTE_W && user->chunk >= 0 && user->chunk < chunks;
}

/* A number for each F, and for each B or I, of which a (chunk, microbatch) has one: 0 ..
   2*chunks*microbatches - 1. No W has one. */
static inline size_t compute_index(struct compute c, int chunks, int microbatches)
{
    return ((size_t)(c.kind != COMPUTE_F) * (size_t)chunks + (size_t)c.chunk) * (size_t)microbatches +
           (size_t)c.microbatch;
}

/* Whether two computes have the same compute_index. */
static inline bool same_output(struct compute a, struct compute b)
{
    return message_kind(a.kind) == message_kind(b.kind) && a.chunk == b.chunk && a.microbatch == b.microbatch;
}

/* "activations 0 -> 1", into a buffer of the caller's. */
const char *channel_text(const struct channel_plan *channel, char *buffer, size_t size);

/* The order of struct program's channels: by from, to, kind. For qsort. */
int channel_order(const void *a, const void *b);

/* Which channel carries what: output[message_kind][chunk] takes the chunk's activations or gradients; -1
   where they have no user or the program lacks the channel. And which backwards are in halves: whoever reads
   the computes notes each. */
struct wiring {
    int chunks, microbatches;
    int *output[2];
    bool *split; /* [chunk][microbatch] it has an I */
};
void wiring_make(struct wiring *wiring, const struct program *program);
void wiring_free(struct wiring *wiring);

/* The channel of a compute's output, and of its input; -1 where there is none. */
static inline int output_channel(const struct wiring *wiring, struct compute maker)
{
    return maker.kind == COMPUTE_W ? -1 : wiring->output[message_kind(maker.kind)][maker.chunk];
}
static inline int input_channel(const struct wiring *wiring, struct compute user, int chunks)
{
    struct compute maker;
    return input_maker(user, chunks, &maker) ? output_channel(wiring, maker) : -1;
}

static inline size_t pair_index(const struct wiring *wiring, struct compute c)
{
    return (size_t)c.chunk * (size_t)wiring->microbatches + (size_t)c.microbatch;
}
static inline void wiring_note(struct wiring *wiring, struct compute c)
{
    if (c.kind == COMPUTE_I) wiring->split[pair_index(wiring, c)] = true;
}

/* An F as it is; a B or an I as the one that its (chunk, microbatch) has. */
static inline struct compute as_planned(const struct wiring *wiring, struct compute c)
{
    if (c.kind != COMPUTE_F) c.kind = wiring->split[pair_index(wiring, c)] ? COMPUTE_I : COMPUTE_B;
    return c;
}
