#include "run/memory.h"
#include "channel/channel.h"
#include "model/layer.h"
#include "run/arrivals.h"

/* Layers a slot must hold: those of the rank's largest chunk. */
int memory_slot_layers(const struct partition *partition, const struct program *program, int rank)
{
    int most = 0;
    for (int chunk = 0; chunk < program->chunks; chunk++)
        if (program->rank_of[chunk] == rank && partition_layers(partition, chunk) > most)
            most = partition_layers(partition, chunk);
    return most;
}

bool memory_splits(const struct program *program, int rank)
{
    const struct rank_program *mine = &program->rank[rank];
    for (int i = 0; i < mine->count; i++) {
        const struct operation *o = &mine->operations[i];
        if (o->kind == OPERATION_COMPUTE && (o->compute.kind == COMPUTE_I || o->compute.kind == COMPUTE_W))
            return true;
    }
    return false;
}

size_t memory_slot_elements(
    const struct model *model, const struct partition *partition, const struct program *program, int rank)
{
    const bool has_last = program->rank_of[program->chunks - 1] == rank;
    const size_t layer =
        layer_saved_size(model) + (memory_splits(program, rank) ? layer_kept_size(model) : 0);
    return (size_t)memory_slot_layers(partition, program, rank) * layer +
           (has_last ? (boundary_size(model) + 63) / 64 * 64 : 0);
}

size_t memory_layers(const struct partition *partition, const struct program *program, int rank)
{
    size_t layers = 0;
    for (int chunk = 0; chunk < program->chunks; chunk++)
        if (program->rank_of[chunk] == rank) layers += (size_t)partition_layers(partition, chunk);
    return layers;
}

/* Digests of one step. */
size_t memory_step_digests(const struct model *model, size_t layers, const struct reporting *reporting)
{
    return layers * ((reporting->digest_activations ? 2 * (size_t)model->microbatches : 0) +
                        (reporting->digest_gradients ? PARAMETERS : 0));
}

size_t memory_arrivals(const struct program *program, int rank, const struct reporting *reporting)
{
    const struct rank_program *mine = &program->rank[rank];
    size_t count = 0;
    for (int i = 0; i < mine->count && reporting->activations != DATA_NONE; i++)
        count += mine->operations[i].kind == OPERATION_COMPUTE && mine->operations[i].input.channel >= 0;
    return count;
}

struct memory_plan memory_plan_of(const struct model *model, const struct partition *partition,
    const struct program *program, int rank, const struct reporting *reporting)
{
    const size_t layers = memory_layers(partition, program, rank);
    const bool has_last = program->rank_of[program->chunks - 1] == rank;
    struct memory_plan plan = { 0 };
    plan.weights = plan.gradients = layers * parameters_size(model) * sizeof(float);
    plan.operands = layers * operands_bytes(model);
    plan.slot_count = program->rank[rank].slots;
    plan.slot_bytes = memory_slot_elements(model, partition, program, rank) * sizeof(float);
    plan.slots = checked_product((size_t)plan.slot_count, plan.slot_bytes, "activation slots");
    plan.work =
        (layer_work_size(model, memory_splits(program, rank)) +
            (has_last ? 2 * boundary_size(model) + 1 : 0) + (model->bf16 ? boundary_size(model) : 0)) *
        sizeof(float);
    plan.buffers = channels_bytes(program->channels, program->channel_count, rank, message_bytes(model));
    plan.digests = observer_device_bytes(memory_step_digests(model, layers, reporting)) +
                   arrivals_device_bytes(memory_arrivals(program, rank, reporting));
    plan.total =
        plan.weights + plan.operands + plan.gradients + plan.slots + plan.work + plan.buffers + plan.digests;
    return plan;
}

struct memory_plan memory_plan_of_rehearsal(
    const struct model *model, const struct program *program, int rank)
{
    struct memory_plan plan = { .slot_count = program->rank[rank].slots };
    plan.total = plan.buffers =
        channels_bytes(program->channels, program->channel_count, rank, message_bytes(model));
    return plan;
}
