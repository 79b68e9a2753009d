/* Every schedule, at every small p, v and m, lowers to a program that passes the check; and where the
   literature has a closed form of its time or its memory, that is what the program takes. */
#include "check.h"
#include "schedule/program.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct shape {
    const char *name;
    int p, v, m, group;
};

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

/* All chunks alike: F, I, W as given, B as long as I and W together. */
static struct prediction simulate_halves(
    const struct program *program, double f, double i, double w, struct costs messages)
{
    const double seconds[COMPUTE_KINDS] = {
        [COMPUTE_F] = f, [COMPUTE_B] = i + w, [COMPUTE_I] = i, [COMPUTE_W] = w
    };
    double *of_chunk = malloc(COMPUTE_KINDS * (size_t)program->chunks * sizeof *of_chunk), *next = of_chunk;
    struct costs costs = messages;
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) {
        costs.seconds[kind] = next;
        for (int chunk = 0; chunk < program->chunks; chunk++) *next++ = seconds[kind];
    }
    struct prediction prediction;
    program_simulate(program, &costs, &prediction);
    free(of_chunk);
    return prediction;
}

static struct prediction simulate(const struct program *program, double f, double b, double latency)
{
    return simulate_halves(program, f, b / 2, b / 2, (struct costs){ .latency = latency });
}

static bool is(struct shape s, const char *name)
{
    return !strcmp(s.name, name);
}

/* The time in which a rank is idle, by the literature; NaN where it has no closed form. */
static double closed_idle(struct shape s, double f, double i, double w)
{
    const double hops = s.p - 1;
    if (is(s, "zb-v")) return f == i && i == w && s.m >= 2 * s.p - 1 ? hops * f : NAN;
    if (is(s, "zb-h1") || is(s, "interleaved-zb"))
        return s.m >= s.p && s.group <= s.m && w <= f && w <= i ? hops * (f + i - w) : NAN;
    const bool streams = is(s, "looped-bfs") ? s.m >= s.p : s.group == 0 && s.m % s.p == 0;
    return s.v == 1 || streams ? hops * (f + i + w) : NAN;
}

/* The most slots that a rank has live, by the literature. */
static int closed_live(struct shape s, int rank, int group)
{
    const int total = s.m * s.v;
    if (is(s, "gpipe") || is(s, "looped-bfs")) return total;
    if (is(s, "1f1b") || (is(s, "interleaved-1f1b") && s.v == 1)) return smaller(s.p - rank, s.m);
    if (is(s, "interleaved-1f1b")) return smaller(2 * (s.p - 1 - rank) + (s.v - 1) * group + 1, total);
    if (is(s, "zb-h1")) return smaller(s.p, s.m);
    if (is(s, "interleaved-zb")) return smaller((s.v - 1) * group + s.p, total);
    return 2 * s.p; /* zb-v, in halves of 1f1b's slots */
}

static void closed_forms_hold(struct shape s, const struct program *program)
{
    static const double costs[][3] = { { 1, 0.5, 0.5 }, { 1, 1, 1 }, { 1, 2, 1 }, { 3, 4, 2 }, { 4, 3, 2 } };
    for (size_t k = 0; k < sizeof costs / sizeof *costs; k++) {
        const double f = costs[k][0], i = costs[k][1], w = costs[k][2], ideal = s.m * s.v * (f + i + w);
        struct prediction prediction = simulate_halves(program, f, i, w, (struct costs){ 0 });
        const double idle = prediction.makespan - prediction.busy[0], closed = closed_idle(s, f, i, w);
        CHECK(isnan(closed) || idle == closed, "%s p=%d v=%d m=%d group=%d f=%g i=%g w=%g: idle %g, not %g",
            s.name, s.p, s.v, s.m, s.group, f, i, w, idle, closed);
        CHECK(!isnan(closed) || s.p == 1 || s.m < 2 * s.p || s.group || !is(s, "zb-h1"),
            "zb-h1 has a closed form here");
        const struct bubble bubble = schedule_bubble(s.name, s.p, s.v, s.m);
        if (s.group == 0 && (!schedule_traits(s.name).splits_backward || (f == i && i == w)))
            CHECK(isnan(bubble.over_ideal) ||
                      (idle / ideal == bubble.over_ideal && idle / prediction.makespan == bubble.of_step),
                "%s p=%d v=%d m=%d: idle %g of %g", s.name, s.p, s.v, s.m, idle, ideal);
        for (int rank = 0; rank < s.p; rank++)
            CHECK(prediction.busy[rank] == ideal, "%s p=%d rank %d: busy %g", s.name, s.p, rank,
                prediction.busy[rank]);
        prediction_free(&prediction);
    }
}

