/* What both `plan` and `run` print of a program before it runs. */
#pragma once
#include "command/setup.h"

/* Appends "1-4 17-20": the layers of a rank counted from one, chunk by chunk; "none" for a chunk without
 * layers. */
void show_layers(
    const struct partition *partition, const struct program *program, int rank, struct text *text);

/* Schedule, group, bubble (closed form where there is one, and simulated with model FLOPs as costs and free
 * messages), traffic, FLOPs of a step. */
void show_schedule(struct listing *out, const struct deck *deck, const struct model *model,
    const struct partition *partition, const struct program *program);

/* Model FLOPs of one step: all layers, microbatches, forward and backward. */
double step_flops(const struct model *model);
/* Bytes that cross between ranks in one step. */
double step_traffic(const struct model *model, const struct program *program);
