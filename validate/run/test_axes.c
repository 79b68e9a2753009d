/* Every other axis varied alone: overlap, hand-overs sent like messages, threads, instruction set, the plain
   definition, messages below and above the eager limit, the split of the same sequences into microbatches;
   and that a fault does show. */
#include "cases.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>

static const struct test_case base = { .model = { .layers = 7,
                                           .hidden = 96,
                                           .heads = 4,
                                           .ffn = 200,
                                           .sequence = 17,
                                           .microbatches = 4,
                                           .microbatch_size = 2,
                                           .seed = 11 },
    .schedule = "interleaved-1f1b",
    .chunks_per_rank = 2,
    .overlap = true,
    .device = "host",
    .threads = 1,
    .steps = 2 };

/* Runs the case; on rank 0 states how many digests differ from those given. */
static size_t differ(struct job *job, const struct test_case *test, const struct digests *reference)
{
    struct digests run = run_case(job, test);
    const size_t count = job->rank == 0 ? digests_differ(&run, reference) : 0;
    free(run.line);
    return count;
}

static void equal(
    struct job *job, const struct test_case *test, const struct digests *reference, const char *axis)
{
    char text[256];
    const size_t count = differ(job, test, reference);
    if (job->rank == 0)
        CHECK(count == 0, "%s: %zu digests differ: %s", axis, count, case_text(test, job->size, text));
}

static bool has_instruction_set(const char *name)
{
    if (strcmp(name, "generic") == 0) return true;
#if defined(__x86_64__)
    return strcmp(name, "avx512") == 0
               ? __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw")
               : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

/* Only what does not name a microbatch: gradients and the loss. */
static struct digests without_boundaries(struct digests all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all.count; i++)
        if (all.line[i].tensor.class == TENSOR_GRADIENT || all.line[i].tensor.class == TENSOR_LOSS)
            all.line[kept++] = all.line[i];
    all.count = kept;
    return all;
}

static void split_does_not_show(struct job *job)
{
    struct digests first = { 0 };
    for (int b = 1; b <= 4; b *= 2) {
        struct test_case test = base;
        test.model.microbatch_size = b;
        test.model.microbatches = 8 / b;
        struct digests run = without_boundaries(run_case(job, &test));
        if (job->rank == 0 && b > 1) {
            const size_t count = digests_differ(&run, &first);
            CHECK(count == 0 && run.count == 2 * (7 * PARAMETERS + 1),
                "microbatch size %d: %zu of %zu digests differ from those of size 1", b, count, run.count);
        }
        if (b == 1)
            first = run;
        else
            free(run.line);
    }
    free(first.line);
}

/* A flipped bit in a gradient touches that tensor alone; one in an activation spreads. */
static void faults_show(struct job *job, const struct digests *reference)
{
    struct test_case test = base;
    test.injection = (struct injection){ .active = true,
        .step = 1,
        .layer = 3,
        .microbatch = 2,
        .tensor = { TENSOR_GRADIENT, 0, MLP_UP_WEIGHT },
        .element = 77,
        .bit = 22 };
    size_t count = differ(job, &test, reference);
    if (job->rank == 0) CHECK(count == 1, "one flipped bit of a gradient: %zu digests differ", count);
    test.injection.tensor = (struct tensor){ .class = TENSOR_ACTIVATION };
    count = differ(job, &test, reference);
    if (job->rank == 0) CHECK(count > 7, "one flipped bit of an activation: %zu digests differ", count);
}

/* A fault is put in at the same place whether backward is split or not: the same digests then differ, in the
 * same way. */
static void faults_are_the_same_in_halves(struct job *job, const struct digests *reference)
{
    static const struct tensor tensors[] = { { TENSOR_GRADIENT, 0, ATTENTION_QKV_WEIGHT },
        { .class = TENSOR_ACTIVATION_GRADIENT } };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        struct test_case test = base;
        test.injection = (struct injection){ .active = true,
            .step = 2,
            .layer = 4,
            .microbatch = 1,
            .tensor = tensors[i],
            .element = 5,
            .bit = 22 };
        struct digests whole = run_case(job, &test);
        test.schedule = "interleaved-zb";
        struct digests halves = run_case(job, &test);
        if (job->rank == 0) {
            const size_t differ = digests_differ(&whole, &halves), seen = digests_differ(&halves, reference);
            CHECK(differ == 0, "%s: with the same fault %zu digests differ",
                tensor_class_name[tensors[i].class], differ);
            CHECK(i == 0 ? seen == 1 : seen > PARAMETERS, "%s: the fault shows in %zu digests",
                tensor_class_name[tensors[i].class], seen);
        }
        free(whole.line);
        free(halves.line);
    }
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    struct digests reference = { 0 };
    struct test_case test = base;
    if (job.rank == 0) reference = reference_case(&test);

    test.overlap = false;
    equal(&job, &test, &reference, "overlap off");
    for (int v = 1; v <= 4; v++) { /* on one rank every hand-over is one to itself */
        test = base;
        test.self_channels = true;
        test.chunks_per_rank = v;
        if (v * job.size > test.model.layers) break;
        equal(&job, &test, &reference, "self channels");
    }
    test = base;
    for (int threads = 1; threads <= 3; threads++) {
        test.threads = threads;
        equal(&job, &test, &reference, "threads");
    }
    test = base;
    static const char *const sets[] = { "avx512", "avx2", "generic" };
    for (int i = 0; i < 3; i++) {
        if (!has_instruction_set(sets[i])) continue;
        setenv("PIPELEAF_INSTRUCTION_SET", sets[i], 1);
        equal(&job, &test, &reference, sets[i]);
    }
    unsetenv("PIPELEAF_INSTRUCTION_SET");
    test.device = "definition";
    equal(&job, &test, &reference, "the definition");
    split_does_not_show(&job);
    faults_show(&job, &reference);
    faults_are_the_same_in_halves(&job, &reference);
    free(reference.line);

    /* 4 KiB is Open MPI's eager limit between processes of one host, 64 KiB MPICH's and that of TCP: messages
     * of 480 bytes and of 512 KiB. */
    static const struct model sizes[] = { { .layers = 4,
                                              .hidden = 24,
                                              .heads = 3,
                                              .ffn = 24,
                                              .sequence = 5,
                                              .microbatches = 5,
                                              .microbatch_size = 1,
                                              .seed = 1 },
        { .layers = 4,
            .hidden = 256,
            .heads = 8,
            .ffn = 64,
            .sequence = 256,
            .microbatches = 5,
            .microbatch_size = 2,
            .seed = 1 } };
    for (int i = 0; i < 2; i++)
        for (int overlap = 0; overlap < 2; overlap++) {
            test = base;
            test.model = sizes[i];
            test.chunks_per_rank = 1;
            test.overlap = overlap;
            if (job.rank == 0) reference = reference_case(&test);
            equal(&job, &test, &reference, i ? "large messages" : "small messages");
            free(reference.line);
            reference = (struct digests){ 0 };
        }
    int result = job.rank == 0 ? check_result() : 0;
    job_broadcast(&job, &result, sizeof result, 0);
    job_end(&job);
    return result;
}
