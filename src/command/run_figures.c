#include "command/run_state.h"
#include "command/show.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void check_trace(struct run *run)
{
    size_t actions, transfers;
    struct text error = { 0 };
    const struct action_record *action = pipeline_actions(run->pipeline, &actions);
    const struct transfer_record *transfer = pipeline_transfers(run->pipeline, &transfers);
    if (!trace_check(&run->program, run->job.rank, action, actions, transfer, transfers, &error))
        fail("the executed order is not the planned one: %s", error.data);
}

/* Seconds to add to a time of this host's clock to get rank 0's, the drift between the two measurements
 * interpolated. */
static double to_rank_0(const struct run *run, double at)
{
    const double span = run->clock_after_at - run->clock_before_at;
    const double share = span > 0 ? (at - run->clock_before_at) / span : 0;
    return run->clock_before + share * (run->clock_after - run->clock_before);
}

static void gather_traces(struct run *run)
{
    size_t count;
    const struct action_record *actions = pipeline_actions(run->pipeline, &count);
    struct action_record *shifted = allocate(count, sizeof *shifted);
    for (size_t i = 0; i < count; i++) {
        shifted[i] = actions[i];
        shifted[i].start += to_rank_0(run, actions[i].start);
        shifted[i].end += to_rank_0(run, actions[i].end);
    }
    run->action_offsets = allocate((size_t)run->job.size + 1, sizeof *run->action_offsets);
    run->all_actions = job_gather(&run->job, shifted, count * sizeof *shifted, NULL, run->action_offsets);
    free(shifted);

    const struct transfer_record *transfers = pipeline_transfers(run->pipeline, &count);
    struct transfer_record *moved = allocate(count, sizeof *moved);
    for (size_t i = 0; i < count; i++) {
        moved[i] = transfers[i];
        moved[i].posted += to_rank_0(run, transfers[i].posted);
        moved[i].complete += to_rank_0(run, transfers[i].complete);
    }
    run->transfer_offsets = allocate((size_t)run->job.size + 1, sizeof *run->transfer_offsets);
    run->all_transfers = job_gather(&run->job, moved, count * sizeof *moved, NULL, run->transfer_offsets);
    free(moved);
}

static void gather_records(struct run *run)
{
    struct step_record *shifted = allocate((size_t)run->steps, sizeof *shifted);
    for (int s = 0; s < run->steps; s++) {
        shifted[s] = run->records[s];
        shifted[s].start += to_rank_0(run, shifted[s].start);
    }
    run->all_records = job_gather(&run->job, shifted, (size_t)run->steps * sizeof *shifted, NULL, NULL);
    free(shifted);
}

/* The record of a rank and step (from 1), on rank 0. */
static const struct step_record *record_of(const struct run *run, int rank, int step)
{
    return &run->all_records[(size_t)rank * (size_t)run->steps + (size_t)step - 1];
}

/* The loss of a step: on the rank of the last chunk, NaN elsewhere. */
static float loss_of(const struct run *run, int step)
{
    return record_of(run, run->program.rank_of[run->program.chunks - 1], step)->loss;
}

/* Mean busy time of a rank in a timed step, those from 1. */
static double busy_of(const struct run *run, int timed)
{
    double busy = 0;
    for (int r = 0; r < run->job.size; r++)
        busy += record_of(run, r, (int)run->deck.run.warmup_steps + timed)->busy;
    return busy / run->job.size;
}

/* Busy time, and each step's own idle share of it: where steps differ, the time of one over the compute of
   another says nothing, and may be below 0. */
static void work_out_bubble(struct run *run)
{
    struct figures *f = &run->figures;
    const int timed = (int)run->deck.run.steps;
    double *idle = allocate((size_t)timed, sizeof *idle), busy = 0;
    for (int s = 0; s < timed; s++) {
        const double step = busy_of(run, s + 1);
        idle[s] = 1 - step / run->step_seconds[s];
        busy += step;
    }
    f->busy = busy / timed;
    f->bubble_of_step = spread_of(idle, (size_t)timed).median;
    f->bubble_over_ideal = f->bubble_of_step / (1 - f->bubble_of_step);
    free(idle);
}

