/* Programs of which each rank's part is sound but which do not end are refused with the shortest cycle of
   waiting ranks; and of a sound program no operation can be spared. */
#include "broken.h"

/* The published table with groups of p, where p does not divide m: p=4, v=3, m=5, N=4. Its order alone is a
 * cycle. */
static void the_true_cycle(void)
{
    enum { p = 4, v = 3, m = 5, N = 4, T = m * v };
    static struct compute order[p][2 * T];
    struct compute *orders[p];
    int count[p], rank_of[p * v];
    for (int chunk = 0; chunk < p * v; chunk++) rank_of[chunk] = chunk % p;
    for (int r = 0; r < p; r++) {
        struct compute forward[T], backward[T], *action = order[r];
        int rows = 0;
        for (int first = 0; first < m; first += N) {
            for (int c = 0; c < v; c++) {
                for (int i = first; i < m && i < first + N; i++) {
                    forward[rows] = F(c * p + r, i);
                    backward[rows++] = B((v - 1 - c) * p + r, i);
                }
            }
        }
        const int ahead = 2 * (p - 1 - r) + (v - 1) * N, warm_up = ahead < T ? ahead : T;
        for (int k = 0; k < warm_up; k++) *action++ = forward[k];
        for (int k = 0; k < T; k++) {
            if (k + warm_up < T) *action++ = forward[k + warm_up];
            *action++ = backward[k];
        }
        orders[r] = order[r];
        count[r] = 2 * T;
    }
    struct program program = by_hand(p, p * v, rank_of, m, orders, count);
    refused("N=p where p does not divide m", &program,
        "deadlock with sends in the background: a cycle of 2 ranks, each waiting for the next"
        "\n  rank 0, operation 40, F chunk 8 microbatch 4: waits for message 9 of activations 3 -> 0, which "
        "rank 3 sends "
        "after its F chunk 7 microbatch 4"
        "\n  rank 3, operation 47, B chunk 7 microbatch 0: waits for message 0 of gradients 0 -> 3, which "
        "rank 0 sends "
        "after its B chunk 8 microbatch 0");
}

static void deadlocks(void)
{
    /* One buffer on each side, where a second chunk's messages must wait behind the first's. */
    struct schedule schedule;
    struct program p;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "interleaved-1f1b", 2, 2, 4, 4, &error), "%s", error.data);
    program_make(&p, &schedule, 1, 1, false);
    refused("too few buffers", &p,
        "deadlock with sends in the background: a cycle of 2 ranks, each waiting for the next"
        "\n  rank 0, operation 10, F chunk 2 microbatch 0: waits for send buffer 0: message 3 of activations "
        "0 -> 1 waits "
        "until rank 1 posts its receive, for its F chunk 1 microbatch 3"
        "\n  rank 1, operation 8, F chunk 1 microbatch 2: waits for send buffer 0: message 1 of activations "
        "1 -> 0 waits "
        "until rank 0 posts its receive, for its F chunk 2 microbatch 1");
    program_make(&p, &schedule, 2, 1, false);
    refused("too few buffers with overlap off", &p,
        "deadlock with each send waited for (overlap off): a cycle of 2 ranks, each waiting for the next"
        "\n  rank 0, operation 9, send of F chunk 0 microbatch 3: message 3 of activations 0 -> 1 waits "
        "until rank 1 posts "
        "its receive, for its F chunk 1 microbatch 3"
        "\n  rank 1, operation 7, send of F chunk 1 microbatch 1: message 1 of activations 1 -> 0 waits "
        "until rank 0 posts "
        "its receive, for its F chunk 2 microbatch 1");
    schedule_free(&schedule);
}

/* Rank 0 enqueues the receives of the first gradients only behind F chunk 2 microbatch 2. Were its host never
   blocked they would have been posted long before that compute could run; but a host blocked in that compute
   posts nothing, and rank 1 waits for it. */
