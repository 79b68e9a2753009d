/* The check refuses every kind of broken program, each for its own reason, with a counterexample in words.
   Each test breaks one thing in a sound program, or orders the computes by hand in a way that no generator
   does. */
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <string.h>

static struct compute F(int chunk, int microbatch) {
    return (struct compute){ COMPUTE_F, chunk, microbatch };
}

static struct compute
B(int chunk, int microbatch) {
    return (struct compute){ COMPUTE_B, chunk, microbatch };
}

static struct program
sound_program(const char *name, int p, int v, int m)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, name, p, v, m, 0, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 0);
    CHECK(program_check(&program, &error), "it is sound before it is broken: %s", error.data);
    schedule_free(&schedule);
    return program;
}

/* Where the rank does this to that compute. */
static int find(const struct program *program, int rank, enum operation_kind kind, struct compute compute)
{
    for (int i = 0; i < program->rank[rank].count; i++) {
        const struct operation *o = &program->rank[rank].operations[i];
        const bool same = o->compute.kind == compute.kind && o->compute.chunk == compute.chunk &&
                          o->compute.microbatch == compute.microbatch;
        if (o->kind == kind && same) return i;
    }
    CHECK(false, "rank %d has no such operation", rank);
    return 0;
}

static struct operation *get(
    const struct program *program, int rank, enum operation_kind kind, struct compute compute)
{
    return &program->rank[rank].operations[find(program, rank, kind, compute)];
}

static struct operation take_out(struct program *program, int rank, int at)
{
    struct rank_program *r = &program->rank[rank];
    const struct operation taken = r->operations[at];
    memmove(&r->operations[at], &r->operations[at + 1], (size_t)(r->count - at - 1) * sizeof taken);
    r->count--;
    return taken;
}

static void put_in(struct program *program, int rank, int at, struct operation operation)
{
    struct rank_program *r = &program->rank[rank];
    r->operations = realloc(r->operations, (size_t)(r->count + 1) * sizeof operation);
    memmove(&r->operations[at + 1], &r->operations[at], (size_t)(r->count - at) * sizeof operation);
    r->operations[at] = operation;
    r->count++;
}

/* The program is refused, and with these words; then it is freed. */
static void refused(const char *what, struct program *program, const char *expected)
{
    struct text error = { 0 };
    const bool sound = program_check(program, &error);
    CHECK(!sound, "%s: passed", what);
    CHECK(error.data && !strcmp(error.data, expected), "%s: '%s' is not '%s'", what, error.data, expected);
    text_free(&error);
    program_free(program);
}

static void computes(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, B(1, 2)));
    refused("missing B", &p, "rank 1 never runs B chunk 1 microbatch 2");

    p = sound_program("1f1b", 2, 1, 4);
    put_in(&p, 0, p.rank[0].count, *get(&p, 0, OPERATION_COMPUTE, F(0, 1)));
    refused("duplicate F", &p, "rank 0, operation 16, F chunk 0 microbatch 1: for the second time");

    p = sound_program("gpipe", 2, 1, 3);
    put_in(&p, 1, 0, take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, B(1, 0))));
    refused("B before F", &p, "rank 1, operation 0, B chunk 1 microbatch 0: its F has not run before it");

    p = sound_program("1f1b", 2, 1, 4);
    put_in(&p, 0, 0, take_out(&p, 1, find(&p, 1, OPERATION_COMPUTE, F(1, 0))));
    refused("compute on another rank", &p,
        "rank 0, operation 0, F chunk 1 microbatch 0: rank 1 holds that chunk");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 3))->compute.microbatch = 4;
    refused("compute that is not", &p,
        "rank 0, operation 15, B chunk 0 microbatch 4: there is no such microbatch");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 3))->compute.kind = COMPUTE_W;
    refused(
        "half a backward", &p, "rank 0, operation 15, W chunk 0 microbatch 3: a program consists of F and B");
}

/* A schedule by hand, lowered. */
static struct program by_hand(int p, int chunks, int *rank_of, int m, struct compute **order, int *count)
{
    const struct schedule schedule = { p, chunks, m, 0, rank_of, order, count };
    struct program program;
    program_make(&program, &schedule, 2, 0);
    return program;
}