/* The peak beside each timed step, and the steps' shares of it. All ranks. */
static void work_out_peak(struct run *run)
{
    struct figures *f = &run->figures;
    const int timed = (int)run->deck.run.steps;
    if (!run->peaks) {
        f->peak = job_sum(&run->job, run->peak);
        f->share_of_peak = step_flops(&run->model) / f->step.median / f->peak;
        return;
    }
    double *all = job_gather(&run->job, run->peaks, ((size_t)timed + 1) * sizeof *all, NULL, NULL);
    if (run->job.rank != 0) return;
    double *peak = allocate((size_t)timed, sizeof *peak), *share = allocate((size_t)timed, sizeof *share);
    for (int s = 0; s < timed; s++) {
        for (int r = 0; r < run->job.size; r++) {
            const double *mine = all + (size_t)r * ((size_t)timed + 1);
            peak[s] += (mine[s] + mine[s + 1]) / 2;
        }
        share[s] = step_flops(&run->model) / run->step_seconds[s] / peak[s];
    }
    f->peak = spread_of(peak, (size_t)timed).median;
    f->share_of_peak = spread_of(share, (size_t)timed).median;
    free(peak), free(share), free(all);
}

/* All ranks: peak and held memory come from each. */
static void work_out_figures(struct run *run)
{
    struct figures *f = &run->figures;
    const size_t timed = (size_t)run->deck.run.steps;
    double *sorted = allocate(timed, sizeof *sorted);
    memcpy(sorted, run->step_seconds, timed * sizeof *sorted);
    f->step = spread_of(sorted, timed);
    free(sorted);
    work_out_peak(run);
    f->held = job_max(&run->job, (double)run->held);
    f->planned = job_max(&run->job, (double)run->planned.total);
    f->startup = job_max(&run->job, run->first_step_at - run->job.started);
    if (run->job.rank != 0) return;
    work_out_bubble(run);
    f->fom = (double)model_tokens(&run->model) * run->model.microbatches / f->step.median;
    f->exposed = fmax(0, f->step.median - run->makespan);
    f->flop_rate = step_flops(&run->model) / f->step.median;
    if (run->rehearses) f->fom = f->flop_rate = NAN; /* nothing was computed */
}

void gather_run(struct run *run)
{
    const int timed = (int)run->deck.run.steps;
    gather_records(run);
    gather_traces(run);
    size_t count, bytes;
    const struct tensor_digest *digests = pipeline_digests(run->pipeline, &count);
    run->all_digests = job_gather(&run->job, digests, count * sizeof *digests, &bytes, NULL);
    run->digest_count = run->all_digests ? bytes / sizeof *digests : 0;
    /* A step takes as long as its slowest rank; the ranks leave a barrier into it together. */
    double *seconds = allocate((size_t)run->steps, sizeof *seconds);
    for (int s = 0; s < run->steps; s++) seconds[s] = run->records[s].seconds;
    job_max_list(&run->job, seconds, run->steps);
    plan_as_measured(run);
    run->makespan = run->prediction.makespan;
    for (int s = 0; s < run->steps; s++) run->records[s].exposed = fmax(0, seconds[s] - run->makespan);

    run->step_seconds = allocate((size_t)timed, sizeof *run->step_seconds);
    memcpy(run->step_seconds, seconds + run->deck.run.warmup_steps, (size_t)timed * sizeof *seconds);
    free(seconds);
    work_out_figures(run);
}

void gather_free(struct run *run)
{
    void *const memory[] = { run->all_records, run->all_actions, run->action_offsets, run->all_transfers,
        run->transfer_offsets, run->all_digests, run->step_seconds };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
    prediction_free(&run->prediction);
}

static const char *kind_of_step(const struct run *run, int step)
{
    return step <= run->deck.run.warmup_steps ? "warm-up" : step == run->steps ? "recorded" : "timed";
}

/* What the steps gave: the same in every run of the deck. */
static void print_steps(struct run *run)
{
    struct listing *out = &run->listing;
    listing_banner(out, "steps");
    show_steps_head(out);
    digests_sort(run->all_digests, run->digest_count);
    const struct tensor_digest *line = run->all_digests, *end = line + run->digest_count;
    for (int step = 1; step <= run->steps; step++) {
        const struct tensor_digest *first = line;
        while (line < end && line->step == step) line++;
        if (run->rehearses)
            listing_print(
                out, "%6d %-9s%16s%18s%9s  %s\n", step, kind_of_step(run, step), "-", "-", "-", "-");
        else
            show_step(out, &run->model, step, kind_of_step(run, step), loss_of(run, step), first,
                (size_t)(line - first));
    }
    if (!run->rehearses) show_steps_end(out, "digest.txt", run->all_digests, run->digest_count);
}

