/* Gradients, activations and the loss do not depend on p, v, m's place in the schedule, nor on the schedule:
   for this job's p, every schedule, v in 1..3 and m in 1..2p+1, each step of the pipeline has the digests of
   the reference. A schedule is left out only where it refuses the case, which its traits say beforehand. */
#include "cases.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>

static void compare(struct job *job, struct test_case *test, const struct digests *reference)
{
    char text[256];
    struct digests run = run_case(job, test);
    if (job->rank == 0) {
        const size_t differ = digests_differ(&run, reference);
        CHECK(differ == 0 && run.count == reference->count, "%s: %zu of %zu digests differ",
            case_text(test, job->size, text), differ, reference->count);
    }
    free(run.line);
}

enum { SCHEDULES = 32 };

/* Each schedule that takes the case; ran[i] counts those of schedule_names[i]. */
static void compare_all(struct job *job, struct test_case *test, const struct digests *reference, int *ran)
{
    for (int i = 0; schedule_names[i] && i < SCHEDULES; i++) {
        test->schedule = schedule_names[i];
        const int needed = schedule_traits(test->schedule).chunks_per_rank;
        const bool refused = case_is_refused(test, job->size);
        CHECK(refused == (needed && needed != test->chunks_per_rank), "%s with v=%d m=%d on %d ranks is %s",
            test->schedule, test->chunks_per_rank, test->model.microbatches, job->size,
            refused ? "refused" : "made");
        if (refused) continue;
        compare(job, test, reference);
        ran[i]++;
    }
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    const int p = job.size;
    int ran[SCHEDULES] = { 0 };
    for (int m = 1; m <= 2 * p + 1; m++) {
        struct test_case test = { .model = { .layers = 13,
                                      .hidden = 24,
                                      .heads = 3,
                                      .ffn = 40,
                                      .sequence = 5,
                                      .microbatches = m,
                                      .microbatch_size = 1,
                                      .seed = 7 },
            .overlap = true,
            .device = "host",
            .threads = 1,
            .steps = 2 };
        struct digests reference = { 0 };
        if (job.rank == 0) reference = reference_case(&test);
        if (job.rank == 0) {
            const size_t expected = 2 * (13 * (2 * (size_t)m + PARAMETERS) + 1);
            CHECK(reference.count == expected, "the reference has %zu digests, not %zu", reference.count,
                expected);
        }
        for (int v = 1; v <= 3; v++) {
            test.chunks_per_rank = v;
            compare_all(&job, &test, &reference, ran);
        }
        free(reference.line);
    }
    for (int i = 0; schedule_names[i] && i < SCHEDULES; i++)
        CHECK(ran[i] >= 2 * p + 1, "%s ran %d times", schedule_names[i], ran[i]);
    int result = job.rank == 0 ? check_result() : 0;
    job_broadcast(&job, &result, sizeof result, 0);
    job_end(&job);
    return result;
}