static void memory_is_as_published(struct shape s, const struct program *program)
{
    for (int rank = 0; rank < s.p; rank++) {
        const int live = program->rank[rank].slots, closed = closed_live(s, rank, program->group);
        if (is(s, "zb-v") && s.m < 2 * s.p - 1)
            CHECK(live <= smaller(closed, 2 * s.m), "zb-v p=%d m=%d rank %d: %d slots", s.p, s.m, rank, live);
        else
            CHECK(live == closed, "%s p=%d v=%d m=%d rank %d: %d slots live, not %d", s.name, s.p, s.v, s.m,
                rank, live, closed);
        CHECK(live <= s.p || (!is(s, "1f1b") && !is(s, "zb-h1")), "they hold at most p microbatches");
    }
}

static void program_is_sound(struct shape s, int send_buffers)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    const bool made = schedule_make(&schedule, s.name, s.p, s.v, s.m, s.group, &error);
    CHECK(made, "%s p=%d v=%d m=%d: %s", s.name, s.p, s.v, s.m, error.data);
    if (!made) return;
    program_make(&program, &schedule, send_buffers, 0, false);
    const bool sound = program_check(&program, &error);
    CHECK(sound, "%s p=%d v=%d m=%d group=%d: %s", s.name, s.p, s.v, s.m, s.group, error.data);
    if (sound) {
        struct prediction prediction = simulate(&program, 1, 2, 0.25);
        for (int rank = 0; rank < s.p; rank++)
            CHECK(program.rank[rank].slots == prediction.peak_slots[rank],
                "rank %d has %d slots for at most %d at once", rank, program.rank[rank].slots,
                prediction.peak_slots[rank]);
        prediction_free(&prediction);
        closed_forms_hold(s, &program);
        memory_is_as_published(s, &program);
    }
    for (int c = 0; c < program.channel_count; c++) {
        const struct channel_plan *channel = &program.channels[c];
        CHECK(channel->receive_buffers >= smaller(channel->from == channel->to ? 1 : 2, channel->messages) &&
                  channel->receive_buffers <= channel->messages,
            "%d receive buffers for %d messages", channel->receive_buffers, channel->messages);
    }
    program_free(&program);
    schedule_free(&schedule);
    text_free(&error);
}

static void all_small_shapes(void)
{
    for (int p = 1; p <= 6; p++) {
        for (int v = 1; v <= 4; v++) {
            for (const char *const *name = schedule_names; *name; name++) {
                const int chunks = schedule_traits(*name).chunks_per_rank;
                if (chunks != 0 && chunks != v) continue;
                for (int m = 1; m <= 4 * p + 3; m++) {
                    program_is_sound((struct shape){ *name, p, v, m, 0 }, 1);
                    program_is_sound((struct shape){ *name, p, v, m, 0 }, 2);
                    if (strncmp(*name, "interleaved", strlen("interleaved"))) continue;
                    for (int group = p; group <= m + 2 && m >= p; group++)
                        if (m % group == 0 || m % group >= p)
                            program_is_sound((struct shape){ *name, p, v, m, group }, 2);
                }
                program_is_sound((struct shape){ *name, p, v, 61, 0 }, 2);
            }
        }
    }
}

