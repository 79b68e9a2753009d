#include "command/show.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void show_build(struct listing *out, const struct identity_card *card)
{
    listing_banner(out, "build");
    listing_line(out, 29, "%-28s %s", "compiler", card->facts.compiler);
    const char *name = "libraries";
    for (const char *at = card->libraries.data; *at;) {
        const char *end = strstr(at, "; ");
        const size_t length = end ? (size_t)(end - at) : strlen(at);
        listing_line(out, 29, "%-28s %.*s", name, (int)length, at);
        at += length + (end ? 2 : 0);
        name = "";
    }
}

void show_chunks(const struct program *program, int rank, struct text *text)
{
    for (int chunk = 0; chunk < program->chunks; chunk++)
        if (program->rank_of[chunk] == rank) text_add(text, text->length ? " %d" : "%d", chunk);
}

void show_layers(
    const struct partition *partition, const struct program *program, int rank, struct text *text)
{
    for (int chunk = 0; chunk < program->chunks; chunk++) {
        if (program->rank_of[chunk] != rank) continue;
        const int first = partition->first[chunk] + 1, last = partition->first[chunk + 1];
        if (text->length) text_add(text, " ");
        if (last < first)
            text_add(text, "none");
        else if (last == first)
            text_add(text, "%d", first);
        else
            text_add(text, "%d-%d", first, last);
    }
}

double step_flops(const struct model *model)
{
    const struct layer_flops layer = layer_flops(model);
    return model->layers * (double)model->microbatches * (layer.forward + layer.backward);
}

double step_traffic(const struct model *model, const struct program *program)
{
    double messages = 0;
    for (int c = 0; c < program->channel_count; c++)
        if (program->channels[c].from != program->channels[c].to) messages += program->channels[c].messages;
    return messages * (double)message_bytes(model);
}

/* The bubble of the program with each chunk's model FLOPs as its cost and free messages. */
static struct bubble simulated_bubble(
    const struct model *model, const struct partition *partition, const struct program *program)
{
    const struct layer_flops layer = layer_flops(model);
    double *f = allocate((size_t)program->chunks, sizeof *f),
           *b = allocate((size_t)program->chunks, sizeof *b),
           *half = allocate((size_t)program->chunks, sizeof *half), busy = 0;
    for (int chunk = 0; chunk < program->chunks; chunk++) {
        f[chunk] = partition_layers(partition, chunk) * layer.forward;
        b[chunk] = partition_layers(partition, chunk) * layer.backward;
        half[chunk] = b[chunk] / 2;
    }
    const struct costs costs = {
        .seconds = { [COMPUTE_F] = f, [COMPUTE_B] = b, [COMPUTE_I] = half, [COMPUTE_W] = half }
    };
    struct prediction prediction;
    program_simulate(program, &costs, &prediction);
    for (int rank = 0; rank < program->ranks; rank++) busy += prediction.busy[rank];
    const double whole = prediction.makespan * program->ranks;
    prediction_free(&prediction);
    free(f);
    free(b);
    free(half);
    return (struct bubble){ .over_ideal = (whole - busy) / busy, .of_step = 1 - busy / whole };
}

static void show_bubble(struct listing *out, const char *form, double closed, double simulated)
{
    listing_print(out, "%-28s ", form);
    if (isnan(closed))
        listing_print(out, "no closed form for this case; simulated %.4f\n", simulated);
    else
        listing_print(out, "closed form %.4f, simulated %.4f\n", closed, simulated);
}

void show_schedule(struct listing *out, const struct deck *deck, const struct model *model,
    const struct partition *partition, const struct program *program)
{
    const int v = (int)deck->pipeline.chunks_per_rank;
    const struct bubble closed =
        schedule_bubble(deck->pipeline.schedule, program->ranks, v, program->microbatches);
    const struct bubble simulated = simulated_bubble(model, partition, program);
    char bytes[32], message[32];
    listing_print(out, "%-28s %s, p=%d v=%d m=%d", "schedule", deck->pipeline.schedule, program->ranks, v,
        program->microbatches);
    if (program->group)
        listing_print(
            out, ", group size N=%d%s", program->group, deck->pipeline.group == 0 ? " (chosen)" : "");
    listing_print(out, "\n");
    show_bubble(out, "bubble, idle/ideal", closed.over_ideal, simulated.over_ideal);
    show_bubble(out, "bubble, idle/step", closed.of_step, simulated.of_step);
    listing_print(out, "%-28s %s a step in messages of %s\n", "traffic between ranks",
        bytes_text(step_traffic(model, program), bytes), bytes_text((double)message_bytes(model), message));
    listing_print(out, "%-28s %.4E a step = 3 L m (2 n (4 h^2 + 2 h f) + 2 b h s (s+1))\n", "model FLOPs",
        step_flops(model));
    listing_print(out, "%-28s order, messages, slots, buffers, no deadlock\n", "checked");
    int empty = 0;
    for (int chunk = 0; chunk < program->chunks; chunk++) empty += partition_layers(partition, chunk) == 0;
    if (empty) listing_print(out, "WARNING: %d of %d chunks hold no layer\n", empty, program->chunks);
}

void show_steps_head(struct listing *out)
{
    listing_print(
        out, "%6s %-9s%16s%18s%9s  %s\n", "step", "", "loss", "loss, hex", "digests", "fingerprint");
}

/* A loss is fp32: six hexadecimal digits are all of it. */
void show_step(struct listing *out, const struct model *model, int step, const char *kind, float loss,
    const struct tensor_digest *digests, size_t count)
{
    char fingerprint[17];
    digests_fingerprint(model, digests, count, fingerprint);
    listing_print(
        out, "%6d %-9s%16.8E%18.6a%9zu  %s\n", step, kind, (double)loss, (double)loss, count, fingerprint);
}

void show_steps_end(struct listing *out, const char *file, const struct tensor_digest *digests, size_t count)
{
    size_t bad = 0;
    for (size_t i = 0; i < count; i++) bad += digests[i].digest.nan > 0;
    listing_print(
        out, "  %zu digests, %zu with a NaN; fingerprint: grep '^STEP ' %s | sha256sum\n", count, bad, file);
}
