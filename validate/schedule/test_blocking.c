/* A host that enqueues its rank's program may be blocked in any call, on a full launch queue. This model of
   one knows nothing of the check's own execution: operations are enqueued in the program's order, and run on
   their streams (one for the computes, one a channel) as soon as what they need is done. A checked program
   ends wherever the hosts are blocked; one that is refused for a deadlock of blocked hosts does stall so, but
   ends where no host is ever blocked. */
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <string.h>

enum state { ABSENT, ENQUEUED, STARTED, DONE };

/* What an operation must find done on its rank before it starts: indices into the rank's program; -1 none. */
struct needs {
    int stream; /* the one before it on its stream */
    int input, output;
    int number; /* of a transfer: its message on the channel */
};

struct machine {
    const struct program *program;
    struct needs **needs; /* [ranks][operations] */
    enum state **state;
    bool **blocking; /* [ranks][operations] the host leaves the call only when the operation is under way */
    int **sender, **receiver; /* [channels][messages] index of the transfer in its rank's program */
};

static bool touches(struct endpoint a, struct endpoint b)
{
    return a.channel >= 0 && a.channel == b.channel && a.buffer == b.buffer;
}

/* The last operation of that kind before `at` on that buffer. */
static int last_before(
    const struct rank_program *rank, int at, enum operation_kind kind, bool input, struct endpoint where)
{
    for (int i = at - 1; i >= 0; i--) {
        const struct operation *o = &rank->operations[i];
        if (o->kind == kind && touches(input ? o->input : o->output, where)) return i;
    }
    return -1;
}

static struct needs needs_of(const struct rank_program *rank, int at)
{
    const struct operation *o = &rank->operations[at];
    struct needs needs = { -1, -1, -1, 0 };
    const int channel = o->kind == OPERATION_RECEIVE ? o->input.channel : o->output.channel;
    for (int i = 0; i < at; i++) {
        const struct operation *before = &rank->operations[i];
        const int on = before->kind == OPERATION_RECEIVE ? before->input.channel : before->output.channel;
        if (before->kind != o->kind || (o->kind != OPERATION_COMPUTE && on != channel)) continue;
        needs.stream = i;
        needs.number++;
    }
    if (o->kind == OPERATION_COMPUTE) {
        needs.input = last_before(rank, at, OPERATION_RECEIVE, true, o->input);
        needs.output = last_before(rank, at, OPERATION_SEND, false, o->output);
    } else if (o->kind == OPERATION_RECEIVE) {
        needs.input = last_before(rank, at, OPERATION_COMPUTE, true, o->input);
    } else {
        needs.output = last_before(rank, at, OPERATION_COMPUTE, false, o->output);
    }
    return needs;
}

static void machine_make(struct machine *machine, const struct program *program)
{
    const size_t ranks = (size_t)program->ranks, channels = (size_t)program->channel_count;
    *machine = (struct machine){ program, allocate(ranks, sizeof(void *)), allocate(ranks, sizeof(void *)),
        allocate(ranks, sizeof(void *)), allocate(channels, sizeof(void *)),
        allocate(channels, sizeof(void *)) };
    for (size_t c = 0; c < channels; c++) {
        machine->sender[c] = allocate((size_t)program->channels[c].messages, sizeof(int));
        machine->receiver[c] = allocate((size_t)program->channels[c].messages, sizeof(int));
    }
    for (int r = 0; r < program->ranks; r++) {
        const struct rank_program *rank = &program->rank[r];
        machine->needs[r] = allocate((size_t)rank->count, sizeof(struct needs));
        machine->state[r] = allocate((size_t)rank->count, sizeof(enum state));
        machine->blocking[r] = allocate((size_t)rank->count, sizeof(bool));
        for (int i = 0; i < rank->count; i++) {
            const struct operation *o = &rank->operations[i];
            const struct needs needs = machine->needs[r][i] = needs_of(rank, i);
            if (o->kind == OPERATION_SEND) machine->sender[o->output.channel][needs.number] = i;
            if (o->kind == OPERATION_RECEIVE) machine->receiver[o->input.channel][needs.number] = i;
        }
    }
}