/* With F = I = W = 1: the split gains 2 (p-1) of 1F1B's 3 (p-1) idle chunk times and costs no memory; a V of
   two chunks halves what is left of it. */
static void splitting_the_backward_pays(void)
{
    static const struct shape shapes[] = { { "1f1b", 8, 1, 16, 0 }, { "zb-h1", 8, 1, 16, 0 },
        { "zb-v", 8, 2, 16, 0 }, { "interleaved-1f1b", 8, 2, 16, 0 }, { "interleaved-zb", 8, 2, 16, 0 } };
    static const double idle[] = { 3 * 7, 7, 7 * 0.5, 3 * 7 * 0.5,
        7 * 0.5 };                                             /* in units of a whole rank's F */
    static const int kept[] = { 8, 8, 16, 14 + 8 + 1, 8 + 8 }; /* on rank 0, in slots */
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        struct schedule schedule;
        struct program program;
        struct text error = { 0 };
        const struct shape s = shapes[k];
        CHECK(schedule_make(&schedule, s.name, s.p, s.v, s.m, 0, &error), "%s", error.data);
        program_make(&program, &schedule, 2, 0, false);
        const double unit = 1.0 / s.v;
        struct prediction prediction = simulate_halves(&program, unit, unit, unit, (struct costs){ 0 });
        CHECK(prediction.makespan == 16 * 3 + idle[k], "%s: %g", s.name, prediction.makespan);
        CHECK(prediction.peak_slots[0] == kept[k], "%s: %d", s.name, prediction.peak_slots[0]);
        prediction_free(&prediction);
        program_free(&program);
        schedule_free(&schedule);
    }
}

/* By hand: zb-h1, p=2, m=2, F=3, I=4, W=2, a message 0.5 + 0.25 after its compute. Rank 0: F 0-3 3-6; rank 1:
   F 3.75-6.75, I 6.75-10.75 (m=1: W is put off by one), F 10.75-13.75, I 13.75-17.75, W 17.75-19.75-21.75;
   rank 0: I 11.5-15.5, W 15.5-17.5, I 18.5-22.5, W 22.5-24.5. */
static void every_compute_has_its_times(void)
{
    static const double starts[2][6] = { { 0, 3, 11.5, 15.5, 18.5, 22.5 },
        { 3.75, 6.75, 10.75, 13.75, 17.75, 19.75 } };
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "zb-h1", 2, 1, 2, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    struct prediction prediction =
        simulate_halves(&program, 3, 4, 2, (struct costs){ .latency = 0.5, .transfer = 0.25 });
    for (int rank = 0; rank < 2; rank++) {
        for (int i = 0; i < schedule.count[rank]; i++) {
            static const double seconds[COMPUTE_KINDS] = {
                [COMPUTE_F] = 3, [COMPUTE_I] = 4, [COMPUTE_W] = 2
            };
            const double start = starts[rank][i], length = seconds[schedule.order[rank][i].kind];
            CHECK(prediction.start[rank][i] == start, "rank %d, compute %d starts at %g, not %g", rank, i,
                prediction.start[rank][i], start);
            CHECK(prediction.end[rank][i] == start + length, "rank %d, compute %d ends at %g, not %g", rank,
                i, prediction.end[rank][i], start + length);
        }
        CHECK(prediction.busy[rank] == 18, "rank %d is busy for %g", rank, prediction.busy[rank]);
    }
    CHECK(prediction.makespan == 24.5, "%g", prediction.makespan);
    prediction_free(&prediction);
    program_free(&program);
    schedule_free(&schedule);
}

