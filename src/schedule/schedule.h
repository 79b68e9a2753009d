/* Who computes what, in which order. A generator (one file each) yields each rank's order of compute actions;
   it knows nothing of messages or memory: program.h adds those. Chunks are numbered 0..chunks-1 over the
   whole model. */
#pragma once
#include "base/base.h"

/* Kinds of compute. I and W are the two halves of B: gradient of the input, gradient of the weights. */
enum compute_kind { COMPUTE_F, COMPUTE_B, COMPUTE_I, COMPUTE_W, COMPUTE_KINDS };
extern const char compute_letter[COMPUTE_KINDS + 1]; /* "FBIW" */

struct compute {
    enum compute_kind kind;
    int chunk, microbatch;
};

struct schedule {
    int ranks, chunks, microbatches;
    int group;              /* the group size N that was used (0 where the schedule has none) */
    int *rank_of;           /* [chunks] placement: the rank that holds a chunk */
    struct compute **order; /* [ranks] the rank's actions, count[rank] of them; owned */
    int *count;             /* [ranks] */
};

/* Names of the schedules, in the order in which they are listed, ending with NULL. */
extern const char *const schedule_names[];

/* Makes schedule NAME for `ranks` ranks with chunks_per_rank chunks each and `microbatches` microbatches;
   group 0 lets the schedule choose its group size. False with one line in *error (an unknown name, a case the
   schedule's rule excludes). */
bool schedule_make(struct schedule *schedule, const char *name, int ranks, int chunks_per_rank,
    int microbatches, int group, struct text *error);
void schedule_free(struct schedule *schedule);

/* The bubble in both usual forms, from the closed form of design (N = p, p dividing m, free communication);
 * NaN where none is known. */
struct bubble {
    double over_ideal; /* idle / ideal compute: (p-1)/m for gpipe and 1f1b, (p-1)/(m v) interleaved */
    double of_step;    /* idle / whole step: (p-1)/(m+p-1), (p-1)/(m v + p-1) */
};
struct bubble schedule_bubble(const char *name, int ranks, int chunks_per_rank, int microbatches);