static void orders_of_sums(void)
{
    struct compute descending[] = { F(0, 0), F(0, 1), B(0, 1), B(0, 0) };
    struct compute loss_descending[] = { F(0, 1), F(0, 0), B(0, 0), B(0, 1) };
    int count[] = { 4 }, rank_of[] = { 0 };
    struct program p = by_hand(1, 1, rank_of, 2, (struct compute *[]){ descending }, count);
    refused("descending backwards", &p,
        "rank 0, operation 3, B chunk 0 microbatch 0: comes after microbatch 1, but a chunk's weight "
        "gradients sum "
        "microbatches in ascending order");
    p = by_hand(1, 1, rank_of, 2, (struct compute *[]){ loss_descending }, count);
    refused("descending losses", &p,
        "rank 0, operation 1, F chunk 0 microbatch 0: comes after microbatch 1, but the loss sums "
        "microbatches in "
        "ascending order");
}

static void transfers(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    struct operation *a = get(&p, 1, OPERATION_RECEIVE, F(1, 0)), *b = get(&p, 1, OPERATION_RECEIVE, F(1, 1)),
                     swap = *a;
    *a = *b;
    *b = swap;
    refused("swapped receives", &p,
        "message 0 of activations 0 -> 1: rank 0 sends the output of F chunk 0 microbatch 0, but rank 1 "
        "receives it "
        "for its F chunk 1 microbatch 1");

    p = sound_program("1f1b", 2, 1, 4);
    take_out(&p, 0, find(&p, 0, OPERATION_RECEIVE, B(0, 0)));
    refused("missing receive", &p,
        "rank 0, operation 5, B chunk 0 microbatch 0: receive buffer 0 of gradients 1 -> 0 is empty: nothing "
        "before "
        "it provides its input");

    p = sound_program("1f1b", 2, 1, 4);
    const int last_send = find(&p, 0, OPERATION_SEND, F(0, 3));
    take_out(&p, 0, last_send);
    refused("missing send", &p,
        "rank 0, at the end: send buffer 1 of activations 0 -> 1 still holds the unsent output of F chunk 0 "
        "microbatch 3");

    p = sound_program("1f1b", 2, 1, 4);
    put_in(&p, 0, last_send, p.rank[0].operations[last_send]);
    refused("doubled send", &p,
        "rank 0, operation 14, send of F chunk 0 microbatch 3: send buffer 1 of activations 0 -> 1 holds "
        "nothing to send");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[0].messages = 5;
    refused("messages miscounted", &p, "activations 0 -> 1: 5 messages are planned, 4 sent, 4 received");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 1, OPERATION_SEND, B(1, 0))->compute = F(1, 0);
    refused("send of what stays", &p,
        "rank 1, operation 5, send of F chunk 1 microbatch 0: this rank has no such message to send");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_RECEIVE, B(0, 0))->compute = F(0, 0);
    refused("receive of what is not sent", &p,
        "rank 0, operation 0, receive for F chunk 0 microbatch 0: nothing is sent to this rank for that");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 1, OPERATION_COMPUTE, F(1, 2))->input.channel = 1;
    refused("input from the wrong channel", &p,
        "rank 1, operation 10, F chunk 1 microbatch 2: its input is on channel 1, but the placement has it "
        "on 0 "
        "(activations 0 -> 1)");
}