/* Each rank's program, transfers included. */
static void program_reads(const char *name, int p, int m, const char *const *expected)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, name, p, 1, m, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    for (int rank = 0; rank < p; rank++) {
        struct text text = { 0 };
        for (int i = 0; i < program.rank[rank].count; i++) {
            const struct operation *o = &program.rank[rank].operations[i];
            static const char *const prefix[] = { "", "recv ", "send " };
            text_add(&text, "%s%s%c%d.%d", i ? " " : "", prefix[o->kind], compute_letter[o->compute.kind],
                o->compute.chunk, o->compute.microbatch);
            if (o->kind == OPERATION_COMPUTE)
                text_add(&text, "s%d", o->slot);
            else
                text_add(&text, ">%d", o->kind == OPERATION_SEND ? o->output.buffer : o->input.buffer);
        }
        CHECK(
            !strcmp(text.data, expected[rank]), "rank %d: '%s' is not '%s'", rank, text.data, expected[rank]);
        text_free(&text);
    }
    CHECK(program.channel_count == 2 && program.channels[0].from == 0 &&
              program.channels[0].kind == CHANNEL_ACTIVATION && program.channels[1].from == 1 &&
              program.channels[1].kind == CHANNEL_GRADIENT,
        "one channel each way");
    program_free(&program);
    schedule_free(&schedule);
}

static void lowering_is_as_described(void)
{
    static const char *const expected[2] = {
        "recv B0.0>0 recv B0.1>1 F0.0s0 send F0.0>0 F0.1s1 send F0.1>1 B0.0s0 recv B0.2>0 F0.2s0 send F0.2>0 "
        "B0.1s1 B0.2s0",
        "recv F1.0>0 recv F1.1>1 F1.0s0 recv F1.2>0 B1.0s0 send B1.0>0 F1.1s0 B1.1s0 send B1.1>1 F1.2s0 "
        "B1.2s0 send B1.2>0",
    };
    program_reads("1f1b", 2, 3, expected);
}

/* The slot that F fills is what W empties, and no transfer belongs to a W. */
static void halves_lower_as_described(void)
{
    static const char *const expected[2] = {
        "recv I0.0>0 recv I0.1>1 F0.0s0 send F0.0>0 F0.1s1 send F0.1>1 I0.0s0 W0.0s0 I0.1s1 W0.1s1",
        "recv F1.0>0 recv F1.1>1 F1.0s0 I1.0s0 send I1.0>0 F1.1s1 I1.1s1 send I1.1>1 W1.0s0 W1.1s1",
    };
    program_reads("zb-h1", 2, 2, expected);
}

/* A V placement with whole backwards: chunks 0 and 3 on rank 0, 1 and 2 on rank 1, so that chunk 1
   hands over to chunk 2 on its own rank, and both ranks send both kinds. Its order is made by hand. */
static void a_v_placement_is_only_data(void)
{
    static struct compute first[] = { { COMPUTE_F, 0, 0 }, { COMPUTE_F, 0, 1 }, { COMPUTE_F, 3, 0 },
        { COMPUTE_B, 3, 0 }, { COMPUTE_F, 3, 1 }, { COMPUTE_B, 3, 1 }, { COMPUTE_B, 0, 0 },
        { COMPUTE_B, 0, 1 } };
    static struct compute second[] = { { COMPUTE_F, 1, 0 }, { COMPUTE_F, 2, 0 }, { COMPUTE_F, 1, 1 },
        { COMPUTE_F, 2, 1 }, { COMPUTE_B, 2, 0 }, { COMPUTE_B, 1, 0 }, { COMPUTE_B, 2, 1 },
        { COMPUTE_B, 1, 1 } };
    struct compute *order[] = { first, second };
    int rank_of[] = { 0, 1, 1, 0 }, count[] = { 8, 8 };
    const struct schedule schedule = { 2, 4, 2, 0, rank_of, order, count };
    struct program program;
    struct text error = { 0 };
    program_make(&program, &schedule, 2, 0, false);
    CHECK(program_check(&program, &error), "%s", error.data);
    CHECK(
        program.channel_count == 6, "%d channels: two kinds each way, and two local", program.channel_count);
    struct prediction prediction = simulate(&program, 1, 1, 0);
    CHECK(prediction.makespan == 10, "by hand: rank 1 ends at 9, then B chunk 0: %g", prediction.makespan);
    prediction_free(&prediction);
    program_free(&program);
    text_free(&error);
}

