/* The schedules' orders are the published ones, what a schedule cannot do is refused with what it can, and
   the bubble has its closed form. */
#include "check.h"
#include "schedule/schedule.h"
#include <limits.h>
#include <math.h>
#include <string.h>

/* "F0.0 B0.0 ...": letter, chunk, microbatch. */
static struct text order_text(const struct schedule *schedule, int rank)
{
    struct text text = { 0 };
    for (int i = 0; i < schedule->count[rank]; i++) {
        const struct compute c = schedule->order[rank][i];
        text_add(&text, "%s%c%d.%d", i ? " " : "", compute_letter[c.kind], c.chunk, c.microbatch);
    }
    return text;
}

static void orders_are(const char *name, int p, int v, int m, const char *const *expected)
{
    struct schedule schedule;
    struct text error = { 0 };
    const bool made = schedule_make(&schedule, name, p, v, m, 0, &error);
    CHECK(made, "%s: %s", name, error.data);
    for (int rank = 0; made && rank < p; rank++) {
        struct text order = order_text(&schedule, rank);
        CHECK(!strcmp(order.data, expected[rank]), "%s rank %d: '%s' is not '%s'", name, rank, order.data,
            expected[rank]);
        text_free(&order);
    }
    schedule_free(&schedule);
    text_free(&error);
}

static void known_orders(void)
{
    orders_are("1f1b", 4, 1, 8,
        (const char *const[]){
            "F0.0 F0.1 F0.2 F0.3 B0.0 F0.4 B0.1 F0.5 B0.2 F0.6 B0.3 F0.7 B0.4 B0.5 B0.6 B0.7",
            "F1.0 F1.1 F1.2 B1.0 F1.3 B1.1 F1.4 B1.2 F1.5 B1.3 F1.6 B1.4 F1.7 B1.5 B1.6 B1.7",
            "F2.0 F2.1 B2.0 F2.2 B2.1 F2.3 B2.2 F2.4 B2.3 F2.5 B2.4 F2.6 B2.5 F2.7 B2.6 B2.7",
            "F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 F3.3 B3.3 F3.4 B3.4 F3.5 B3.5 F3.6 B3.6 F3.7 B3.7" });
    orders_are("interleaved-1f1b", 2, 2, 4,
        (const char *const[]){
            "F0.0 F0.1 F2.0 F2.1 F0.2 B2.0 F0.3 B2.1 F2.2 B0.0 F2.3 B0.1 B2.2 B2.3 B0.2 B0.3",
            "F1.0 F1.1 F3.0 B3.0 F3.1 B3.1 F1.2 B1.0 F1.3 B1.1 F3.2 B3.2 F3.3 B3.3 B1.2 B1.3" });
    /* N = 3, so that the second group is short: 5 = 3 + 2. */
    orders_are("interleaved-1f1b", 2, 2, 5,
        (const char *const[]){ "F0.0 F0.1 F0.2 F2.0 F2.1 F2.2 B2.0 F0.3 B2.1 F0.4 B2.2 F2.3 B0.0 F2.4 B0.1 "
                               "B0.2 B2.3 B2.4 B0.3 B0.4",
            "F1.0 F1.1 F1.2 F3.0 B3.0 F3.1 B3.1 F3.2 B3.2 F1.3 B1.0 F1.4 B1.1 F3.3 B1.2 F3.4 B3.3 B3.4 B1.3 "
            "B1.4" });
    orders_are("gpipe", 2, 1, 3,
        (const char *const[]){ "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2", "F1.0 F1.1 F1.2 B1.0 B1.1 B1.2" });
    orders_are("looped-bfs", 2, 2, 2,
        (const char *const[]){
            "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1", "F1.0 F1.1 F3.0 F3.1 B3.0 B3.1 B1.0 B1.1" });
    orders_are("zb-h1", 4, 1, 6,
        (const char *const[]){
            "F0.0 F0.1 F0.2 F0.3 I0.0 W0.0 F0.4 I0.1 W0.1 F0.5 I0.2 W0.2 I0.3 W0.3 I0.4 W0.4 I0.5 W0.5",
            "F1.0 F1.1 F1.2 I1.0 F1.3 I1.1 W1.0 F1.4 I1.2 W1.1 F1.5 I1.3 W1.2 I1.4 W1.3 I1.5 W1.4 W1.5",
            "F2.0 F2.1 I2.0 F2.2 I2.1 F2.3 I2.2 W2.0 F2.4 I2.3 W2.1 F2.5 I2.4 W2.2 I2.5 W2.3 W2.4 W2.5",
            "F3.0 I3.0 F3.1 I3.1 F3.2 I3.2 F3.3 I3.3 W3.0 F3.4 I3.4 W3.1 F3.5 I3.5 W3.2 W3.3 W3.4 W3.5" });
    orders_are("interleaved-zb", 2, 2, 2,
        (const char *const[]){ "F0.0 F0.1 F2.0 F2.1 I2.0 W2.0 I2.1 W2.1 I0.0 W0.0 I0.1 W0.1",
            "F1.0 F1.1 F3.0 I3.0 F3.1 I3.1 W3.0 I1.0 W3.1 I1.1 W1.0 W1.1" });
    /* By PyTorch's rule, worked out by hand; and with m=2 that of m=3 without microbatch 2. */
    orders_are("zb-v", 2, 2, 4,
        (const char *const[]){
            "F0.0 F0.1 F0.2 F3.0 I3.0 W3.0 F3.1 I3.1 W3.1 F0.3 I0.0 W0.0 F3.2 I3.2 W3.2 I0.1 W0.1 F3.3 I3.3 "
            "W3.3 I0.2 W0.2 I0.3 W0.3",
            "F1.0 F2.0 F1.1 F2.1 I2.0 W2.0 F1.2 I1.0 W1.0 F2.2 I2.1 W2.1 F1.3 I1.1 W1.1 F2.3 I2.2 W2.2 I1.2 "
            "I2.3 I1.3 W1.2 W2.3 W1.3" });
    orders_are("zb-v", 2, 2, 2,
        (const char *const[]){ "F0.0 F0.1 F3.0 I3.0 W3.0 F3.1 I3.1 W3.1 I0.0 W0.0 I0.1 W0.1",
            "F1.0 F2.0 F1.1 F2.1 I2.0 W2.0 I1.0 W1.0 I2.1 W2.1 I1.1 W1.1" });
}