static void a_host_may_be_blocked(void)
{
    struct compute first[] = { F(0, 0), F(0, 1), F(0, 2), F(2, 0), F(2, 1), F(2, 2), B(2, 0), B(2, 1),
        B(2, 2), B(0, 0), B(0, 1), B(0, 2) };
    struct compute second[] = { F(1, 0), F(3, 0), B(3, 0), F(1, 1), F(3, 1), B(3, 1), F(1, 2), F(3, 2),
        B(3, 2), B(1, 0), B(1, 1), B(1, 2) };
    int rank_of[] = { 0, 1, 0, 1 }, count[] = { 12, 12 };
    const struct schedule schedule = { 2, 4, 3, 0, rank_of, (struct compute *[]){ first, second }, count };
    struct program p;
    program_make(&p, &schedule, 1, 0, false);
    sound("receives first", p);
    program_make(&p, &schedule, 1, 0, false);
    for (int i = 0; i < 2; i++) {
        const struct operation moved = take_out(&p, 0, find(&p, 0, OPERATION_RECEIVE, B(2, i)));
        put_in(&p, 0, find(&p, 0, OPERATION_COMPUTE, B(2, 0)), moved);
    }
    refused("receive behind a compute that waits", &p,
        "deadlock with sends in the background: a cycle of 2 ranks, each waiting for the next"
        "\n  rank 0, operation 13, F chunk 2 microbatch 2: waits for message 2 of activations 1 -> 0, which "
        "rank 1 sends after its F chunk 1 microbatch 2"
        "\n  rank 1, operation 16, B chunk 3 microbatch 1: waits for send buffer 0: message 0 of gradients 1 "
        "-> "
        "0 waits until rank 0 posts its receive, for its B chunk 2 microbatch 0");
}

/* Two cycles at once: ranks 0, 1, 2, since chunk 3 comes before chunk 0; and ranks 3, 4, since chunk 6 comes
 * before chunk 4. */
static void the_shortest_cycle_is_shown(void)
{
    struct compute a[] = { F(3, 0), F(0, 0), B(3, 0), B(0, 0) }, b[] = { F(1, 0), B(1, 0) },
                   c[] = { F(2, 0), B(2, 0) };
    struct compute d[] = { F(6, 0), F(4, 0), B(6, 0), B(4, 0) }, e[] = { F(5, 0), B(5, 0) };
    int rank_of[] = { 0, 1, 2, 0, 3, 4, 3 }, count[] = { 4, 2, 2, 4, 2 };
    struct program p = by_hand(5, 7, rank_of, 1, (struct compute *[]){ a, b, c, d, e }, count);
    refused("two cycles", &p,
        "deadlock with sends in the background: a cycle of 2 ranks, each waiting for the next"
        "\n  rank 3, operation 3, F chunk 6 microbatch 0: waits for message 0 of activations 4 -> 3, which "
        "rank 4 sends "
        "after its F chunk 5 microbatch 0"
        "\n  rank 4, operation 2, F chunk 5 microbatch 0: waits for message 0 of activations 3 -> 4, which "
        "rank 3 sends "
        "after its F chunk 4 microbatch 0");
}

/* Of a sound program no operation is superfluous, and none can be done twice. */
static void every_operation_counts(const char *name, int p, int v, int m)
{
    struct program program = sound_program(name, p, v, m);
    struct text error = { 0 };
    for (int rank = 0; rank < p; rank++) {
        for (int i = 0; i < program.rank[rank].count; i++) {
            const struct operation operation = take_out(&program, rank, i);
            CHECK(!program_check(&program, &error), "%s p=%d v=%d m=%d: rank %d without operation %d passed",
                name, p, v, m, rank, i);
            put_in(&program, rank, i, operation);
            put_in(&program, rank, i, operation);
            CHECK(!program_check(&program, &error),
                "%s p=%d v=%d m=%d: rank %d with operation %d twice passed", name, p, v, m, rank, i);
            take_out(&program, rank, i);
            text_free(&error);
        }
    }
    CHECK(program_check(&program, &error), "%s", error.data);
    program_free(&program);
}

int main(void)
{
    the_true_cycle();
    deadlocks();
    a_host_may_be_blocked();
    the_shortest_cycle_is_shown();
    every_operation_counts("gpipe", 3, 1, 4);
    every_operation_counts("1f1b", 3, 1, 5);
    every_operation_counts("interleaved-1f1b", 1, 3, 3);
    every_operation_counts("interleaved-1f1b", 2, 2, 5);
    every_operation_counts("interleaved-1f1b", 3, 3, 4);
    every_operation_counts("looped-bfs", 2, 2, 3);
    every_operation_counts("zb-h1", 3, 1, 4);
    every_operation_counts("interleaved-zb", 2, 2, 5);
    every_operation_counts("zb-v", 3, 2, 4);
    return check_result();
}
