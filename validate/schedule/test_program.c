/* Every schedule, at every small p, v and m, lowers to a program that passes the check; and where the
   literature has a closed form of its time or its memory, that is what the program takes. */
#include "check.h"
#include "schedule/program.h"
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

static struct prediction simulate(const struct program *program, double f, double b, double latency)
{
    double *cost_f = malloc((size_t)program->chunks * sizeof *cost_f),
           *cost_b = malloc((size_t)program->chunks * sizeof *cost_b);
    for (int chunk = 0; chunk < program->chunks; chunk++) {
        cost_f[chunk] = f;
        cost_b[chunk] = b;
    }
    struct prediction prediction;
    program_simulate(program, cost_f, cost_b, latency, &prediction);
    free(cost_f);
    free(cost_b);
    return prediction;
}

/* What is known of any schedule here where p divides m, or v = 1. */
static void closed_forms_hold(struct shape s, const struct program *program)
{
    static const double costs[][2] = { { 1, 1 }, { 1, 2 }, { 1, 3 }, { 2, 1 } };
    for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
        const double f = costs[i][0], b = costs[i][1];
        struct prediction prediction = simulate(program, f, b, 0);
        CHECK(prediction.makespan == (s.m * s.v + s.p - 1) * (f + b), "%s p=%d v=%d m=%d f=%g b=%g: %g",
            s.name, s.p, s.v, s.m, f, b, prediction.makespan);
        const double idle = prediction.makespan - prediction.busy[0], ideal = s.m * s.v * (f + b);
        const struct bubble bubble = schedule_bubble(s.name, s.p, s.v, s.m);
        CHECK(idle / ideal == bubble.over_ideal, "%s p=%d v=%d m=%d: idle %g of %g", s.name, s.p, s.v, s.m,
            idle, ideal);
        for (int rank = 0; rank < s.p; rank++) {
            CHECK(prediction.busy[rank] == ideal, "%s p=%d rank %d: busy %g", s.name, s.p, rank,
                prediction.busy[rank]);
            const int total = s.m * s.v;
            const int ahead = s.v > 1 ? 2 * (s.p - 1 - rank) + (s.v - 1) * s.p : s.p - 1 - rank;
            const int live = strcmp(s.name, "gpipe") ? smaller(smaller(ahead, total) + 1, total) : s.m;
            CHECK(prediction.peak_slots[rank] == live, "%s p=%d v=%d m=%d rank %d: %d slots live, not %d",
                s.name, s.p, s.v, s.m, rank, prediction.peak_slots[rank], live);
            CHECK(strcmp(s.name, "1f1b") || live <= s.p, "1f1b holds at most p microbatches");
        }
        prediction_free(&prediction);
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
    program_make(&program, &schedule, send_buffers, 0);
    const bool sound = program_check(&program, &error);
    CHECK(sound, "%s p=%d v=%d m=%d group=%d: %s", s.name, s.p, s.v, s.m, s.group, error.data);
    if (sound) {
        struct prediction prediction = simulate(&program, 1, 2, 0.25);
        for (int rank = 0; rank < s.p; rank++)
            CHECK(program.rank[rank].slots == prediction.peak_slots[rank],
                "rank %d has %d slots for at most %d at once", rank, program.rank[rank].slots,
                prediction.peak_slots[rank]);
        prediction_free(&prediction);
        if (s.v == 1 || (s.m % s.p == 0 && s.group == 0)) closed_forms_hold(s, &program);
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
            for (int m = 1; m <= 4 * p + 3; m++) {
                for (int send_buffers = 1; send_buffers <= 2; send_buffers++) {
                    program_is_sound((struct shape){ "interleaved-1f1b", p, v, m, 0 }, send_buffers);
                    if (v > 1) continue;
                    program_is_sound((struct shape){ "gpipe", p, 1, m, 0 }, send_buffers);
                    program_is_sound((struct shape){ "1f1b", p, 1, m, 0 }, send_buffers);
                }
                for (int group = p; group <= m + 2 && m >= p; group++)
                    if (m % group == 0 || m % group >= p)
                        program_is_sound((struct shape){ "interleaved-1f1b", p, v, m, group }, 2);
            }
            program_is_sound((struct shape){ "interleaved-1f1b", p, v, 61, 0 }, 2);
        }
    }
}

/* The picture of one rank's program, transfers included: p=2, v=1, m=3, 1f1b. */
static void lowering_is_as_described(void)
{
    static const char *const expected[2] = {
        "recv B0.0>0 recv B0.1>1 F0.0s0 send F0.0>0 F0.1s1 send F0.1>1 B0.0s0 recv B0.2>0 F0.2s0 send F0.2>0 "
        "B0.1s1 B0.2s0",
        "recv F1.0>0 recv F1.1>1 F1.0s0 recv F1.2>0 B1.0s0 send B1.0>0 F1.1s0 B1.1s0 send B1.1>1 F1.2s0 "
        "B1.2s0 send B1.2>0",
    };
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "1f1b", 2, 1, 3, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0);
    for (int rank = 0; rank < 2; rank++) {
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

/* A V placement, which no schedule here has: chunks 0 and 3 on rank 0, 1 and 2 on rank 1, so that chunk 1
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
    program_make(&program, &schedule, 2, 0);
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
    program_make(&program, &schedule, 1, 1);
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
    program_make(&program, &schedule, 2, 0);
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
    program_make(&program, &schedule, 2, 0);
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
    program_make(&program, &schedule, 2, 0);
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
    lowering_is_as_described();
    a_v_placement_is_only_data();
    messages_taken_out_of_order_have_buffers();
    latency_adds_up();
    a_channel_carries_one_message_at_a_time();
    the_way_back_to_rank_0_has_buffers_for_a_group();
    return check_result();
}