static void with_one_chunk_it_is(const char *simple, const char *general)
{
    for (int p = 1; p <= 6; p++) {
        for (int m = 1; m <= 2 * p + 1; m++) {
            struct schedule plain, interleaved;
            struct text error = { 0 };
            CHECK(schedule_make(&plain, simple, p, 1, m, 0, &error), "%s", error.data);
            CHECK(schedule_make(&interleaved, general, p, 1, m, 0, &error), "%s", error.data);
            for (int rank = 0; rank < p; rank++) {
                struct text a = order_text(&plain, rank), b = order_text(&interleaved, rank);
                CHECK(
                    !strcmp(a.data, b.data), "p=%d m=%d rank %d: '%s' and '%s'", p, m, rank, a.data, b.data);
                text_free(&a);
                text_free(&b);
            }
            schedule_free(&plain);
            schedule_free(&interleaved);
        }
    }
}

static void traits_are_what_schedules_do(void)
{
    for (const char *const *name = schedule_names; *name; name++) {
        const struct schedule_traits traits = schedule_traits(*name);
        for (int v = 1; v <= 3; v++) {
            struct schedule schedule;
            struct text error = { 0 };
            const bool made = schedule_make(&schedule, *name, 3, v, 4, 0, &error);
            CHECK(made == (traits.chunks_per_rank == 0 || traits.chunks_per_rank == v), "%s v=%d", *name, v);
            bool splits = false;
            for (int i = 0; made && i < schedule.count[0]; i++)
                splits = splits || schedule.order[0][i].kind == COMPUTE_W;
            CHECK(!made || splits == traits.splits_backward, "%s", *name);
            schedule_free(&schedule);
            text_free(&error);
        }
    }
}

