/* The machine-readable side: result.json (or reference.json), the timeline, and what an earlier run left in
 * the directory. */
#pragma once
#include "report/verify.h"

struct figure {
    const char *name; /* "fom_tokens_per_second" */
    double value;     /* NaN: not measured, written as null */
};

struct result {
    const struct facts *facts;
    const char *verdict; /* verdict_text */
    int exit_code;
    const char *injected; /* the injected fault's text, or NULL */
    const struct figure *figures;
    int figure_count;
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

/* Creates the directory (and its parents) and removes from it the files that an earlier run listed in its
   `name` (result.json), so that no rank file of another p is left; nothing outside the directory is touched,
   and no file that was not listed. Fails the job where it cannot. */
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
