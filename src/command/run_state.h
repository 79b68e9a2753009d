/* The state of `pipeleaf run`, and its phases before (run_head.c) and after the steps (run_figures.c,
 * run_files.c). */
#pragma once
#include "command/costs.h"
#include "command/outcome.h"
#include "command/setup.h"
#include "command/target.h"
#include "report/progress_line.h"
#include <sched.h>

/* What is measured over the timed steps, on rank 0. NaN: not measured. */
struct figures {
    struct spread step; /* seconds, of the slowest rank */
    double fom;         /* tokens/s at the median step */
    double busy;        /* mean over ranks of the compute time in a step */
    double exposed;     /* median step less the simulated makespan, not below 0; seconds */
    double bubble_over_ideal, bubble_of_step; /* measured, waiting for messages included; median over steps */
    double flop_rate, peak, share_of_peak;    /* FLOP/s; peak: the sum over ranks; medians over steps */
    double planned, held;                     /* device bytes of the largest rank */
    double startup;                           /* from MPI_Init to the first step; seconds */
};

/* Where a rank is and what it has there: known of all ranks on all ranks. */
struct place {
    char host[128], device[160];
    char uuid[48], where[160]; /* of a GPU: device.uuid, device.place */
    cpu_set_t cpus;
    int threads;
    double planned;         /* device bytes */
    double peak, copy_rate; /* FLOP/s; of a GPU bytes/s of a copy; NaN: not measured */
};

/* Where several pipelines run side by side, what the job has beyond its pipelines: on all ranks the
   directory, on rank 0 of the world the rest, which is its own listing and card. */
struct many {
    char directory[DECK_STRING]; /* as the deck has it; each pipeline's own is below it */
    struct identity_card card;
    struct listing listing;
};

struct run {
    struct job world, job; /* all ranks; those of this rank's pipeline, which may be all */
    struct many *many;     /* owned; NULL where there is one pipeline */
    struct words words;
    struct deck deck;
    struct model model;
    struct reporting reporting;
    struct injection injection;
    int steps; /* all of them; the last is the recorded one */
    struct partition partition;
    int *rank_of_layer; /* [layers], owned */
    struct program program;
    struct memory_plan planned;
    bool rehearses; /* run.device='rehearsal': actions wait for their costs, nothing is computed */
    struct machine_costs costs; /* of the deck's &machine; where it rehearses */

    struct place *all_places; /* [world.size], owned */
    struct place *places;     /* [job.size] of them: this pipeline's */
    int threads;              /* this rank's */
    double planned_on_host;   /* device bytes of all ranks of this host */
    bool oversubscribed;      /* some host has more threads than CPUs in its ranks' affinity masks */
    bool shared_gpu;          /* some GPU has several ranks */
    struct device *device;
    double peak;   /* FLOP/s of this rank, NaN: not measured, or beside each step */
    double *peaks; /* [timed steps + 1], owned: before each timed step and after the last; NULL: not so */
    struct channels *channels;
    struct identity_card card;
    char arithmetic[256]; /* on rank 0, where it has no layers: the others' */
    struct listing listing;

    struct progress progress;
    struct progress_line progress_line;
    struct watchdog *watchdog;
    struct pipeline *pipeline;
    struct output *output;
    struct step_record *records; /* [steps] of this rank */
    double first_step_at;        /* when it began */
    double recorded_seconds;
    size_t held;
    double clock_before, clock_before_at, clock_after, clock_after_at;

    /* On rank 0, after gather_run; owned. */
    struct step_record *all_records; /* [size][steps] */
    struct action_record *all_actions;
    size_t *action_offsets; /* [size + 1] bytes */
    struct transfer_record *all_transfers;
    size_t *transfer_offsets;
    struct tensor_digest *all_digests;
    size_t digest_count;
    double *step_seconds;         /* [timed steps], max over ranks; on all ranks */
    struct prediction prediction; /* of the same program with free messages and the measured compute times; on
                                     all ranks; seconds */
    double makespan;              /* that of the prediction */
    struct figures figures;
    double right_messages, wrong_messages, planned_messages; /* of a rehearsal, all ranks and steps */
    struct text wrong_lines;                                 /* on rank 0: the first wrong one of each rank */
    struct outcome outcome;                                  /* on rank 0 */
};

/* Threads and CPUs of this rank, by its affinity mask and those of its neighbours on the host. */
void share_processors(struct run *run);
/* With the devices open: which each rank has, and whether CPUs or GPUs are too few. */
void compare_places(struct run *run);
/* Measures what this rank's device can do, by one rank a host at a time, where CPUs are not too few. All
 * ranks call it, after compare_places. */
void measure_rates(struct run *run);
/* Where CPUs compute: the peak on all ranks at once, in turn with the steps: a clock that falls
   under load, and another's work on the same cores, are then in the peak as they are in the steps. Before a
   timed step and the one after them. */
void measure_beside(struct run *run, int step);
/* Removes what an earlier run left, and lists at once, as NOT PERFORMED, what this one will write: so that
   even if it dies the next run knows what to remove. */
void prepare_directory(struct run *run);
/* result.json, metrics.txt, nodecheck.txt of this pipeline, by run->outcome. Rank 0. */
void write_result(struct run *run);
void print_head(struct run *run);
void open_output(struct run *run);

/* All ranks, once rank 0 has all actions: run->prediction. */
void plan_as_measured(struct run *run);
/* A rank's computes in the prediction, in its order: owned by the caller. */
struct planned_record *planned_records(const struct run *run, int rank, size_t *count);
/* The same, the two clocks and the memory of this rank, to its file. */
void write_planned(struct run *run);

/* Fails the job where the executed trace is not the planned program. */
void check_trace(struct run *run);
void write_rank_file(struct run *run);
/* Brings to rank 0 what it reports on, times put on rank 0's clock, and works out step times, the simulated
 * makespan and every step's exposed communication. */
void gather_run(struct run *run);
void gather_free(struct run *run);
void print_figures(struct run *run);
/* run_timers.c: where the timed steps' seconds went, by rank. Rank 0, after gather_run. */
void print_timers(struct run *run);
/* digest.txt (but of a rehearsal), run.h5, timeline.json. */
void write_run_files(struct run *run);
/* Verifies, prints the last lines, writes listing.txt and result.json; the exit code is the same on all
 * ranks. */
int conclude(struct run *run);

/* many.c, where several pipelines run side by side. All ranks call all of these. */
/* Gives each pipeline its directory, "pipeline0003" below the deck's, and says who this rank is. */
bool many_divide(struct run *run, struct text *error);
/* Removes what an earlier run left in the job's directory and lists at once what this one will write. */
void many_prepare(struct run *run);
void many_print_head(struct run *run);
/* With the pipelines' outcomes: names those that are wrong or slow, writes the job's files and last lines.
   Returns the job's exit code on rank 0 of the world. */
int many_conclude(struct run *run);
void many_free(struct run *run);
