/* The check of a program: a pass of its own, which trusts nothing that made the program. Each part relies on
   what the parts before it found: the places and channels, the computes, the memory of each rank in its
   program's order, the meeting of sends and receives, and last the absence of deadlock. */
#include "checker.h"
#include "deadlock.h"
#include <stdlib.h>

static bool refuse_channel(const struct program *program, int c, const char *why, struct text *error)
{
    char text[64];
    text_add(error, "channel %d, %s: %s", c, channel_text(&program->channels[c], text, sizeof text), why);
    return false;
}

static bool check_channels(const struct program *program, struct text *error)
{
    for (int c = 0; c < program->channel_count; c++) {
        const struct channel_plan *channel = &program->channels[c];
        if (channel->from < 0 || channel->from >= program->ranks || channel->to < 0 ||
            channel->to >= program->ranks)
            return refuse_channel(program, c, "there is no such rank", error);
        if (c > 0 && channel_order(channel - 1, channel) >= 0)
            return refuse_channel(program, c, "channels must be sorted by from, to, kind, and differ", error);
        if (channel->messages < 1) return refuse_channel(program, c, "carries no message", error);
        if (channel->receive_buffers < 1) return refuse_channel(program, c, "has no receive buffer", error);
        if (channel->local && channel->from != channel->to)
            return refuse_channel(program, c, "is local, and between two ranks", error);
        if (channel->local ? channel->send_buffers != 0 : channel->send_buffers < 1)
            return refuse_channel(
                program, c, "needs a send buffer if it is not local, and none if it is", error);
    }
    return true;
}

static bool check_places(const struct program *program, struct text *error)
{
    if (program->ranks < 1 || program->chunks < 1 || program->microbatches < 1) {
        text_add(error, "a program needs at least one rank, chunk and microbatch");
        return false;
    }
    for (int chunk = 0; chunk < program->chunks; chunk++) {
        if (program->rank_of[chunk] >= 0 && program->rank_of[chunk] < program->ranks) continue;
        text_add(error, "chunk %d is placed on rank %d: there are ranks 0 to %d", chunk,
            program->rank_of[chunk], program->ranks - 1);
        return false;
    }
    return true;
}

static bool check_wiring(const struct checker *check)
{
    for (enum compute_kind kind = COMPUTE_F; kind <= COMPUTE_B; kind++) {
        for (int chunk = 0; chunk < check->program->chunks; chunk++) {
            struct compute user;
            if (!output_user((struct compute){ kind, chunk, 0 }, check->program->chunks, &user)) continue;
            if (check->wiring.output[message_kind(kind)][chunk] >= 0) continue;
            text_add(check->error, "no channel takes the output of %c chunk %d from rank %d to rank %d",
                compute_letter[kind], chunk, check->program->rank_of[chunk],
                check->program->rank_of[user.chunk]);
            return false;
        }
    }
    return true;
}

/* Names that exist, in every operation. */
static bool check_operation_names(const struct checker *check)
{
    const struct program *program = check->program;
    for (int rank = 0; rank < program->ranks; rank++) {
        for (int i = 0; i < program->rank[rank].count; i++) {
            const struct operation *operation = &program->rank[rank].operations[i];
            const struct compute c = operation->compute;
            char text[64];
            compute_text(c, text, sizeof text);
            const char *wrong = NULL;
            if (operation->kind > OPERATION_SEND)
                wrong = "unknown kind of operation";
            else if (c.kind >= COMPUTE_KINDS)
                wrong = "a program consists of F, B, I and W";
            else if (c.chunk < 0 || c.chunk >= program->chunks)
                wrong = "there is no such chunk";
            else if (c.microbatch < 0 || c.microbatch >= program->microbatches)
                wrong = "there is no such microbatch";
            if (!wrong) continue;
            text_add(check->error, "rank %d, operation %d, %s: %s", rank, i, text, wrong);
            return false;
        }
    }
    return true;
}

/* Whether `compute` may come now, after the microbatches in last[]; the sums of the weight gradients and of
   the loss follow this order. */
static bool check_ascending(
    const struct checker *check, int rank, int position, struct compute compute, int *last)
{
    const bool loss = compute.kind == COMPUTE_F && compute.chunk == check->program->chunks - 1;
    if (compute.kind == COMPUTE_I || (compute.kind == COMPUTE_F && !loss)) return true;
    int *before = &last[compute.kind == COMPUTE_F ? check->program->chunks : compute.chunk];
    if (compute.microbatch < *before) {
        char text[64];
        text_add(check->error,
            "rank %d, operation %d, %s: comes after microbatch %d, but %s in ascending order", rank, position,
            compute_text(compute, text, sizeof text), *before,
            loss ? "the loss sums microbatches" : "a chunk's weight gradients sum microbatches");
        return false;
    }
    *before = compute.microbatch;
    return true;
}

/* What `compute` lacks or has too much of, after the computes in done[kind][pair]; NULL where it may come. */
static const char *wrong_now(bool *const *done, size_t pair, enum compute_kind kind)
{
    const bool backward = kind == COMPUTE_B || kind == COMPUTE_I;
    if (done[kind][pair]) return "for the second time";
    if (backward && !done[COMPUTE_F][pair]) return "its F has not run before it";
    if (backward && (done[COMPUTE_B][pair] || done[COMPUTE_I][pair]))
        return "a backward is either B, or I and W, and this one has had its other kind";
    if (kind == COMPUTE_W && !done[COMPUTE_I][pair]) return "its I has not run before it";
    return NULL;
}

