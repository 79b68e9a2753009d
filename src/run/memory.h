/* What a rank's program needs of its device, known before anything is allocated. */
#pragma once
#include "run/observer.h"
#include "schedule/program.h"

/* Device bytes of a rank, by the plan alone. */
struct memory_plan {
    size_t weights, operands, gradients, slots, work, buffers, digests, total;
    int slot_count;
    size_t slot_bytes;
};
/* Boundary tensors whose arrival on this rank is digested in the recorded step: all that chunks take from
   others, where boundaries are written. */
size_t memory_arrivals(const struct program *program, int rank, const struct reporting *reporting);
struct memory_plan memory_plan_of(const struct model *model, const struct partition *partition,
    const struct program *program, int rank, const struct reporting *reporting);

/* The same of a rank that only rehearses: channel buffers. */
struct memory_plan memory_plan_of_rehearsal(
    const struct model *model, const struct program *program, int rank);

/* Whether the rank's backward is split: its slots then also hold what I leaves for W. */
bool memory_splits(const struct program *program, int rank);
/* Layers on a rank, and those that each of its slots has room for: the rank's largest chunk's. */
size_t memory_layers(const struct partition *partition, const struct program *program, int rank);
int memory_slot_layers(const struct partition *partition, const struct program *program, int rank);
/* Elements of one slot: the saved tensors of each layer, then, where backward is split, what each layer's I
   leaves for its W, then on the last chunk's rank the gradient of the output. */
size_t memory_slot_elements(
    const struct model *model, const struct partition *partition, const struct program *program, int rank);
/* Digests that one step of a rank with so many layers makes, the loss not counted. */
size_t memory_step_digests(const struct model *model, size_t layers, const struct reporting *reporting);
