/* All schedules side by side, each with every number of chunks a rank that the layers allow. */
#include "command/plan_parts.h"
#include "command/show.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Beyond so many computes a step a case is left out of the table: to simulate all would take too long. */
enum { MOST_COMPUTES = 1000000 };

struct outcome {
    double makespan;
    struct bubble bubble; /* with free messages */
    int peak_slots, rank; /* of the rank that needs most memory */
    double bytes;
    long long messages;
};

/* Chunks a rank in ascending order: 1, 2, 4, ... as far as each chunk has a layer, and the deck's own. */
static int chunk_counts(const struct plan *plan, int counts[64])
{
    const int own = (int)plan->deck->pipeline.chunks_per_rank, p = plan->program->ranks;
    int count = 0;
    bool placed = false;
    for (long long v = 1; v == 1 || v * p <= plan->model->layers; v *= 2) {
        if (!placed && own <= v) {
            placed = true;
            if (own < v) counts[count++] = own;
        }
        counts[count++] = (int)v;
    }
    if (!placed) counts[count++] = own;
    return count;
}

/* What the predictions with messages and with free ones come to. */
static struct outcome outcome_of(const struct plan *plan, const struct partition *partition,
    const struct program *program, const struct prediction *with, const struct prediction *bare)
{
    const struct reporting reporting = setup_reporting(plan->deck);
    struct outcome outcome = { .makespan = with->makespan };
    double busy = 0;
    for (int rank = 0; rank < program->ranks; rank++) {
        const struct memory_plan m = memory_plan_of(plan->model, partition, program, rank, &reporting);
        busy += bare->busy[rank];
        if ((double)m.total <= outcome.bytes) continue;
        outcome.bytes = (double)m.total;
        outcome.rank = rank;
        outcome.peak_slots = bare->peak_slots[rank];
    }
    const double whole = bare->makespan * program->ranks;
    outcome.bubble = (struct bubble){ whole / busy - 1, 1 - busy / whole };
    for (int c = 0; c < program->channel_count; c++)
        if (!program->channels[c].local) outcome.messages += program->channels[c].messages;
    return outcome;
}

/* Makes, checks and simulates a case; false with the reason in *error. */
static bool try_case(
    const struct plan *plan, const char *name, int v, struct outcome *outcome, struct text *error)
{
    struct schedule schedule;
    struct program program;
    if (!schedule_make(&schedule, name, plan->program->ranks, v, plan->program->microbatches, 0, error))
        return false;
    program_make(&program, &schedule, 2, 0, plan->deck->pipeline.self_channels);
    schedule_free(&schedule);
    const bool sound = program_check(&program, error);
    if (sound) {
        const bool ours = v == plan->deck->pipeline.chunks_per_rank;
        struct partition partition = partition_make(plan->model->layers, program.chunks,
            ours && plan->deck->pipeline.layers_per_chunk_count > 0 ? plan->deck->pipeline.layers_per_chunk
                                                                    : NULL);
        struct chosen_costs costs;
        struct prediction with, bare;
        chosen_costs_make(&costs, plan->deck, plan->model, &partition, plan->measured);
        program_simulate(&program, &costs.machine.costs, &with);
        costs.machine.costs.latency = costs.machine.costs.transfer = 0;
        program_simulate(&program, &costs.machine.costs, &bare);
        *outcome = outcome_of(plan, &partition, &program, &with, &bare);
        prediction_free(&with);
        prediction_free(&bare);
        chosen_costs_free(&costs);
        partition_free(&partition);
    }
    program_free(&program);
    return sound;
}

/* "0.1250 0.1250": closed where it is known, simulated. */
static const char *both(double closed, double simulated, char text[32])
{
    if (isnan(closed))
        snprintf(text, 32, "     - %.4f", simulated);
    else
        snprintf(text, 32, "%.4f %.4f", closed, simulated);
    return text;
}

static void print_outcome(struct listing *out, const struct outcome *o, struct bubble closed)
{
    char ideal[32], step[32], bytes[32];
    listing_print(out, "%13.6E  %s  %s %6d %12s %5d %10lld\n", o->makespan,
        both(closed.over_ideal, o->bubble.over_ideal, ideal), both(closed.of_step, o->bubble.of_step, step),
        o->peak_slots, bytes_text(o->bytes, bytes), o->rank, o->messages);
}

static void print_case(struct listing *out, const struct plan *plan, const char *name, int v)
{
    const int p = plan->program->ranks, m = plan->program->microbatches;
    const bool own =
        strcmp(name, plan->deck->pipeline.schedule) == 0 && v == plan->deck->pipeline.chunks_per_rank;
    const int needed = schedule_traits(name).chunks_per_rank;
    const struct bubble closed = schedule_bubble(name, p, v, m);
    const double computes = (schedule_traits(name).splits_backward ? 3.0 : 2.0) * p * v * m;
    struct text error = { 0 };
    struct outcome outcome;
    listing_print(out, "%s%-18s %4d ", own ? "*" : " ", name, v);
    if (own) {
        outcome =
            outcome_of(plan, plan->partition, plan->program, &plan->with_messages, &plan->with_free_messages);
        print_outcome(out, &outcome, closed);
    } else if (needed != 0 && needed != v) {
        listing_print(out, "refused: needs v=%d\n", needed);
    } else if (computes > MOST_COMPUTES) {
        listing_print(out, "not simulated, %.0f computes", computes);
        if (!isnan(closed.over_ideal))
            listing_print(
                out, "; closed form: idle/ideal %.4f, idle/step %.4f", closed.over_ideal, closed.of_step);
        listing_print(out, "\n");
    } else if (try_case(plan, name, v, &outcome, &error)) {
        print_outcome(out, &outcome, closed);
    } else {
        listing_print(out, "refused: %s\n", error.data);
    }
    text_free(&error);
}

void plan_print_comparison(struct listing *out, const struct plan *plan)
{
    int counts[64];
    const int count = chunk_counts(plan, counts);
    listing_banner(out, "schedules compared");
    listing_print(out,
        "p=%d m=%d; makespan with messages; bubbles with free ones, closed form (of equal chunks) and "
        "simulated; ",
        plan->program->ranks, plan->program->microbatches);
    listing_print(out, "memory of the rank that needs most\n");
    listing_print(out, " %-18s %4s %13s  %13s  %13s %6s %12s %5s %10s\n", "schedule", "v", "makespan, s",
        "idle/ideal", "idle/step", "slots", "bytes", "rank", "messages");
    for (int i = 0; i < count; i++)
        for (int s = 0; schedule_names[s]; s++) print_case(out, plan, schedule_names[s], counts[i]);
    if (strcmp(plan->deck->pipeline.schedule, "file") == 0) {
        const struct outcome outcome =
            outcome_of(plan, plan->partition, plan->program, &plan->with_messages, &plan->with_free_messages);
        listing_print(out, "*%-18s %4d ", "file", (int)plan->deck->pipeline.chunks_per_rank);
        print_outcome(out, &outcome, (struct bubble){ NAN, NAN });
    }
    listing_print(out, "* this deck's\n");
}
