/* The machine-readable side: result.json (or reference.json), the timeline, and what an earlier run left in
 * the directory. */
#pragma once
#include "report/verify.h"

struct figure {
    const char *name; /* "fom_tokens_per_second" */
    double value;     /* NaN: not measured, written as null */
};

/* What the deck's &target asks of a figure. */
struct target {
    const char *name;    /* of the figure: "fom_tokens_per_second" */
    const char *label;   /* for people: "FOM, tokens/s" */
    double bound, value; /* value NaN: not measured, and so not met */
    bool met;
};

struct result {
    const struct facts *facts;
    int pipeline,
        pipelines;       /* of a run: which of how many side by side, 0 of 1 where it is alone; else 0, 0 */
    const char *verdict; /* verdict_text */
    int exit_code;
    const char *injected; /* the injected fault's text, or NULL */
    const struct figure *figures;
    int figure_count;
    const struct target *targets;
    int target_count;
    const double *step_seconds; /* timed steps, max over ranks */
    int steps;
    const float *loss; /* of each step from 1, warm-up and recorded step included; also written as a
                          hexadecimal float */
    int losses;
    const char *const
        *files; /* every file of this run in the directory, names relative to it, this one included */
    int file_count;
};
void result_write(const char *path, const struct result *result);

/* One of several pipelines that ran side by side, as the job's own result.json tells of it. */
struct pipeline_result {
    const char *directory; /* relative to that of the job */
    const char *run_id;    /* NULL: not known yet */
    const char *verdict;
    int exit_code;
    int first_rank, ranks;            /* in MPI_COMM_WORLD */
    double fom, step_seconds, bubble; /* tokens/s; median, seconds; idle/step; NaN: not measured */
    double of_median;                 /* its speed, as a share of the median pipeline's; NaN */
    bool is_slow;
    int wrong_rank; /* in MPI_COMM_WORLD, which holds the first difference; or -1 */
    const char *const *host, *const *device,
                                 *const *device_uuid; /* [ranks]; device_uuid[i]: NULL: it has none */
};

/* result.json of the job of several pipelines: of facts the deck, the run id and what made it. */
struct job_result {
    const struct facts *facts;
    const char *verdict;
    int exit_code;
    const char *injected;
    const struct figure *figures;
    int figure_count;
    const struct target *targets;
    int target_count;
    const struct pipeline_result *pipelines; /* their directories are listed for whoever cleans up */
    int pipeline_count;
    const char *const *files;
    int file_count;
};
void job_result_write(const char *path, const struct job_result *result);

/* Creates the directory (and its parents) and removes from it the files that an earlier run listed in its
   `name` (result.json), so that no rank file of another p is left, and those of the pipelines whose
   directories it listed; nothing outside the directory is touched, and no file that was not listed. Fails the
   job where it cannot. */
void directory_prepare(const char *directory, const char *name);

/* Everything the timeline shows of one rank; times already on rank 0's clock. */
struct rank_trace {
    int rank;
    const char *host, *device;
    const struct step_record *steps;      /* [steps] */
    const struct planned_record *planned; /* [computes of the rank in a step, in its order] */
    const struct action_record *actions;
    size_t action_count; /* steps times the computes in one */
    const struct transfer_record *transfers;
    size_t transfer_count;
};
struct channel_plan;
struct timeline {
    const struct facts *facts;
    const struct rank_trace *ranks;
    int rank_count;
    int steps, chunks, microbatches; /* chunks: of the whole model */
    double makespan;                 /* of the planned step, seconds */
    const struct channel_plan *channels;
    int channel_count;
    size_t message_bytes;
};
/* Chrome trace events ("JSON object format"), in microseconds from the first step's begin: a process a rank,
   whose number is the rank's plus 1; in it a thread for compute, with what it did and why it was idle
   (idle.h), and one for each end of a channel; flow events from send to receive; and a process for the run
   with its steps. */
void timeline_write(const char *path, const struct timeline *timeline);

/* An id no other run has: UTC time, host, process, random bytes: "20261129T150405Z-node17-1234-9f3c21aa". */
void run_id_make(char id[80]);
