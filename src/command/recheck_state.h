/* The state of a recheck, and its phases before the device is opened (recheck_read.c) and from then on
   (recheck.c). */
#pragma once
#include "command/recheck.h"
#include "command/recheck_judge.h"

/* Of one recheck; all ranks know all of it but what is said to be rank 0's. */
struct rechecking {
    struct job *job;
    const char *directory;
    const struct words *words; /* NULL within a run */
    double timeout;            /* seconds */
    char id[80];               /* rank 0's */
    bool written;              /* rank 0's: recheck.txt and recheck.json can be written */

    struct recorded run;
    struct deck deck;
    bool has_deck;
    struct model model;
    struct reporting reporting;
    struct partition partition;
    int *rank_of, *checker_of; /* [chunks] */
    int own;

    struct device *device;
    bool owns_device;
    struct computed_by *by; /* [job size] */
    struct recheck *recheck;
    struct judge judge;
    struct progress progress;

    double *seconds; /* [job size], rank 0's, as are the next three */
    struct recheck_tally tally;
    struct finding *finding;
    size_t count;

    struct text head, explanation; /* rank 0's */
    bool compared;                 /* chunks were computed again */
    enum verdict verdict;
    int code;
};

/* False on all ranks where some has no good. */
bool all_agree(struct rechecking *x, bool good);
/* The line of the lowest rank that has one, on all ranks; false where none has. */
bool share_line(struct rechecking *x, bool has, struct text *line);
/* An array of rank 0's on all ranks: the caller's to free. */
void *share(struct rechecking *x, void *data, size_t bytes);

/* False with one line in *error where a word would change more than where it is computed. */
bool are_overrides_fit(const struct words *words, struct text *error);
/* Reads what the run recorded. False where there is nothing more to do: it cannot be read, or its files have
   problems. */
bool read_recorded(struct rechecking *x);
/* The run's deck, and what comes of it. False, with the verdict and why, where it cannot be computed again.
 */
bool understand(struct rechecking *x);
