/* What several commands print before anything runs. */
#pragma once
#include "command/setup.h"
#include "report/digests.h"

/* What made this program, and the libraries that it runs with. */
void show_build(struct listing *out, const struct identity_card *card);

/* Appends "0 4": the chunks of a rank; and "1-4 17-20": the layers of a rank counted from one, chunk by
 * chunk; "none" for a chunk without layers. */
void show_layers(
    const struct partition *partition, const struct program *program, int rank, struct text *text);
void show_chunks(const struct program *program, int rank, struct text *text);

/* Schedule, group, bubble (closed form where there is one, and simulated with model FLOPs as costs and free
 * messages), traffic, FLOPs of a step. */
void show_schedule(struct listing *out, const struct deck *deck, const struct model *model,
    const struct partition *partition, const struct program *program);

/* Model FLOPs of one step: all layers, microbatches, forward and backward. */
double step_flops(const struct model *model);
/* Bytes that cross between ranks in one step. */
double step_traffic(const struct model *model, const struct program *program);

/* The table of steps: loss in decimal and as it is, and what all digests of the step are in one word.
   digests: count of them, the step's, sorted. */
void show_steps_head(struct listing *out);
void show_step(struct listing *out, const struct model *model, int step, const char *kind, float loss,
    const struct tensor_digest *digests, size_t count);
/* Below it: how many digests there are and hold a NaN, and how to make a fingerprint from `file`. */
void show_steps_end(struct listing *out, const char *file, const struct tensor_digest *digests, size_t count);