static void a_v_turns_on_the_last_rank(void)
{
    static const int expected[] = { 0, 1, 2, 2, 1, 0 };
    struct schedule schedule;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "zb-v", 3, 2, 4, 0, &error), "%s", error.data);
    for (int chunk = 0; chunk < 6; chunk++)
        CHECK(schedule.rank_of[chunk] == expected[chunk], "chunk %d on rank %d", chunk,
            schedule.rank_of[chunk]);
    schedule_free(&schedule);
}

static void group_is(int p, int v, int m, int given, int used)
{
    struct schedule schedule;
    struct text error = { 0 };
    const bool made = schedule_make(&schedule, "interleaved-1f1b", p, v, m, given, &error);
    CHECK(made && schedule.group == used, "p=%d v=%d m=%d group=%d: %d is not %d %s", p, v, m, given,
        schedule.group, used, made ? "" : error.data);
    schedule_free(&schedule);
    text_free(&error);
}

static void groups(void)
{
    group_is(4, 2, 8, 0, 4);  /* p divides m */
    group_is(4, 3, 5, 0, 5);  /* 5 mod 4 = 1: neither 0 nor at least 4 */
    group_is(4, 2, 9, 0, 5);  /* 9 mod 5 = 4 */
    group_is(4, 2, 11, 0, 6); /* 11 mod 6 = 5 */
    group_is(3, 2, 5, 0, 5);
    group_is(6, 2, 4, 0, 4); /* m < p */
    group_is(1, 3, 7, 0, 1);
    group_is(4, 2, 8, 8, 8);
    group_is(4, 2, 12, 6, 6);
}

static void refused(const char *name, int p, int v, int m, int group, const char *expected)
{
    struct schedule schedule;
    struct text error = { 0 };
    const bool made = schedule_make(&schedule, name, p, v, m, group, &error);
    CHECK(!made, "%s p=%d v=%d m=%d group=%d was made", name, p, v, m, group);
    CHECK(error.data && !strcmp(error.data, expected), "'%s' is not '%s'", error.data, expected);
    if (made) schedule_free(&schedule);
    text_free(&error);
}