static void machine_free(struct machine *machine)
{
    for (int r = 0; r < machine->program->ranks; r++) {
        free(machine->needs[r]);
        free(machine->state[r]);
        free(machine->blocking[r]);
    }
    for (int c = 0; c < machine->program->channel_count; c++) {
        free(machine->sender[c]);
        free(machine->receiver[c]);
    }
    free(machine->needs);
    free(machine->state);
    free(machine->blocking);
    free(machine->sender);
    free(machine->receiver);
}

/* Whether the host leaves the call: a compute or a send when it is done, a receive when it is posted. */
static bool left(const struct machine *machine, int rank, int i)
{
    const enum state state = machine->state[rank][i];
    if (!machine->blocking[rank][i]) return true;
    return machine->program->rank[rank].operations[i].kind == OPERATION_RECEIVE ? state >= STARTED
                                                                                : state == DONE;
}

static bool done(const struct machine *machine, int rank, int i)
{
    return i < 0 || machine->state[rank][i] == DONE;
}

/* Takes an operation one state on, if it can go. */
static bool advance(struct machine *machine, int rank, int i)
{
    const struct operation *o = &machine->program->rank[rank].operations[i];
    const struct needs needs = machine->needs[rank][i];
    enum state *state = &machine->state[rank][i];
    if (*state == ABSENT) {
        if (i > 0 && (machine->state[rank][i - 1] == ABSENT || !left(machine, rank, i - 1))) return false;
        *state = ENQUEUED;
        return true;
    }
    if (*state == ENQUEUED) {
        const bool in_turn = o->kind == OPERATION_COMPUTE ? done(machine, rank, needs.stream)
                             : needs.stream < 0           ? true
                                                          : machine->state[rank][needs.stream] >= STARTED;
        if (!in_turn || !done(machine, rank, needs.input) || !done(machine, rank, needs.output)) return false;
        *state = o->kind == OPERATION_COMPUTE ? DONE : STARTED;
        return true;
    }
    if (*state == DONE || o->kind != OPERATION_SEND) return false;
    const int c = o->output.channel, other = machine->program->channels[c].to;
    const int receive = machine->receiver[c][needs.number];
    if (machine->state[other][receive] != STARTED) return false;
    *state = machine->state[other][receive] = DONE;
    return true;
}

static bool ends(struct machine *machine)
{
    const struct program *program = machine->program;
    bool all = false;
    for (bool moved = true; moved;) {
        moved = false;
        all = true;
        for (int r = 0; r < program->ranks; r++) {
            for (int i = 0; i < program->rank[r].count; i++) {
                while (advance(machine, r, i)) moved = true;
                all = all && machine->state[r][i] == DONE;
            }
        }
    }
    for (int r = 0; r < program->ranks; r++)
        memset(machine->state[r], 0, (size_t)program->rank[r].count * sizeof(enum state));
    return all;
}

/* Blocks the hosts in `percent` of all calls; `computes_only`: in none of the sends and receives. */
static void block(struct machine *machine, int percent, bool computes_only)
{
    for (int r = 0; r < machine->program->ranks; r++)
        for (int i = 0; i < machine->program->rank[r].count; i++)
            machine->blocking[r][i] =
                rand() % 100 < percent &&
                (!computes_only || machine->program->rank[r].operations[i].kind == OPERATION_COMPUTE);
}

static void checked_programs_end(const char *name, int p, int v, int m)
{
    struct schedule schedule;
    struct program program;
    struct machine machine;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, name, p, v, m, 0, &error), "%s", error.data);
    for (int send_buffers = 1; send_buffers <= 2; send_buffers++) {
        program_make(&program, &schedule, send_buffers, 0, false);
        CHECK(program_check(&program, &error), "%s", error.data);
        machine_make(&machine, &program);
        static const int percents[] = { 0, 100, 5, 20, 50, 80 };
        for (size_t k = 0; k < sizeof percents / sizeof *percents; k++) {
            block(&machine, percents[k], false);
            CHECK(ends(&machine), "%s p=%d v=%d m=%d, hosts blocked in %d %% of their calls", name, p, v, m,
                percents[k]);
        }
        machine_free(&machine);
        program_free(&program);
    }
    schedule_free(&schedule);
}

