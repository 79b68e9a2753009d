/* The times that a run measured, read back from the files of its ranks. */
#pragma once
#include "report/output.h"

struct timings {
    struct model model;
    int ranks, chunks;              /* chunks: of the whole model */
    char *deck;                     /* the effective deck of the run; owned */
    double *seconds[COMPUTE_KINDS]; /* [chunks] mean of a chunk's actions over the timed steps; NULL: the run
                                       had none of that kind */
    double *step;                   /* [steps] seconds of each timed step, of the slowest rank */
    size_t steps;
    /* From the end of a compute to the start of the one on another rank that stood waiting for its output:
       the median, in seconds. NaN: none waited, or the ranks' clocks are not one (several hosts). */
    double hop;
};

/* Reads DIRECTORY/rank*.h5, all of them and of one run. False with one line in *error. Free with
 * timings_free. */
bool timings_read(struct timings *timings, const char *directory, struct text *error);
void timings_free(struct timings *timings);
