/* The largest plan that anyone asks for is made and checked while one waits: 256 ranks, 4 chunks a rank, 1024
 * microbatches. */
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <sys/resource.h>

int main(void)
{
    const double start = seconds_now();
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "interleaved-1f1b", 256, 4, 1024, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0);
    const double lowered = seconds_now();
    CHECK(program_check(&program, &error), "%s", error.data);
    const double checked = seconds_now();

    double *unit = malloc((size_t)program.chunks * sizeof *unit);
    for (int chunk = 0; chunk < program.chunks; chunk++) unit[chunk] = 1;
    struct prediction prediction;
    program_simulate(&program, unit, unit, 0, &prediction);
    const double simulated = seconds_now();
    CHECK(prediction.makespan == (1024 * 4 + 255) * 2, "%g", prediction.makespan);

    long operations = 0;
    for (int rank = 0; rank < program.ranks; rank++) operations += program.rank[rank].count;
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("p=256 v=4 m=1024: %ld operations, made and lowered in %.2f s, checked in %.2f s, simulated in "
           "%.2f s, %ld MiB\n",
        operations, lowered - start, checked - lowered, simulated - checked, usage.ru_maxrss / 1024);
    CHECK(checked - start < 30, "%.1f s", checked - start);
    prediction_free(&prediction);
    program_free(&program);
    schedule_free(&schedule);
    free(unit);
    return check_result();
}
