/* The tables of one plan: memory, time and channels. */
#include "command/plan_parts.h"
#include "command/show.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct memory_plan memory_of(const struct plan *plan, int rank)
{
    const struct reporting reporting = setup_reporting(plan->deck);
    return memory_plan_of(plan->model, plan->partition, plan->program, rank, &reporting);
}

/* Whether `run` would start here, which refuses what does not fit the host's memory. */
static void print_fit(struct listing *out, const struct plan *plan, double all, double most)
{
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    char a[3][32];
    listing_print(
        out, "all ranks together: %s; this host has %s: ", bytes_text(all, a[0]), bytes_text(memory, a[1]));
    if (all <= memory)
        listing_print(out, "they fit it\n");
    else if (most <= memory)
        listing_print(out, "`run` refuses all of them on this host; at least %.0f like it are needed\n",
            ceil(plan->program->ranks / floor(memory / most)));
    else
        listing_print(out,
            "`run` refuses even one rank on it, for want of %s: take more ranks, a smaller "
            "batch.microbatch_size, or hosts or GPUs with %s a rank\n",
            bytes_text(most - memory, a[1]), bytes_text(most, a[2]));
}

void plan_print_memory(struct listing *out, const struct plan *plan)
{
    char b[6][32];
    double most = 0, all = 0;
    int most_rank = 0;
    listing_banner(out, "memory a rank, planned");
    listing_print(out, "%6s %12s %12s %5s %12s %12s %12s  %s\n", "rank", "weights", "gradients", "slots",
        "activations", "buffers", "total", "layers (from 1)");
    for (int rank = 0; rank < plan->program->ranks; rank++) {
        const struct memory_plan m = memory_of(plan, rank);
        struct text layers = { 0 };
        show_layers(plan->partition, plan->program, rank, &layers);
        listing_print(out, "%6d %12s %12s %5d %12s %12s %12s  %s\n", rank,
            bytes_text((double)(m.weights + m.operands), b[0]), bytes_text((double)m.gradients, b[1]),
            m.slot_count, bytes_text((double)m.slots, b[2]),
            bytes_text((double)(m.buffers + m.work + m.digests), b[3]), bytes_text((double)m.total, b[4]),
            layers.data ? layers.data : "none");
        all += (double)m.total;
        if ((double)m.total > most) {
            most = (double)m.total;
            most_rank = rank;
        }
        text_free(&layers);
    }
    listing_print(out, "most: %s on rank %d; buffers: channels, scratch and digests; %s\n",
        bytes_text(most, b[0]), most_rank,
        plan->model->bf16 ? "fp32, and bf16 copies of the weights" : "fp32 throughout");
    print_fit(out, plan, all, most);
}

static void print_sources(struct listing *out, const struct plan *plan)
{
    const struct costs *c = &plan->costs.machine.costs;
    if (plan->costs.measured)
        listing_print(
            out, "%-28s means over the timed steps of '%s'\n", "times of actions", plan->measured->directory);
    else
        listing_print(out, "%-28s &machine of the deck\n", "times of actions");
    listing_print(out, "%-28s %.3E s latency, %.3E s transfer: %s\n", "a message", c->latency, c->transfer,
        plan->costs.measured_hop ? "the run's median from an action's end to the start that waited for it"
                                 : "&machine of the deck");
}

void plan_print_time(struct listing *out, const struct plan *plan)
{
    const struct prediction *with = &plan->with_messages, *bare = &plan->with_free_messages;
    const struct program *program = plan->program;
    const double exposed = with->makespan - bare->makespan;
    double busy = 0;
    char a[32];
    for (int rank = 0; rank < program->ranks; rank++) busy += with->busy[rank];
    const double whole = with->makespan * program->ranks;
    listing_banner(out, "time, predicted");
    print_sources(out, plan);
    listing_print(out, "%-28s %.6E s; with free messages %.6E s\n", "makespan of a step", with->makespan,
        bare->makespan);
    listing_print(out, "%-28s %.6E s, %.2f %% of the step\n", "exposed communication", exposed,
        with->makespan > 0 ? 100 * exposed / with->makespan : 0.0);
    listing_print(out, "%-28s idle/ideal %.4f  idle/step %.4f\n", "bubble and waiting",
        busy > 0 ? whole / busy - 1 : 0.0, whole > 0 ? 1 - busy / whole : 0.0);
    if (with->makespan > 0)
        listing_print(out, "%-28s %.6E tokens/s, %.3E FLOP/s\n", "rate",
            (double)model_tokens(plan->model) * plan->model->microbatches / with->makespan,
            step_flops(plan->model) / with->makespan);
    listing_print(out, "%6s %14s %14s %10s %10s %12s\n", "rank", "busy, s", "idle, s", "idle/step",
        "peak slots", "of bytes");
    for (int rank = 0; rank < program->ranks; rank++) {
        const struct memory_plan m = memory_of(plan, rank);
        const double idle = with->makespan - with->busy[rank];
        listing_print(out, "%6d %14.6E %14.6E %10.4f %10d %12s\n", rank, with->busy[rank], idle,
            with->makespan > 0 ? idle / with->makespan : 0.0, with->peak_slots[rank],
            bytes_text((double)with->peak_slots[rank] * (double)m.slot_bytes, a));
    }
}

