/* What actions and messages take on the deck's &machine: for rehearsal and plan. */
#pragma once
#include "command/setup.h"
#include "report/timings.h"

struct machine_costs {
    double *seconds[COMPUTE_KINDS]; /* [chunks] of every kind, owned */
    struct costs costs;             /* views of the above, and of a message latency and bytes / bandwidth */
};
/* A chunk takes its layers' times. A layer's F and B take what the deck says, or where that is 0 model FLOPs
   (layer_flops) / flop_rate; its I and W what the deck says, or half of B each: so it is of the FLOPs of the
   GEMMs, while attention's are all I's. Free with machine_costs_free. */
struct machine_costs machine_costs_of(
    const struct deck *deck, const struct model *model, const struct partition *partition);
void machine_costs_free(struct machine_costs *costs);

/* What actions and messages take, in seconds, and where that is known from. */
struct chosen_costs {
    struct machine_costs machine;
    bool measured, measured_hop; /* from a run's files rather than the deck */
};

/* A run's times, and its deck. */
struct measured {
    struct timings timings;
    struct deck deck;
    struct partition partition; /* of the run */
    const char *directory;
};
/* False with one line in *error: no such run, or one of another model. */
bool measured_read(
    struct measured *measured, const char *directory, const struct model *model, struct text *error);
void measured_free(struct measured *measured);

/* Costs of the chunks of a partition: a run's where `measured` is not NULL, else the deck's. A chunk costs
   what it did in the run; where the run's chunks were others, its layers at the run's mean seconds a layer.
 */
void chosen_costs_make(struct chosen_costs *costs, const struct deck *deck, const struct model *model,
    const struct partition *partition, const struct measured *measured);
void chosen_costs_free(struct chosen_costs *costs);
