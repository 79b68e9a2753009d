/* How a pipeline came out, what that says beside others that ran at its side, and what it says of hosts. */
#pragma once
#include "report/harness.h"

/* Of one pipeline, made by its rank 0; plain data, to be gathered. */
struct outcome {
    bool ended; /* false: the run has not come to its verdict yet, and perhaps never will */
    enum verdict verdict;
    int code; /* exit code */
    bool injected, missed_target;
    double fom, step, bubble;                /* tokens/s; median, seconds; idle/step; NaN: not measured */
    double right_messages, planned_messages; /* of a rehearsal; else 0 */
    int wrong_rank;                          /* of the pipeline, which holds the first difference; -1 */
    char run_id[80];

    /* By outcomes_judge. */
    double of_median; /* speed as a share of the median pipeline's; NaN: no step was measured */
    bool is_slow;     /* of several pipelines one that is more than 5 % below the median */
};

/* Compares so many pipelines of one deck: sets of_median and is_slow. Speed is one over the median step,
   which is proportional to the FOM, and there where a rehearsal has no FOM. */
void outcomes_judge(struct outcome *outcomes, int count);

/* The hosts of so many pipelines of `ranks` ranks each, in the order of their first ranks, place [count *
   ranks]. A host's status is the worst that one of its pipelines gives it:

     HW-FAIL    a rank here holds the first wrong bits of a wrong pipeline, while another pipeline of the job,
   the same program, was verified; not where the fault was injected FAIL       a pipeline with ranks here is
   wrong or not verified, or did not come to its end PERF-FAIL  a pipeline with ranks here is right, but
   missed the deck's target or is slow PASS       every pipeline with ranks here is verified

   *hosts: how many. Free with nodes_free. */
struct place;
struct node *nodes_judge(
    const struct outcome *outcomes, int count, int ranks, const struct place *place, int *hosts);
void nodes_free(struct node *nodes, int hosts);
