/* What actions cost as a run measured it. */
#include "command/costs.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One line where the run computed with other shapes, so that its times say nothing of this deck. */
static bool same_shapes(
    const struct model *ours, const struct model *theirs, const char *directory, struct text *error)
{
    const struct {
        const char *name;
        int ours, theirs;
    } shape[] = { { "model.hidden", ours->hidden, theirs->hidden },
        { "model.heads", ours->heads, theirs->heads }, { "model.ffn", ours->ffn, theirs->ffn },
        { "model.sequence", ours->sequence, theirs->sequence },
        { "batch.microbatch_size", ours->microbatch_size, theirs->microbatch_size } };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        if (shape[i].ours == shape[i].theirs) continue;
        text_add(error, "--from '%s': %s is %d there and %d here: its times are of other computes", directory,
            shape[i].name, shape[i].theirs, shape[i].ours);
        return false;
    }
    return true;
}

bool measured_read(
    struct measured *measured, const char *directory, const struct model *model, struct text *error)
{
    *measured = (struct measured){ .directory = directory };
    if (!timings_read(&measured->timings, directory, error)) return false;
    const struct timings *t = &measured->timings;
    const bool good = same_shapes(model, &t->model, directory, error) &&
                      deck_read(&measured->deck, directory, t->deck, strlen(t->deck), 0, NULL, error) &&
                      deck_check(&measured->deck, t->ranks, error);
    if (!good) {
        measured_free(measured);
        return false;
    }
    measured->partition = setup_partition(&measured->deck, t->ranks);
    return true;
}

void measured_free(struct measured *measured)
{
    timings_free(&measured->timings);
    deck_free(&measured->deck);
    if (measured->partition.first) partition_free(&measured->partition);
    *measured = (struct measured){ 0 };
}

static bool same_partition(const struct partition *a, const struct partition *b)
{
    return a->chunks == b->chunks &&
           memcmp(a->first, b->first, ((size_t)a->chunks + 1) * sizeof *a->first) == 0;
}

/* The run's seconds of a kind: of a chunk, or (chunk -1) of a layer in the mean. What the run had not of a
   split or whole backward comes from the other: B = I + W, and each half of B its half, as their FLOPs are.
 */
static double run_seconds(const struct measured *measured, enum compute_kind kind, int chunk)
{
    const struct timings *t = &measured->timings;
    const double *seconds = t->seconds[kind];
    if (!seconds && kind == COMPUTE_B)
        return run_seconds(measured, COMPUTE_I, chunk) + run_seconds(measured, COMPUTE_W, chunk);
    if (!seconds) return t->seconds[COMPUTE_B] ? run_seconds(measured, COMPUTE_B, chunk) / 2 : 0;
    if (chunk >= 0) return seconds[chunk];
    double sum = 0;
    for (int c = 0; c < t->chunks; c++) sum += seconds[c];
    return sum / t->model.layers;
}

static void take_measured(
    struct chosen_costs *costs, const struct partition *partition, const struct measured *measured)
{
    const bool same = same_partition(partition, &measured->partition);
    for (enum compute_kind kind = 0; kind < COMPUTE_KINDS; kind++)
        for (int chunk = 0; chunk < partition->chunks; chunk++)
            costs->machine.seconds[kind][chunk] =
                same ? run_seconds(measured, kind, chunk)
                     : partition_layers(partition, chunk) * run_seconds(measured, kind, -1);
    costs->measured = true;
    costs->measured_hop = !isnan(measured->timings.hop);
    if (!costs->measured_hop) return;
    costs->machine.costs.latency = measured->timings.hop;
    costs->machine.costs.transfer = 0;
}

void chosen_costs_make(struct chosen_costs *costs, const struct deck *deck, const struct model *model,
    const struct partition *partition, const struct measured *measured)
{
    *costs = (struct chosen_costs){ .machine = machine_costs_of(deck, model, partition) };
    if (measured) take_measured(costs, partition, measured);
}

void chosen_costs_free(struct chosen_costs *costs)
{
    machine_costs_free(&costs->machine);
    *costs = (struct chosen_costs){ 0 };
}
