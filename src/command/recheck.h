/* A run computed again, chunk by chunk, from what it recorded at its chunks' boundaries, each by another rank
   than the one that had computed it. */
#pragma once
#include "command/setup.h"
#include "report/findings.h"

struct recheck_outcome {
    enum verdict verdict;
    int code;       /* the exit code that it stands for */
    int wrong_rank; /* on rank 0: the rank that computed the first wrong bits; -1 where none did, or they
                       changed later */
};
/* Of the run in `directory`, whose files are all written, by the ranks of the job on the devices that they
   have open: what &verify against='recheck' asks for. All ranks call it. Writes recheck.txt and recheck.json
   there. Appends the explanation on rank 0; verdict and code are the same on all ranks. */
struct recheck_outcome recheck_of_run(
    struct job *job, struct device *device, const char *directory, double timeout, struct text *explanation);

/* Which of `checkers` ranks computes which chunk again: the next one, and never the rank of the same number
   nor the same GPU where there is another; chunks are shared out evenly, by layers. Returns how many chunks
   there was no other for. */
int recheck_assign(const struct partition *partition, const int *rank_of, const struct computed_by *by,
    int checkers, const struct computed_by *checker, int *checker_of);
