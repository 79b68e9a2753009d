/* What the tests of whole runs share: a case is a model under a schedule; its digests, and those of the
 * reference. */
#pragma once
#include "channel/job.h"
#include "run/pipeline.h"
#include "run/reference.h"

struct test_case {
    struct model model;
    const char *schedule;
    int chunks_per_rank, group;
    bool overlap, self_channels;
    const char
        *device; /* "host": or what PIPELEAF_TEST_DEVICE says, so that the same tests are those of a GPU */
    int threads, steps;
    struct injection injection;
    void (*before_step)(int step); /* NULL, or called before each step, and after the last one */
};

struct digests {
    struct tensor_digest *line; /* sorted by step and dataflow; owned */
    size_t count;
};

/* Whether schedule_make refuses the case on so many ranks. */
bool case_is_refused(const struct test_case *test, int ranks);
/* Runs the case on all ranks of the job; the digests of all steps on rank 0. Fails the job where the trace is
   not the program, where a refused case was not expected, or where the device holds other than the planned
   bytes. */
struct digests run_case(struct job *job, const struct test_case *test);
/* The reference's digests of all steps (rank 0 calls it alone). */
struct digests reference_case(const struct test_case *test);
/* How many lines differ, or are on one side only. */
size_t digests_differ(const struct digests *a, const struct digests *b);
const char *case_text(const struct test_case *test, int ranks, char text[256]);
