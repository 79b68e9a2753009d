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
    const struct action_record *actions;
    size_t action_count;
    const struct transfer_record *transfers;
    size_t transfer_count;
};
/* Chrome trace events ("JSON object format"): a process a rank, a thread for compute and one for each channel
   end, complete events ("X") in microseconds from the first step's begin, flow events from send to receive.
 */
struct channel_plan;
void timeline_write(const char *path, const struct facts *facts, const struct rank_trace *ranks,
    int rank_count, const struct channel_plan *channels, int channel_count);

/* An id no other run has: UTC time, host, process, random bytes: "20261129T150405Z-node17-1234-9f3c21aa". */
void run_id_make(char id[80]);