void plan_print_channels(struct listing *out, const struct plan *plan)
{
    enum { SHOWN = 16 };
    static const char *const kind[] = {
        [CHANNEL_ACTIVATION] = "activations", [CHANNEL_GRADIENT] = "gradients"
    };
    const struct program *program = plan->program;
    const double size = (double)message_bytes(plan->model);
    char a[32];
    listing_banner(out, "channels, a step");
    if (program->channel_count == 0) {
        listing_print(out, "none\n");
        return;
    }
    listing_print(out, "%8s %6s %6s %-12s %10s %12s %10s %10s\n", "channel", "from", "to", "carries",
        "messages", "bytes", "send buf.", "recv. buf.");
    const int shown = plan->all_channels || program->channel_count <= SHOWN ? program->channel_count : SHOWN;
    for (int c = 0; c < shown; c++) {
        const struct channel_plan *channel = &program->channels[c];
        const bool local = channel->local;
        listing_print(out, "%8d %6d %6d %-12s %10d %12s %10d %10d%s\n", c, channel->from, channel->to,
            kind[channel->kind], channel->messages, local ? "0 B" : bytes_text(channel->messages * size, a),
            channel->send_buffers, channel->receive_buffers, local ? "  handed over, not sent" : "");
    }
    if (shown < program->channel_count)
        listing_print(out, "... and %d more; --channels shows all\n", program->channel_count - shown);
}

/* What makes the run another than the one planned here; NULL: nothing. */
static const char *difference(const struct plan *plan)
{
    const struct deck *ours = plan->deck, *theirs = &plan->measured->deck;
    if (plan->program->ranks != plan->measured->timings.ranks) return "pipeline.ranks";
    if (ours->pipeline.chunks_per_rank != theirs->pipeline.chunks_per_rank) return "pipeline.chunks_per_rank";
    if (ours->batch.microbatches != theirs->batch.microbatches) return "batch.microbatches";
    if (ours->model.layers != theirs->model.layers) return "model.layers";
    if (strcmp(ours->pipeline.schedule, theirs->pipeline.schedule) != 0) return "pipeline.schedule";
    if (ours->pipeline.group != theirs->pipeline.group) return "pipeline.group";
    if (ours->pipeline.overlap != theirs->pipeline.overlap) return "pipeline.overlap";
    if (memcmp(plan->partition->first, plan->measured->partition.first,
            ((size_t)plan->partition->chunks + 1) * sizeof(int)) != 0)
        return "pipeline.layers_per_chunk";
    return NULL;
}

void plan_print_measured(struct listing *out, const struct plan *plan)
{
    const struct timings *t = &plan->measured->timings;
    const char *other = difference(plan);
    double *sorted = allocate(t->steps, sizeof *sorted);
    memcpy(sorted, t->step, t->steps * sizeof *sorted);
    const struct spread step = spread_of(sorted, t->steps);
    free(sorted);
    listing_banner(out, "predicted against measured");
    listing_print(out, "%-28s %.6f s\n", "step, predicted", plan->with_messages.makespan);
    listing_print(out, "%-28s %.6f s, the median of %zu timed steps (min %.6f, p95 %.6f)\n", "step, measured",
        step.median, t->steps, step.min, step.p95);
    if (other)
        listing_print(out, "%-28s no: the run had another %s; this is what this deck would take\n",
            "the same pipeline", other);
    else
        listing_print(out, "%-28s %+.2f %% of the measured step\n", "predicted less measured",
            100 * (plan->with_messages.makespan / step.median - 1));
}
