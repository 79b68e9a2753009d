/* What several pipelines say of each other and of hosts, which exit code counts, which targets are met: on
   made-up machines, of more hosts than a test has. */
#include "../check.h"
#include "command/run_state.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct outcome came_out(enum verdict verdict, int code, double step)
{
    return (struct outcome){ .ended = true,
        .verdict = verdict,
        .code = code,
        .fom = 1000 / step,
        .step = step,
        .bubble = 0.25,
        .wrong_rank = -1 };
}

static void slow_is_more_than_5_percent_below_the_median(void)
{
    /* Speeds 100, 100, 95.0001, 94.9999, 120 of the median 100. */
    const double speed[] = { 100, 100, 95.0001, 94.9999, 120 };
    struct outcome o[5];
    for (int k = 0; k < 5; k++) o[k] = came_out(SUCCESSFUL, EXIT_DONE, 1 / speed[k]);
    outcomes_judge(o, 5);
    for (int k = 0; k < 5; k++) {
        CHECK(o[k].is_slow == (k == 3), "pipeline %d: slow %d", k, o[k].is_slow);
        CHECK(fabs(o[k].of_median - speed[k] / 100) < 1e-12, "pipeline %d: %g of the median", k,
            o[k].of_median);
    }
    struct outcome alone = came_out(SUCCESSFUL, EXIT_DONE, 3);
    outcomes_judge(&alone, 1);
    CHECK(!alone.is_slow && alone.of_median == 1, "one alone is the median");
    struct outcome none[2] = { came_out(NOT_PERFORMED, EXIT_FAILED, NAN),
        came_out(SUCCESSFUL, EXIT_DONE, 1) };
    outcomes_judge(none, 2);
    CHECK(isnan(none[0].of_median) && !none[0].is_slow && none[1].of_median == 1,
        "what is not measured is not slow");
}

static struct place *machine(const char *const *hosts, int count)
{
    struct place *place = allocate((size_t)count, sizeof *place);
    for (int r = 0; r < count; r++) {
        snprintf(place[r].host, sizeof place[r].host, "%s", hosts[r]);
        snprintf(place[r].device, sizeof place[r].device, "GPU");
        snprintf(place[r].uuid, sizeof place[r].uuid, "GPU-%d", r);
    }
    return place;
}

/* Outcomes of pipelines of two ranks each; expected: a line a host, as nodecheck.txt has it. */
static void expect(const struct outcome *o, int count, const char *const *hosts, const char *const *expected)
{
    struct place *place = machine(hosts, 2 * count);
    int found;
    struct node *nodes = nodes_judge(o, count, 2, place, &found);
    int wanted = 0;
    while (expected[wanted]) wanted++;
    CHECK(found == wanted, "%d hosts, not %d", found, wanted);
    for (int i = 0; i < found && i < wanted; i++) {
        char line[400];
        snprintf(line, sizeof line, "%s %s %s", nodes[i].host, node_status_text[nodes[i].status],
            nodes[i].message.data);
        CHECK(strcmp(line, expected[i]) == 0, "'%s' and not '%s'", line, expected[i]);
    }
    nodes_free(nodes, found);
    free(place);
}

