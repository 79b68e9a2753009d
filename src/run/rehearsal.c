#include "run/rehearsal.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { MAGIC = 0x504c5354 }; /* "PLST" */

struct rehearsal {
    struct worker worker; /* first: a struct worker * is a pointer to all of it */
    const struct program *program;
    const struct costs *costs;
    bool *splits; /* [chunks][microbatches] the gradient comes from an I, not from a B */
    struct rehearsed result;
};

/* --- stamps --- */

struct stamp stamp_of(int step, enum channel_kind direction, struct compute maker)
{
    return (struct stamp){ .magic = MAGIC,
        .step = step,
        .direction = (int32_t)direction,
        .kind = (int32_t)maker.kind,
        .chunk = maker.chunk,
        .microbatch = maker.microbatch };
}

static void add_stamp(struct text *out, const struct stamp *s)
{
    if (s->magic != MAGIC) {
        text_add(out, "no stamp (%08x)", s->magic);
        return;
    }
    const bool known = s->kind >= 0 && s->kind < COMPUTE_KINDS;
    text_add(out, "%s of %c chunk %d microbatch %d of step %d",
        s->direction == CHANNEL_ACTIVATION ? "activations" : "gradients",
        known ? compute_letter[s->kind] : '?', s->chunk, s->microbatch, s->step);
}

bool stamp_check(const struct stamp *expected, const void *message, struct text *error)
{
    struct stamp found;
    memcpy(&found, message, sizeof found);
    if (memcmp(&found, expected, sizeof found) == 0) return true;
    text_add(error, "expected ");
    add_stamp(error, expected);
    text_add(error, ", found ");
    add_stamp(error, &found);
    return false;
}

bool stamp_fits(size_t message_bytes, struct text *error)
{
    if (message_bytes >= sizeof(struct stamp)) return true;
    text_add(error,
        "run.device='rehearsal': a message of %zu bytes (4 * batch.microbatch_size * model.sequence * "
        "model.hidden) cannot hold the stamp of %zu; the nearest that can has %zu",
        message_bytes, sizeof(struct stamp), sizeof(struct stamp));
    return false;
}

/* --- actions --- */

static bool *split_at(const struct rehearsal *r, struct compute c)
{
    return &r->splits[(size_t)c.chunk * (size_t)r->program->microbatches + (size_t)c.microbatch];
}

/* The message that `user` reads: the output of the chunk before it, or for gradients of the one behind. */
static struct stamp expected_by(const struct rehearsal *r, int step, struct compute user)
{
    struct compute maker = user;
    if (user.kind == COMPUTE_F) {
        maker.chunk--;
        return stamp_of(step, CHANNEL_ACTIVATION, maker);
    }
    maker.chunk++;
    maker.kind = *split_at(r, maker) ? COMPUTE_I : COMPUTE_B;
    return stamp_of(step, CHANNEL_GRADIENT, maker);
}

static void check_message(struct rehearsal *r, int step, const struct operation *o, const float *message)
{
    const struct stamp expected = expected_by(r, step, o->compute);
    struct text text = { 0 };
    if (stamp_check(&expected, message, &text)) {
        r->result.right++;
        return;
    }
    if (r->result.wrong++ == 0) {
        const struct channel_plan *channel = &r->program->channels[o->input.channel];
        snprintf(r->result.first_wrong, sizeof r->result.first_wrong,
            "channel %d (%s, rank %d to rank %d): %s", o->input.channel,
            channel->kind == CHANNEL_ACTIVATION ? "activations" : "gradients", channel->from, channel->to,
            text.data);
    }
    text_free(&text);
}

static void wait_until(double deadline)
{
    const double whole = floor(deadline);
    const struct timespec at = { .tv_sec = (time_t)whole, .tv_nsec = (long)(1e9 * (deadline - whole)) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR) continue;
}

/* Every kind: the message is checked and made within the time that the action takes. */
static void rehearse(struct worker *worker, int step, const struct operation *o, float *input, float *output)
{
    struct rehearsal *r = (struct rehearsal *)worker;
    const double deadline = seconds_now() + r->costs->seconds[o->compute.kind][o->compute.chunk];
    if (input) check_message(r, step, o, input);
    if (output) {
        const struct stamp stamp = stamp_of(step, r->program->channels[o->output.channel].kind, o->compute);
        memcpy(output, &stamp, sizeof stamp);
    }
    wait_until(deadline);
}

static void begin_step(struct worker *worker, int step, const struct sink *sink)
{
    (void)worker;
    (void)step;
    (void)sink;
}

static float finish_step(struct worker *worker)
{
    (void)worker;
    return NAN;
}

static const struct tensor_digest *digests(const struct worker *worker, size_t *count)
{
    (void)worker;
    *count = 0;
    return NULL;
}

static void close_worker(struct worker *worker)
{
    free(((struct rehearsal *)worker)->splits);
    free(worker);
}

const struct rehearsed *rehearsal_result(const struct worker *worker)
{
    return &((const struct rehearsal *)worker)->result;
}

struct worker *rehearsal_create(const struct pipeline_request *request)
{
    struct rehearsal *r = allocate(1, sizeof *r);
    const struct program *program = request->program;
    r->worker = (struct worker){ .compute = { rehearse, rehearse, rehearse, rehearse },
        .begin = begin_step,
        .finish = finish_step,
        .digests = digests,
        .close = close_worker };
    r->program = program;
    r->costs = request->rehearsal;
    r->splits = allocate((size_t)program->chunks * (size_t)program->microbatches, sizeof *r->splits);
    for (int rank = 0; rank < program->ranks; rank++)
        for (int i = 0; i < program->rank[rank].count; i++) {
            const struct operation *o = &program->rank[rank].operations[i];
            if (o->kind == OPERATION_COMPUTE && o->compute.kind == COMPUTE_I) *split_at(r, o->compute) = true;
        }
    prctl(PR_SET_TIMERSLACK, 1000ul); /* nanoseconds; a wait ends up to 50 microseconds late by default */
    return &r->worker;
}