/* The receiver takes message 1 before message 0: it needs two buffers even where one was asked for. */
static void messages_taken_out_of_order_have_buffers(void)
{
    static struct compute first[] = { { COMPUTE_F, 0, 0 }, { COMPUTE_F, 0, 1 }, { COMPUTE_B, 0, 0 },
        { COMPUTE_B, 0, 1 } };
    static struct compute second[] = { { COMPUTE_F, 1, 1 }, { COMPUTE_F, 1, 0 }, { COMPUTE_F, 2, 0 },
        { COMPUTE_F, 2, 1 }, { COMPUTE_B, 2, 0 }, { COMPUTE_B, 2, 1 }, { COMPUTE_B, 1, 0 },
        { COMPUTE_B, 1, 1 } };
    struct compute *order[] = { first, second };
    int rank_of[] = { 0, 1, 1 }, count[] = { 4, 8 };
    const struct schedule schedule = { 2, 3, 2, 0, rank_of, order, count };
    struct program program;
    struct text error = { 0 };
    program_make(&program, &schedule, 1, 1, false);
    CHECK(
        program.channels[0].receive_buffers == 2, "%d receive buffers", program.channels[0].receive_buffers);
    CHECK(program_check(&program, &error), "%s", error.data);
    program_free(&program);
    text_free(&error);
}

/* p ranks that only hand one microbatch down and up: every boundary costs one latency each way. */
static void latency_adds_up(void)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "1f1b", 5, 1, 1, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    struct prediction prediction = simulate(&program, 1, 2, 0.5);
    CHECK(prediction.makespan == 5 * 3 + 8 * 0.5, "%g", prediction.makespan);
    prediction_free(&prediction);
    program_free(&program);
    schedule_free(&schedule);
}

/* Three messages each way that take far longer than the computes: they follow one another on their channel.
   Down at 1 + 5, 11, 16; rank 1's backwards start at 17, 18 and 23 (which waits for a send buffer); up at 18
   + 5, 28, 33. */
static void a_channel_carries_one_message_at_a_time(void)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "gpipe", 2, 1, 3, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    struct prediction prediction = simulate(&program, 1, 1, 5);
    CHECK(prediction.makespan == 34, "%g", prediction.makespan);
    prediction_free(&prediction);
    program_free(&program);
    schedule_free(&schedule);
}

/* With groups of N = 8, rank 3 is N-p microbatches ahead of rank 0's next chunk: N-p+1 = 5 activations are in
   flight there (the same count as in Megatron-LM). The gradients the other way are at most 7 (counted from
   the times of all computes). Everywhere else neighbours keep pace. */
static void the_way_back_to_rank_0_has_buffers_for_a_group(void)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "interleaved-1f1b", 4, 2, 16, 8, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    for (int c = 0; c < program.channel_count; c++) {
        const struct channel_plan *channel = &program.channels[c];
        const bool ring = abs(channel->from - channel->to) == 3;
        const int expected = !ring ? 2 : channel->kind == CHANNEL_ACTIVATION ? 5 : 7;
        CHECK(channel->receive_buffers == expected, "%d -> %d: %d receive buffers", channel->from,
            channel->to, channel->receive_buffers);
    }
    program_free(&program);
    schedule_free(&schedule);
}

int main(void)
{
    all_small_shapes();
    splitting_the_backward_pays();
    every_compute_has_its_times();
    lowering_is_as_described();
    halves_lower_as_described();
    a_v_placement_is_only_data();
    messages_taken_out_of_order_have_buffers();
    latency_adds_up();
    a_channel_carries_one_message_at_a_time();
    the_way_back_to_rank_0_has_buffers_for_a_group();
    return check_result();
}