/* Every F has its B, or its I and W. */
static bool check_missing(const struct checker *check, bool *const *done)
{
    const struct program *program = check->program;
    static const enum compute_kind kinds[] = { COMPUTE_F, COMPUTE_B, COMPUTE_W };
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        for (int chunk = 0; chunk < program->chunks; chunk++) {
            for (int i = 0; i < program->microbatches; i++) {
                const struct compute compute = { kinds[k], chunk, i };
                const size_t pair = pair_index(&check->wiring, compute);
                if (done[kinds[k]][pair] || (kinds[k] == COMPUTE_B && done[COMPUTE_I][pair]) ||
                    (kinds[k] == COMPUTE_W && done[COMPUTE_B][pair]))
                    continue;
                char text[64];
                text_add(check->error, "rank %d never runs %s", program->rank_of[chunk],
                    compute_text(compute, text, sizeof text));
                return false;
            }
        }
    }
    return true;
}

/* Each F, and its B or its I and W, once, on its rank, F before B or I before W, ascending where sums are
   made. Notes in the wiring which backwards are in halves. */
static bool check_computes(struct checker *check)
{
    const struct program *program = check->program;
    const size_t pairs = (size_t)program->chunks * (size_t)program->microbatches;
    bool *done[COMPUTE_KINDS];
    int *last =
        allocate((size_t)program->chunks + 1, sizeof *last); /* of each chunk's sums, and the loss's */
    bool fine = true;
    for (int chunk = 0; chunk <= program->chunks; chunk++) last[chunk] = -1;
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) done[kind] = allocate(pairs, sizeof(bool));
    for (int rank = 0; rank < program->ranks && fine; rank++) {
        for (int i = 0; i < program->rank[rank].count && fine; i++) {
            const struct operation *operation = &program->rank[rank].operations[i];
            if (operation->kind != OPERATION_COMPUTE) continue;
            const struct compute compute = operation->compute;
            const size_t pair = pair_index(&check->wiring, compute);
            const int holder = program->rank_of[compute.chunk];
            const char *wrong = wrong_now(done, pair, compute.kind);
            char text[64];
            compute_text(compute, text, sizeof text);
            fine = false;
            if (holder != rank)
                text_add(check->error, "rank %d, operation %d, %s: rank %d holds that chunk", rank, i, text,
                    holder);
            else if (wrong)
                text_add(check->error, "rank %d, operation %d, %s: %s", rank, i, text, wrong);
            else
                fine = check_ascending(check, rank, i, compute, last);
            done[compute.kind][pair] = true;
            wiring_note(&check->wiring, compute);
        }
    }
    fine = fine && check_missing(check, done);
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) free(done[kind]);
    free(last);
    return fine;
}

/* The k-th send on each channel carries what the k-th receive is posted for, and all messages are sent and
 * received. */
static bool check_meetings(const struct checker *check)
{
    const struct program *program = check->program;
    const size_t channels = (size_t)program->channel_count;
    struct compute **sent = allocate(channels, sizeof *sent);
    int *sends = allocate(channels, sizeof *sends), *receives = allocate(channels, sizeof *receives);
    bool fine = true;
    for (size_t c = 0; c < channels; c++)
        sent[c] = allocate((size_t)program->channels[c].messages, sizeof **sent);
    for (int pass = 0; pass < 2; pass++) { /* the sends of all ranks, then the receives */
        for (int rank = 0; rank < program->ranks && fine; rank++) {
            for (int i = 0; i < program->rank[rank].count && fine; i++) {
                const struct operation *o = &program->rank[rank].operations[i];
                if (o->kind == OPERATION_SEND && pass == 0) {
                    const int c = o->output.channel, k = sends[c]++;
                    if (k < program->channels[c].messages) sent[c][k] = o->compute;
                }
                if (o->kind != OPERATION_RECEIVE || pass == 0) continue;
                const int c = o->input.channel, k = receives[c]++;
                struct compute maker;
                input_maker(o->compute, program->chunks, &maker);
                if (k >= program->channels[c].messages || k >= sends[c] || same_output(sent[c][k], maker))
                    continue;
                char on[64], got[64], wanted[64];
                text_add(check->error,
                    "message %d of %s: rank %d sends the output of %s, but rank %d receives it for its %s", k,
                    channel_text(&program->channels[c], on, sizeof on), program->channels[c].from,
                    compute_text(sent[c][k], got, sizeof got), rank,
                    compute_text(o->compute, wanted, sizeof wanted));
                fine = false;
            }
        }
    }
    for (int c = 0; c < program->channel_count; c++) {
        const struct channel_plan *channel = &program->channels[c];
        const bool local = channel->local;
        const int handed_over = local ? check->hand_overs[c] : channel->messages;
        if (fine && !(handed_over == channel->messages &&
                        (local || (sends[c] == channel->messages && receives[c] == sends[c])))) {
            char on[64];
            text_add(check->error, "%s: %d messages are planned, %d sent, %d received",
                channel_text(channel, on, sizeof on), channel->messages, local ? handed_over : sends[c],
                local ? handed_over : receives[c]);
            fine = false;
        }
        free(sent[c]);
    }
    free(sent);
    free(sends);
    free(receives);
    return fine;
}

bool program_check(const struct program *program, struct text *error)
{
    if (!check_places(program, error) || !check_channels(program, error)) return false;
    struct checker check = { .program = program, .error = error };
    wiring_make(&check.wiring, program);
    check.hand_overs = allocate((size_t)program->channel_count, sizeof *check.hand_overs);
    const bool fine = check_wiring(&check) && check_operation_names(&check) && check_computes(&check) &&
                      check_memory(&check) && check_meetings(&check) && deadlock_check(program, error);
    wiring_free(&check.wiring);
    free(check.hand_overs);
    return fine;
}
