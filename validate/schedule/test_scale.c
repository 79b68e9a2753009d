/* The largest plan that anyone asks for is made and checked, and simulated, while one waits: 256 ranks, 4
   chunks a rank, 1024 microbatches, in less than 5 seconds each and 4 GiB. */
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <sys/resource.h>

/* `makespan` in chunk times, B as long as two F, I and W as one. */
static void is_made_in_seconds(const char *name, int v, double makespan)
{
    const double start = seconds_now();
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, name, 256, v, 1024, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    const double lowered = seconds_now();
    CHECK(program_check(&program, &error), "%s", error.data);
    const double checked = seconds_now();

    double *unit = malloc((size_t)program.chunks * sizeof *unit);
    double *twice = malloc((size_t)program.chunks * sizeof *twice);
    for (int chunk = 0; chunk < program.chunks; chunk++) twice[chunk] = 2 * (unit[chunk] = 1);
    const struct costs costs = {
        .seconds = { [COMPUTE_F] = unit, [COMPUTE_B] = twice, [COMPUTE_I] = unit, [COMPUTE_W] = unit }
    };
    struct prediction prediction;
    program_simulate(&program, &costs, &prediction);
    const double simulated = seconds_now();
    CHECK(prediction.makespan == makespan, "%s: %g", name, prediction.makespan);

    long operations = 0;
    for (int rank = 0; rank < program.ranks; rank++) operations += program.rank[rank].count;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf(
        "%s p=256 v=%d m=1024: %ld operations, made and lowered in %.2f s, checked in %.2f s, simulated in "
        "%.2f s, %ld MiB\n",
        name, v, operations, lowered - start, checked - lowered, simulated - checked, usage.ru_maxrss / 1024);
    CHECK(checked - start < 5, "%s: made and checked in %.1f s", name, checked - start);
    CHECK(simulated - checked < 5, "%s: simulated in %.1f s", name, simulated - checked);
    CHECK(usage.ru_maxrss < 4L * 1024 * 1024, "%ld MiB", usage.ru_maxrss / 1024);
    prediction_free(&prediction);
    program_free(&program);
    schedule_free(&schedule);
    free(unit);
    free(twice);
}

int main(void)
{
    is_made_in_seconds("interleaved-1f1b", 4, 3 * (1024 * 4 + 255));
    is_made_in_seconds("interleaved-zb", 4, 3 * 1024 * 4 + 255);
    is_made_in_seconds("zb-v", 2, 3 * 1024 * 2 + 255);
    return check_result();
}