static void hosts_are_judged_by_their_worst_pipeline(void)
{
    const struct outcome right = came_out(SUCCESSFUL, EXIT_DONE, 1);
    struct outcome wrong = came_out(UNSUCCESSFUL, EXIT_WRONG, 1), slow = right, missed = right,
                   unasked = right;
    wrong.wrong_rank = 1;
    slow.is_slow = true;
    slow.of_median = 0.9;
    missed.code = EXIT_SLOW;
    missed.missed_target = true;
    unasked.verdict = NOT_PERFORMED;
    const char *const pairs[] = { "a", "b", "c", "d", "e", "f" }, *const shared[] = { "a", "a", "a", "b", "b",
        "a" };

    expect((struct outcome[]){ right, wrong, slow }, 3, pairs,
        (const char *[]){ "a PASS pipeline 0 is right", "b PASS pipeline 0 is right",
            "c FAIL pipeline 1 is wrong, first on rank 3 on d (GPU-3)",
            "d HW-FAIL pipeline 1 is wrong, first on rank 3 here (GPU-3); the same program is right in "
            "another "
            "pipeline",
            "e PERF-FAIL pipeline 2 is right but 10.0 % below the median",
            "f PERF-FAIL pipeline 2 is right but 10.0 % below the median", NULL });
    /* Host a is in all three, b in the last two. */
    expect((struct outcome[]){ right, missed, slow }, 3, shared,
        (const char *[]){ "a PERF-FAIL pipeline 1 is right but missed the target; 1 more pipeline too",
            "b PERF-FAIL pipeline 1 is right but missed the target; 1 more pipeline too", NULL });
    expect((struct outcome[]){ slow, right, wrong }, 3, shared,
        (const char *[]){ "a HW-FAIL pipeline 2 is wrong, first on rank 5 here (GPU-5); the same program is "
                          "right in another "
                          "pipeline",
            "b FAIL pipeline 2 is wrong, first on rank 5 on a (GPU-5)", NULL });
    /* Where none is right the reference or the program may be wrong: no word of hardware. */
    expect((struct outcome[]){ wrong, wrong, unasked }, 3, pairs,
        (const char *[]){ "a FAIL pipeline 0 is wrong, first on rank 1 on b (GPU-1)",
            "b FAIL pipeline 0 is wrong, first on rank 1 here (GPU-1)",
            "c FAIL pipeline 1 is wrong, first on rank 3 on d (GPU-3)",
            "d FAIL pipeline 1 is wrong, first on rank 3 here (GPU-3)", "e FAIL pipeline 2 is not verified",
            "f FAIL pipeline 2 is not verified", NULL });
    struct outcome injected = wrong, elsewhere = wrong, lost = right;
    injected.injected = true;
    elsewhere.wrong_rank = -1;
    lost.ended = false;
    expect((struct outcome[]){ injected, elsewhere, lost, right }, 4,
        (const char *[]){ "a", "b", "c", "c", "d", "d", "e", "e" },
        (const char *[]){ "a FAIL pipeline 0 is wrong (INJECTED), first on rank 1 on b (GPU-1)",
            "b FAIL pipeline 0 is wrong (INJECTED), first on rank 1 here (GPU-1)",
            "c FAIL pipeline 1 is wrong", "d FAIL pipeline 2 did not come to its end",
            "e PASS pipeline 3 is right", NULL });
    expect(&wrong, 1, pairs,
        (const char *[]){ "a FAIL the run is wrong, first on rank 1 on b (GPU-1)",
            "b FAIL the run is wrong, first on rank 1 here (GPU-1)", NULL });
}

static void the_worst_exit_code_counts(void)
{
    const int order[] = { EXIT_TIMEOUT, EXIT_FAILED, EXIT_WRONG, EXIT_NOT_VERIFIED, EXIT_SLOW, EXIT_DONE };
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < 6; b++)
            CHECK(first_exit_code(order[a], order[b]) == order[a < b ? a : b], "%d and %d: %d", order[a],
                order[b], first_exit_code(order[a], order[b]));
}

static void what_is_not_measured_meets_no_target(void)
{
    static struct deck deck;
    struct target t[TARGETS];
    CHECK(targets_check(&deck, NAN, NAN, t) == 0 && targets_met(t, 0), "no target is met by anything");
    deck.target.fom = 100;
    deck.target.bubble_max = 0.5;
    const struct {
        double fom, bubble;
        bool first, second;
    } cases[] = { { 100, 0.5, true, true }, { 99.999, 0.5, false, true }, { 101, 0.5001, true, false },
        { NAN, 0.1, false, true }, { 200, NAN, true, false }, { NAN, NAN, false, false } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int count = targets_check(&deck, cases[i].fom, cases[i].bubble, t);
        CHECK(count == 2 && t[0].met == cases[i].first && t[1].met == cases[i].second, "case %zu: %d %d", i,
            t[0].met, t[1].met);
        CHECK(targets_met(t, count) == (cases[i].first && cases[i].second), "case %zu as a whole", i);
    }
}

int main(void)
{
    slow_is_more_than_5_percent_below_the_median();
    hosts_are_judged_by_their_worst_pipeline();
    the_worst_exit_code_counts();
    what_is_not_measured_meets_no_target();
    return check_result();
}
