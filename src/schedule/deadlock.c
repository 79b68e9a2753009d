/* Deadlocks: does the program end, and if not, who waits for whom? A stalled rank waits for exactly one other
   (the sender of the input that it lacks, or the receiver of what it has to send), so that the waits form
   cycles with trees that lead into them; a tree explains nothing that its cycle does not. */
#include "deadlock.h"
#include <stdlib.h>

static int waits_for(const struct execution *e, int rank)
{
    const struct channel_plan *channel = &e->program->channels[e->channel[rank]];
    return channel->to == rank ? channel->from : channel->to;
}

/* A rank of the shortest cycle, *length the number of its ranks. Every wait is for a rank that waits too: a
   rank at its end has sent and received all, as the counts of the channels were checked. */
static int shortest_cycle(const struct execution *e, int *length)
{
    const int ranks = e->program->ranks;
    int *seen_from = allocate((size_t)ranks, sizeof *seen_from); /* 1 + the walk's first rank; 0 unseen */
    int *step = allocate((size_t)ranks, sizeof *step);
    int best = -1;
    for (int first = 0; first < ranks; first++) {
        int rank = first, steps = 0;
        while (e->channel[rank] >= 0 && !seen_from[rank]) {
            seen_from[rank] = first + 1;
            step[rank] = steps++;
            rank = waits_for(e, rank);
        }
        if (seen_from[rank] != first + 1) continue;
        const int found = steps - step[rank];
        if (best >= 0 && found >= *length) continue;
        best = rank;
        *length = found;
    }
    free(seen_from);
    free(step);
    return best;
}

/* The rank's k-th operation of a kind on a channel. */
static struct compute nth_on_channel(
    const struct rank_program *rank, enum operation_kind kind, int channel, int k)
{
    for (int i = 0; i < rank->count; i++) {
        const struct operation *operation = &rank->operations[i];
        const int on = kind == OPERATION_SEND ? operation->output.channel : operation->input.channel;
        if (operation->kind == kind && on == channel && k-- == 0) return operation->compute;
    }
    return (struct compute){ COMPUTE_F, -1, -1 }; /* not reached: the counts were checked */
}

static void explain_wait(const struct execution *e, int rank, struct text *error)
{
    const struct program *program = e->program;
    const int c = e->channel[rank], k = e->message[rank], other = waits_for(e, rank);
    const struct channel_plan *channel = &program->channels[c];
    const struct operation *operation = &program->rank[rank].operations[e->position[rank]];
    char compute[64], on[64], wanted[64];
    compute_text(operation->compute, compute, sizeof compute);
    channel_text(channel, on, sizeof on);
    text_add(error, "\n  rank %d, operation %d, ", rank, e->position[rank]);
    if (channel->to == rank) {
        compute_text(nth_on_channel(&program->rank[other], OPERATION_SEND, c, k), wanted, sizeof wanted);
        text_add(error, "%s: waits for message %d of %s, which rank %d sends after its %s", compute, k, on,
            other, wanted);
        return;
    }
    compute_text(nth_on_channel(&program->rank[other], OPERATION_RECEIVE, c, k), wanted, sizeof wanted);
    if (operation->kind == OPERATION_SEND)
        text_add(error, "send of %s", compute);
    else
        text_add(error, "%s: waits for send buffer %d", compute, operation->output.buffer);
    text_add(
        error, ": message %d of %s waits until rank %d posts its receive, for its %s", k, on, other, wanted);
}

static bool ends(
    const struct program *program, bool blocking_sends, const struct costs *costs, struct text *error)
{
    struct execution execution;
    const bool ended = execution_run(&execution, program, blocking_sends, costs, NULL, NULL);
    if (!ended) {
        int length = 0;
        int rank = shortest_cycle(&execution, &length);
        text_add(error, "deadlock with %s: a cycle of %d ranks, each waiting for the next",
            blocking_sends ? "each send waited for (overlap off)" : "sends in the background", length);
        for (int i = 0; i < length; i++, rank = waits_for(&execution, rank))
            explain_wait(&execution, rank, error);
    }
    execution_free(&execution);
    return ended;
}

bool deadlock_check(const struct program *program, struct text *error)
{
    double *no_cost = allocate((size_t)program->chunks, sizeof *no_cost);
    const struct costs costs = { .seconds = { no_cost, no_cost, no_cost, no_cost } };
    const bool fine = ends(program, false, &costs, error) && ends(program, true, &costs, error);
    free(no_cost);
    return fine;
}
