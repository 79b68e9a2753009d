/* What the run should have been: its own program, with the compute times that it measured and free messages.
 */
#include "command/run_state.h"
#include <stdlib.h>

/* On rank 0: mean measured seconds of each kind of compute of each chunk over the timed steps,
 * seconds[COMPUTE_KINDS][chunks]. */
static void mean_seconds(const struct run *run, double *seconds)
{
    const size_t chunks = (size_t)run->program.chunks,
                 count = run->action_offsets[run->job.size] / sizeof(struct action_record);
    size_t *seen = allocate(COMPUTE_KINDS * chunks, sizeof *seen);
    for (size_t i = 0; i < count; i++) {
        const struct action_record *a = &run->all_actions[i];
        if (a->step <= run->deck.run.warmup_steps || a->step == run->steps) continue;
        const size_t at = (size_t)a->kind * chunks + (size_t)a->chunk;
        seconds[at] += a->end - a->start;
        seen[at]++;
    }
    for (size_t i = 0; i < COMPUTE_KINDS * chunks; i++)
        if (seen[i]) seconds[i] /= (double)seen[i];
    free(seen);
}

void plan_as_measured(struct run *run)
{
    const size_t chunks = (size_t)run->program.chunks;
    double *seconds = allocate(COMPUTE_KINDS * chunks, sizeof *seconds);
    if (run->job.rank == 0) mean_seconds(run, seconds);
    job_broadcast(&run->job, seconds, COMPUTE_KINDS * chunks * sizeof *seconds, 0);
    struct costs costs = { 0 };
    for (size_t kind = 0; kind < COMPUTE_KINDS; kind++) costs.seconds[kind] = seconds + kind * chunks;
    program_simulate(&run->program, &costs, &run->prediction);
    free(seconds);
}

struct planned_record *planned_records(const struct run *run, int rank, size_t *count)
{
    const struct rank_program *program = &run->program.rank[rank];
    struct planned_record *planned = allocate((size_t)program->count, sizeof *planned);
    *count = 0;
    for (int i = 0; i < program->count; i++) {
        const struct operation *o = &program->operations[i];
        if (o->kind != OPERATION_COMPUTE) continue;
        planned[*count] = (struct planned_record){ .kind = (int32_t)o->compute.kind,
            .chunk = o->compute.chunk,
            .microbatch = o->compute.microbatch,
            .slot = o->slot,
            .start = run->prediction.start[rank][*count],
            .end = run->prediction.end[rank][*count] };
        ++*count;
    }
    return planned;
}

void write_planned(struct run *run)
{
    const struct memory_plan *plan = &run->planned;
    const struct memory_record memory = { .weights = (int64_t)plan->weights,
        .operands = (int64_t)plan->operands,
        .gradients = (int64_t)plan->gradients,
        .slots = (int64_t)plan->slots,
        .work = (int64_t)plan->work,
        .buffers = (int64_t)plan->buffers,
        .digests = (int64_t)plan->digests,
        .planned = (int64_t)plan->total,
        .held = (int64_t)run->held,
        .slot_bytes = (int64_t)plan->slot_bytes,
        .slot_count = plan->slot_count };
    const struct clock_record clock[2] = { { run->clock_before_at, run->clock_before },
        { run->clock_after_at, run->clock_after } };
    size_t count;
    struct planned_record *planned = planned_records(run, run->job.rank, &count);
    output_planned(run->output, planned, count, clock);
    output_memory(run->output, &memory);
    free(planned);
}