static void refusals(void)
{
    refused("1f1b", 4, 2, 8, 0,
        "chunks_per_rank=2: schedule='1f1b' has one chunk a rank: set chunks_per_rank=1 or "
        "schedule='interleaved-1f1b'");
    refused("gpipe", 4, 3, 8, 0,
        "chunks_per_rank=3: schedule='gpipe' has one chunk a rank: set chunks_per_rank=1 or "
        "schedule='interleaved-1f1b'");
    refused("gpipe", 4, 1, 8, 4, "group=4: schedule='gpipe' has no groups: set group=0");
    refused("interleaved-1f1b", 4, 3, 5, 4,
        "group=4: must be at least ranks=4, and divide microbatches=5 or leave a remainder of at least 4: "
        "the nearest legal group is 5");
    refused("interleaved-1f1b", 4, 2, 11, 3,
        "group=3: must be at least ranks=4, and divide microbatches=11 or leave a remainder of at least 4: "
        "the nearest legal group is 6");
    refused("interleaved-1f1b", 6, 2, 4, INT_MAX,
        "group=2147483647: with fewer microbatches (4) than ranks (6) the group is all of them: the nearest "
        "legal group is 4");
    refused("interleaved_1f1b", 4, 2, 8, 0,
        "schedule='interleaved_1f1b': no such schedule; did you mean 'interleaved-1f1b'? "
        "(there are: 'gpipe', '1f1b', 'interleaved-1f1b', 'looped-bfs', 'zb-h1', 'interleaved-zb', 'zb-v')");
    refused("zb-h1", 4, 2, 8, 0,
        "chunks_per_rank=2: schedule='zb-h1' has one chunk a rank: set chunks_per_rank=1 or "
        "schedule='interleaved-zb'");
    refused("zb-v", 4, 1, 8, 0,
        "chunks_per_rank=1: schedule='zb-v' has two chunks a rank: set chunks_per_rank=2 or "
        "schedule='zb-h1'");
    refused("zb-v", 4, 3, 8, 0,
        "chunks_per_rank=3: schedule='zb-v' has two chunks a rank: set chunks_per_rank=2 or "
        "schedule='interleaved-zb'");
    refused("zb-v", 4, 2, 8, 4, "group=4: schedule='zb-v' has no groups: set group=0");
    refused("looped-bfs", 4, 2, 8, 4, "group=4: schedule='looped-bfs' has no groups: set group=0");
    refused("interleaved-zb", 4, 3, 5, 4,
        "group=4: must be at least ranks=4, and divide microbatches=5 or leave a remainder of at least 4: "
        "the nearest legal group is 5");
    refused("1f1b", 0, 1, 8, 0, "ranks=0: must be at least 1");
    refused("1f1b", 2, 1, 0, 0, "microbatches=0: must be at least 1");
    refused("interleaved-1f1b", 2, 1 << 20, 1 << 20, 0,
        "microbatches=1048576: must be at most 255 with chunks_per_rank=1048576");
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-15;
}

static void bubbles(void)
{
    const struct bubble gpipe = schedule_bubble("gpipe", 4, 1, 8), plain = schedule_bubble("1f1b", 4, 1, 8);
    const struct bubble interleaved = schedule_bubble("interleaved-1f1b", 4, 2, 8);
    CHECK(near(gpipe.over_ideal, 3.0 / 8) && near(gpipe.of_step, 3.0 / 11), "%g %g", gpipe.over_ideal,
        gpipe.of_step);
    CHECK(near(plain.over_ideal, 3.0 / 8) && near(plain.of_step, 3.0 / 11), "%g %g", plain.over_ideal,
        plain.of_step);
    CHECK(near(interleaved.over_ideal, 3.0 / 16) && near(interleaved.of_step, 3.0 / 19), "%g %g",
        interleaved.over_ideal, interleaved.of_step);
    const struct bubble breadth = schedule_bubble("looped-bfs", 4, 2, 9);
    CHECK(near(breadth.over_ideal, 3.0 / 18) && near(breadth.of_step, 3.0 / 21), "%g", breadth.over_ideal);
    CHECK(near(schedule_bubble("zb-h1", 4, 1, 8).over_ideal, 3.0 / 24), "(p-1)(F+I-W) over m(F+I+W)");
    CHECK(
        near(schedule_bubble("interleaved-zb", 4, 2, 8).over_ideal, 3.0 / 48), "the same over v times that");
    CHECK(near(schedule_bubble("zb-v", 4, 2, 8).over_ideal, 3.0 / 48), "the first F of rank p-1 waits");
    CHECK(isnan(schedule_bubble("interleaved-1f1b", 4, 2, 9).of_step),
        "no closed form is known where p does not divide m");
    CHECK(isnan(schedule_bubble("zigzag", 4, 2, 8).over_ideal), "no closed form of what does not exist");
}

int main(void)
{
    known_orders();
    with_one_chunk_it_is("1f1b", "interleaved-1f1b");
    with_one_chunk_it_is("zb-h1", "interleaved-zb");
    with_one_chunk_it_is("gpipe", "looped-bfs");
    traits_are_what_schedules_do();
    a_v_turns_on_the_last_rank();
    groups();
    refusals();
    bubbles();
    return check_result();
}