static void memory(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    const int use = find(&p, 1, OPERATION_COMPUTE, F(1, 2));
    struct operation moved = take_out(&p, 1, find(&p, 1, OPERATION_RECEIVE, F(1, 2)));
    put_in(&p, 1, use, moved);
    refused("receive behind its compute", &p,
        "rank 1, operation 9, F chunk 1 microbatch 2: receive buffer 0 of activations 0 -> 1 is empty: "
        "nothing before "
        "it provides its input");

    p = sound_program("1f1b", 2, 1, 4);
    moved = take_out(&p, 1, find(&p, 1, OPERATION_RECEIVE, F(1, 2)));
    put_in(&p, 1, find(&p, 1, OPERATION_COMPUTE, F(1, 0)), moved);
    refused("receive before its buffer is free", &p,
        "rank 1, operation 2, receive for F chunk 1 microbatch 2: receive buffer 0 of activations 0 -> 1 is "
        "still to be "
        "read by F chunk 1 microbatch 0");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 1, OPERATION_COMPUTE, F(1, 1))->input.buffer = 0;
    refused("input in another buffer", &p,
        "rank 1, operation 6, F chunk 1 microbatch 1: receive buffer 0 of activations 0 -> 1 is not its "
        "input, but that "
        "of F chunk 1 microbatch 2");

    p = sound_program("gpipe", 2, 1, 4);
    moved = take_out(&p, 0, find(&p, 0, OPERATION_SEND, F(0, 0)));
    put_in(&p, 0, find(&p, 0, OPERATION_COMPUTE, F(0, 2)) + 1, moved);
    refused("two computes share a live buffer", &p,
        "rank 0, operation 5, F chunk 0 microbatch 2: send buffer 0 of activations 0 -> 1 still holds the "
        "unsent output "
        "of F chunk 0 microbatch 0");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, F(0, 1))->output.buffer = 2;
    refused("buffer that is not", &p,
        "rank 0, operation 4, F chunk 0 microbatch 1: send buffer 2 of activations 0 -> 1 does not exist: "
        "there are 2");

    p = sound_program("interleaved-1f1b", 1, 3, 2);
    const int other = get(&p, 0, OPERATION_COMPUTE, F(0, 0))->output.buffer;
    get(&p, 0, OPERATION_COMPUTE, F(1, 0))->output.buffer = other;
    refused("a local hand-over over its own input", &p,
        "rank 0, operation 1, F chunk 1 microbatch 0: receive buffer 0 of activations 0 -> 0 still holds the "
        "input of "
        "F chunk 1 microbatch 0");

    p = sound_program("1f1b", 2, 1, 4);
    p.rank[0].slots--;
    refused("one slot too few", &p,
        "rank 0, operation 4, F chunk 0 microbatch 1: slot 1 does not exist: the rank has 1");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, F(0, 1))->slot = 0;
    refused("slot reused while live", &p,
        "rank 0, operation 4, F chunk 0 microbatch 1: slot 0 holds F chunk 0 microbatch 0 until its B");

    p = sound_program("gpipe", 2, 1, 3);
    get(&p, 0, OPERATION_COMPUTE, B(0, 1))->slot = 0;
    refused(
        "B of a slot that was emptied", &p, "rank 0, operation 10, B chunk 0 microbatch 1: slot 0 is empty");

    p = sound_program("1f1b", 2, 1, 4);
    get(&p, 0, OPERATION_COMPUTE, B(0, 0))->slot = 1;
    refused("B of another slot", &p,
        "rank 0, operation 6, B chunk 0 microbatch 0: slot 1 holds F chunk 0 microbatch 1 until its B");
}

static void channels(void)
{
    struct program p = sound_program("1f1b", 2, 1, 4);
    p.rank_of[1] = 2;
    refused("chunk without a rank", &p, "chunk 1 is placed on rank 2: there are ranks 0 to 1");

    p = sound_program("1f1b", 2, 1, 4);
    p.channel_count = 1;
    refused("missing channel", &p, "no channel takes the output of B chunk 1 from rank 1 to rank 0");

    p = sound_program("1f1b", 2, 1, 4);
    const struct channel_plan first = p.channels[0];
    p.channels[0] = p.channels[1];
    p.channels[1] = first;
    refused("channels out of order", &p,
        "channel 1, activations 0 -> 1: channels must be sorted by from, to, kind, and differ");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[1].messages = 0;
    refused("idle channel", &p, "channel 1, gradients 1 -> 0: carries no message");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[1].receive_buffers = 0;
    refused("no receive buffer", &p, "channel 1, gradients 1 -> 0: has no receive buffer");

    p = sound_program("1f1b", 2, 1, 4);
    p.channels[0].to = 0;
    refused("send buffers on a local channel", &p,
        "channel 0, activations 0 -> 0: needs a send buffer if it is not local, and none if it is");
}

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
    program_make(&p, &schedule, 1, 1);
    refused("too few buffers", &p,
        "deadlock with sends in the background: a cycle of 2 ranks, each waiting for the next"
        "\n  rank 0, operation 10, F chunk 2 microbatch 0: waits for send buffer 0: message 3 of activations "
        "0 -> 1 waits "
        "until rank 1 posts its receive, for its F chunk 1 microbatch 3"
        "\n  rank 1, operation 8, F chunk 1 microbatch 2: waits for send buffer 0: message 1 of activations "
        "1 -> 0 waits "
        "until rank 0 posts its receive, for its F chunk 2 microbatch 1");
    program_make(&p, &schedule, 2, 1);
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
    computes();
    orders_of_sums();
    transfers();
    memory();
    channels();
    the_true_cycle();
    deadlocks();
    the_shortest_cycle_is_shown();
    every_operation_counts("gpipe", 3, 1, 4);
    every_operation_counts("1f1b", 3, 1, 5);
    every_operation_counts("interleaved-1f1b", 1, 3, 3);
    every_operation_counts("interleaved-1f1b", 2, 2, 5);
    every_operation_counts("interleaved-1f1b", 3, 3, 4);
    return check_result();
}
