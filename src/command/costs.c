#include "command/costs.h"
#include <stdlib.h>

struct machine_costs machine_costs_of(
    const struct deck *deck, const struct model *model, const struct partition *partition)
{
    const struct layer_flops flops = layer_flops(model);
    double layer[COMPUTE_KINDS] = { [COMPUTE_F] = deck->machine.forward,
        [COMPUTE_B] = deck->machine.backward,
        [COMPUTE_I] = deck->machine.input,
        [COMPUTE_W] = deck->machine.weight };
    if (layer[COMPUTE_F] == 0) layer[COMPUTE_F] = flops.forward / deck->machine.flop_rate;
    if (layer[COMPUTE_B] == 0) layer[COMPUTE_B] = flops.backward / deck->machine.flop_rate;
    if (layer[COMPUTE_I] == 0) layer[COMPUTE_I] = layer[COMPUTE_B] / 2;
    if (layer[COMPUTE_W] == 0) layer[COMPUTE_W] = layer[COMPUTE_B] / 2;

    const double bytes = (double)message_bytes(model);
    struct machine_costs machine = {
        .costs = { .latency = deck->machine.latency,
            .transfer = deck->machine.bandwidth > 0 ? bytes / deck->machine.bandwidth : 0 }
    };
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) {
        machine.costs.seconds[kind] = machine.seconds[kind] =
            allocate((size_t)partition->chunks, sizeof(double));
        for (int chunk = 0; chunk < partition->chunks; chunk++)
            machine.seconds[kind][chunk] = partition_layers(partition, chunk) * layer[kind];
    }
    return machine;
}

void machine_costs_free(struct machine_costs *costs)
{
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) free(costs->seconds[kind]);
    *costs = (struct machine_costs){ 0 };
}