/* Interleaved, p=2, v=2, m=4, one group of 4, one receive buffer a channel: sends of which each is waited for
   block one another. */
static void a_host_blocked_in_its_sends_stalls(void)
{
    struct schedule schedule;
    struct program program;
    struct machine machine;
    struct text error = { 0 };
    CHECK(schedule_make(&schedule, "interleaved-1f1b", 2, 2, 4, 4, &error), "%s", error.data);
    program_make(&program, &schedule, 2, 1, false);
    CHECK(!program_check(&program, &error), "it passed");
    machine_make(&machine, &program);
    CHECK(ends(&machine), "it ends where no host is blocked");
    block(&machine, 100, true);
    CHECK(ends(&machine), "it ends where hosts are blocked in computes alone");
    block(&machine, 100, false);
    CHECK(!ends(&machine), "it stalls where they are blocked in sends too");
    machine_free(&machine);
    program_free(&program);
    schedule_free(&schedule);
    text_free(&error);
}

/* The receives of the first gradients are enqueued behind a compute that waits for what rank 1 does once they
   are gone. */
static void a_receive_behind_a_blocked_compute_stalls(void)
{
    static struct compute first[] = { { COMPUTE_F, 0, 0 }, { COMPUTE_F, 0, 1 }, { COMPUTE_F, 0, 2 },
        { COMPUTE_F, 2, 0 }, { COMPUTE_F, 2, 1 }, { COMPUTE_F, 2, 2 }, { COMPUTE_B, 2, 0 },
        { COMPUTE_B, 2, 1 }, { COMPUTE_B, 2, 2 }, { COMPUTE_B, 0, 0 }, { COMPUTE_B, 0, 1 },
        { COMPUTE_B, 0, 2 } };
    static struct compute second[] = { { COMPUTE_F, 1, 0 }, { COMPUTE_F, 3, 0 }, { COMPUTE_B, 3, 0 },
        { COMPUTE_F, 1, 1 }, { COMPUTE_F, 3, 1 }, { COMPUTE_B, 3, 1 }, { COMPUTE_F, 1, 2 },
        { COMPUTE_F, 3, 2 }, { COMPUTE_B, 3, 2 }, { COMPUTE_B, 1, 0 }, { COMPUTE_B, 1, 1 },
        { COMPUTE_B, 1, 2 } };
    int rank_of[] = { 0, 1, 0, 1 }, count[] = { 12, 12 };
    const struct schedule schedule = { 2, 4, 3, 0, rank_of, (struct compute *[]){ first, second }, count };
    struct program program;
    struct machine machine;
    struct text error = { 0 };
    program_make(&program, &schedule, 1, 0, false);
    struct operation *operations = program.rank[0].operations, delayed[3];
    int count_delayed = 0, kept = 0;
    for (int i = 0; i < program.rank[0].count; i++) {
        const struct operation o = operations[i];
        const bool backward = o.compute.kind == COMPUTE_B && o.compute.chunk == 2;
        if (backward && o.kind == OPERATION_RECEIVE) {
            delayed[count_delayed++] = o;
            continue;
        }
        if (backward && o.kind == OPERATION_COMPUTE)
            for (int k = 0; k < count_delayed; k++) operations[kept++] = delayed[k];
        if (backward && o.kind == OPERATION_COMPUTE) count_delayed = 0;
        operations[kept++] = o;
    }
    CHECK(!program_check(&program, &error), "it passed");
    machine_make(&machine, &program);
    CHECK(ends(&machine), "it ends where no host is blocked");
    block(&machine, 100, true);
    CHECK(!ends(&machine), "it stalls where hosts are blocked in computes");
    machine_free(&machine);
    program_free(&program);
    text_free(&error);
}

int main(void)
{
    srand(1);
    for (const char *const *name = schedule_names; *name; name++) {
        const int chunks = schedule_traits(*name).chunks_per_rank;
        for (int p = 1; p <= 4; p++)
            for (int v = chunks ? chunks : 1; v <= (chunks ? chunks : 3); v++)
                for (int m = 1; m <= 2 * p + 1; m++) checked_programs_end(*name, p, v, m);
    }
    a_host_blocked_in_its_sends_stalls();
    a_receive_behind_a_blocked_compute_stalls();
    return check_result();
}
