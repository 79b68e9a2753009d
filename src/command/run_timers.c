/* Where the seconds of the timed steps went: a timer's least and greatest mean a step over the ranks, which
   rank that was, and the mean over all. */
#include "command/run_state.h"
#include <stdlib.h>
#include <string.h>

/* Seconds a step. The kinds of compute are first, in their order. Compute, waiting and the rest are the
   whole. */
enum timer { TIMER_COMPUTE = COMPUTE_KINDS, TIMER_WAITING, TIMER_REST, TIMER_STEP, TIMERS };
static const char *const timer_name[TIMERS] = { [COMPUTE_F] = "F, forward",
    [COMPUTE_B] = "B, backward",
    [COMPUTE_I] = "I, input gradient",
    [COMPUTE_W] = "W, weight gradient",
    [TIMER_COMPUTE] = "compute, digests included",
    [TIMER_WAITING] = "waiting for messages",
    [TIMER_REST] = "rest of the step",
    [TIMER_STEP] = "step" };

static void add_actions(const struct run *run, int rank, double timer[TIMERS])
{
    const size_t first = run->action_offsets[rank] / sizeof(struct action_record),
                 end = run->action_offsets[rank + 1] / sizeof(struct action_record);
    for (size_t i = first; i < end; i++) {
        const struct action_record *a = &run->all_actions[i];
        if (a->step <= run->deck.run.warmup_steps || a->step == run->steps) continue;
        timer[a->kind] += a->end - a->start;
    }
}

/* The `exposed` of rank 0's copies is still what a rank waited; only the ranks' own were made less of. */
static void add_steps(const struct run *run, int rank, double timer[TIMERS])
{
    const struct step_record *records = run->all_records + (size_t)rank * (size_t)run->steps;
    for (int s = 0; s < run->steps; s++) {
        if (!records[s].timed) continue;
        timer[TIMER_COMPUTE] += records[s].busy;
        timer[TIMER_WAITING] += records[s].exposed;
        timer[TIMER_STEP] += records[s].seconds;
    }
    timer[TIMER_REST] = timer[TIMER_STEP] - timer[TIMER_COMPUTE] - timer[TIMER_WAITING];
}

static void print_timer(
    struct listing *out, const char *name, double (*of_rank)[TIMERS], int ranks, int timer)
{
    int least = 0, most = 0;
    double sum = 0;
    for (int r = 0; r < ranks; r++) {
        const double value = of_rank[r][timer];
        if (value < of_rank[least][timer]) least = r;
        if (value > of_rank[most][timer]) most = r;
        sum += value;
    }
    listing_print(out, "%-28s %14.6E @%-6d %14.6E @%-6d %14.6E\n", name, of_rank[least][timer], least,
        of_rank[most][timer], most, sum / ranks);
}

void print_timers(struct run *run)
{
    struct listing *out = &run->listing;
    const int ranks = run->job.size;
    double(*of_rank)[TIMERS] = allocate((size_t)ranks, sizeof *of_rank);
    for (int r = 0; r < ranks; r++) {
        add_actions(run, r, of_rank[r]);
        add_steps(run, r, of_rank[r]);
        for (int t = 0; t < TIMERS; t++) of_rank[r][t] /= (double)run->deck.run.steps;
    }
    listing_banner_differs(out, "timers, seconds a step, over the timed steps");
    listing_print(
        out, "%-28s %14s %-7s %14s %-7s %14s\n", "", "min", "@rank", "max", "@rank", "mean of ranks");
    for (int t = 0; t < TIMERS; t++) {
        bool used = t >= COMPUTE_KINDS;
        for (int r = 0; r < ranks; r++) used = used || of_rank[r][t] > 0;
        if (used) print_timer(out, timer_name[t], of_rank, ranks, t);
    }
    free(of_rank);
}