/* And how long they took: the slowest rank's seconds, the ranks' mean busy time. */
static void print_step_times(struct run *run)
{
    struct listing *out = &run->listing;
    listing_banner_differs(out, "seconds of the steps");
    listing_print(out, "%6s %-9s %12s %10s %10s\n", "step", "", "seconds", "busy/step", "idle/step");
    for (int step = 1; step <= run->steps; step++) {
        double seconds = 0, busy = 0;
        for (int r = 0; r < run->job.size; r++) {
            const struct step_record *s = record_of(run, r, step);
            seconds = fmax(seconds, s->seconds);
            busy += s->busy;
        }
        const double share = busy / (seconds * run->job.size);
        listing_print(
            out, "%6d %-9s %12.6f %10.4f %10.4f\n", step, kind_of_step(run, step), seconds, share, 1 - share);
    }
}

/* Planned: the program simulated with the measured compute times and free messages. */
static void print_planned(struct run *run)
{
    struct listing *out = &run->listing;
    const struct figures *f = &run->figures;
    char a[32], b[32];
    listing_banner_differs(out, "planned against measured");
    listing_print(
        out, "%-28s %12s %12s  planned: measured computes, free messages\n", "", "planned", "measured");
    listing_print(out, "%-28s %12.6f %12.6f\n", "makespan of a step, seconds", run->makespan, f->step.median);
    listing_print(out, "%-28s %12.4f %12.4f\n", "bubble, idle/ideal", run->makespan / f->busy - 1,
        f->bubble_over_ideal);
    listing_print(
        out, "%-28s %12.4f %12.4f\n", "bubble, idle/step", 1 - f->busy / run->makespan, f->bubble_of_step);
    listing_print(out, "%-28s %12s %12s\n", "peak bytes, largest rank", bytes_text(f->planned, a),
        bytes_text(f->held, b));
}

void print_figures(struct run *run)
{
    struct listing *out = &run->listing;
    if (!out->speaks) return;
    print_steps(run);
    print_step_times(run);
    print_timers(run);

    const struct figures *f = &run->figures;
    char a[32];
    listing_banner_differs(out, "figures, over the timed steps, of the slowest rank");
    listing_print(out, "%-28s min %.6f  median %.6f  p95 %.6f\n", "step, seconds", f->step.min,
        f->step.median, f->step.p95);
    listing_print(out, "%-28s %.6f simulated with the measured compute times and free messages\n",
        "step, predicted", run->makespan);
    listing_print(out, "%-28s %.6f s, %.2f %% of the step (step less predicted step)\n",
        "exposed communication", f->exposed, 100 * f->exposed / f->step.median);
    listing_print(out, "%-28s %s a step over %d channels\n", "traffic",
        bytes_text(step_traffic(&run->model, &run->program), a), run->program.channel_count);
    if (isnan(f->flop_rate))
        listing_print(out, "%-28s NOT MEASURED\n", "model FLOP rate");
    else
        listing_print(out, "%-28s %.3E FLOP/s\n", "model FLOP rate", f->flop_rate);
    const char *share =
        strcmp(run->deck.arithmetic.mode, "vendor") == 0 ? "share of cuBLAS's rate" : "share of FMA peak";
    if (isnan(f->peak))
        listing_print(out, "%-28s NOT MEASURED\n", share);
    else
        listing_print(out, "%-28s %.4f of %.3E FLOP/s, the ranks' peaks in sum%s\n", share, f->share_of_peak,
            f->peak, run->peaks ? ", beside each step" : "");
    for (int r = 0; r < run->job.size; r++) {
        const struct place *place = &run->places[r];
        if (isnan(place->copy_rate) || isnan(place->peak)) continue;
        listing_line(out, 12, "rank %-6d %s: %.3E FLOP/s, copies at %.3E bytes/s", r, place->uuid,
            place->peak, place->copy_rate);
    }
    listing_print(out, "%-28s %.6f s\n", "recorded step with output", run->recorded_seconds);
    listing_print(out, "%-28s %.6f s, from MPI_Init to the first step\n", "start-up", f->startup);
    print_planned(run);
}
