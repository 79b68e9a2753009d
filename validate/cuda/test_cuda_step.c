/* What the host does while a step runs, counted by the double: it enqueues. It allocates nothing, never uses
   the default stream, and how often it waits for the GPU does not depend on how much there is to compute. */
#include "../check.h"
#include "../run/cases.h"
#include <stdlib.h>
#include "counters.h"

static unsigned long allocations, default_streams, synchronizations, waits[2];
static int what;

static void before_step(int step)
{
    if (step == 3) {
        CHECK(double_allocations() == allocations, "the second step allocated %lu times",
            double_allocations() - allocations);
        CHECK(double_default_stream_uses() == default_streams, "the second step used the default stream");
        waits[what] = double_synchronizations() - synchronizations;
    }
    allocations = double_allocations();
    default_streams = double_default_stream_uses();
    synchronizations = double_synchronizations();
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    struct test_case test = { .model = { .layers = 4,
                                  .hidden = 24,
                                  .heads = 3,
                                  .ffn = 40,
                                  .sequence = 9,
                                  .microbatch_size = 1,
                                  .seed = 3 },
        .schedule = "interleaved-1f1b",
        .chunks_per_rank = 2,
        .overlap = true,
        .device = "cuda",
        .threads = 1,
        .steps = 2,
        .before_step = before_step };
    for (what = 0; what < 2; what++) {
        test.model.microbatches = what ? 8 : 2;
        struct digests run = run_case(&job, &test);
        struct digests reference = { 0 };
        if (job.rank == 0) {
            struct test_case on_host = test;
            on_host.device = "host";
            reference = reference_case(&on_host);
            CHECK(digests_differ(&run, &reference) == 0, "the GPU's bits are not the host's");
        }
        free(run.line);
        free(reference.line);
    }
    CHECK(waits[0] == waits[1], "the host waits %lu times in a step of 2 microbatches, %lu times in one of 8",
        waits[0], waits[1]);
    int result = check_result();
    result = (int)job_max(&job, result);
    job_end(&job);
    return result;
}
