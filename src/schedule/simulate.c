/* What a program does in time: the bubble and the memory in practice, honouring its buffers. */
#include "execute.h"
#include <assert.h>
#include <stdlib.h>

static int peak_slots(const struct rank_program *rank)
{
    int live = 0, peak = 0;
    for (int i = 0; i < rank->count; i++) {
        const struct operation *operation = &rank->operations[i];
        if (operation->kind != OPERATION_COMPUTE) continue;
        live += operation->compute.kind == COMPUTE_F ? 1 : -1;
        if (live > peak) peak = live;
    }
    return peak;
}

void program_simulate(const struct program *program, const double *cost_f, const double *cost_b,
    double latency, struct prediction *prediction)
{
    struct execution execution;
    const bool finished = execution_run(&execution, program, false, cost_f, cost_b, latency);
    assert(finished);
    (void)finished;
    *prediction = (struct prediction){
        .busy = allocate((size_t)program->ranks, sizeof *prediction->busy),
        .peak_slots = allocate((size_t)program->ranks, sizeof *prediction->peak_slots),
    };
    for (int rank = 0; rank < program->ranks; rank++) {
        prediction->busy[rank] = execution.busy[rank];
        prediction->peak_slots[rank] = peak_slots(&program->rank[rank]);
        if (execution.clock[rank] > prediction->makespan) prediction->makespan = execution.clock[rank];
    }
    execution_free(&execution);
}

void prediction_free(struct prediction *prediction)
{
    free(prediction->busy);
    free(prediction->peak_slots);
    *prediction = (struct prediction){ 0 };
}
