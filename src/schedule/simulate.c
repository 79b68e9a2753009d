/* What a program does in time: the bubble and the memory in practice, honouring its buffers. */
#include "execute.h"
#include <assert.h>
#include <stdlib.h>

static int count_computes(const struct rank_program *rank, int *peak_slots)
{
    int computes = 0, live = 0;
    *peak_slots = 0;
    for (int i = 0; i < rank->count; i++) {
        if (rank->operations[i].kind != OPERATION_COMPUTE) continue;
        const enum compute_kind kind = rank->operations[i].compute.kind;
        computes++;
        if (kind == COMPUTE_F) live++;
        if (kind == COMPUTE_B || kind == COMPUTE_W) live--;
        if (live > *peak_slots) *peak_slots = live;
    }
    return computes;
}

void program_simulate(const struct program *program, const struct costs *costs, struct prediction *prediction)
{
    const size_t ranks = (size_t)program->ranks;
    *prediction = (struct prediction){
        .busy = allocate(ranks, sizeof *prediction->busy),
        .peak_slots = allocate(ranks, sizeof *prediction->peak_slots),
        .start = allocate(ranks, sizeof *prediction->start),
        .end = allocate(ranks, sizeof *prediction->end),
    };
    /* Each list is one block for all ranks, which that of rank 0 owns. */
    size_t computes = 0;
    int *const count = allocate(ranks, sizeof *count);
    for (size_t rank = 0; rank < ranks; rank++)
        computes +=
            (size_t)(count[rank] = count_computes(&program->rank[rank], &prediction->peak_slots[rank]));
    double *start = allocate(computes, sizeof *start), *end = allocate(computes, sizeof *end);
    for (size_t rank = 0; rank < ranks; rank++) {
        prediction->start[rank] = start;
        prediction->end[rank] = end;
        start += count[rank];
        end += count[rank];
    }
    free(count);

    struct execution execution;
    const bool finished =
        execution_run(&execution, program, false, costs, prediction->start, prediction->end);
    assert(finished);
    (void)finished;
    for (size_t rank = 0; rank < ranks; rank++) {
        prediction->busy[rank] = execution.busy[rank];
        if (execution.clock[rank] > prediction->makespan) prediction->makespan = execution.clock[rank];
    }
    execution_free(&execution);
}

void prediction_free(struct prediction *prediction)
{
    if (prediction->start) free(prediction->start[0]);
    if (prediction->end) free(prediction->end[0]);
    free(prediction->start);
    free(prediction->end);
    free(prediction->busy);
    free(prediction->peak_slots);
    *prediction = (struct prediction){ 0 };
}
