/* The check of a rehearsal's messages: one stamp is right, and any other is refused with both named. Through
   the worker itself: the right message of every action passes, a stale or swapped one is counted and reported
   once with its channel. */
#include "run/rehearsal.h"
#include "check.h"
#include <string.h>

static void refused(const struct stamp *expected, struct stamp found, const char *words)
{
    struct text error = { 0 };
    const bool good = stamp_check(expected, &found, &error);
    CHECK(!good && error.data && strstr(error.data, words), "expected '%s', got '%s'", words,
        good ? "right" : error.data);
    text_free(&error);
}

static void every_field_counts(void)
{
    const struct compute maker = { COMPUTE_F, 3, 5 };
    const struct stamp right = stamp_of(2, CHANNEL_ACTIVATION, maker);
    struct text error = { 0 };
    CHECK(stamp_check(&right, &right, &error) && !error.data, "the right stamp is refused: %s", error.data);

    refused(&right, stamp_of(1, CHANNEL_ACTIVATION, maker),
        "expected activations of F chunk 3 microbatch 5 of step 2, "
        "found activations of F chunk 3 microbatch 5 of step 1");
    refused(&right, stamp_of(2, CHANNEL_GRADIENT, maker), "found gradients of F chunk 3 microbatch 5");
    refused(&right, stamp_of(2, CHANNEL_ACTIVATION, (struct compute){ COMPUTE_I, 3, 5 }),
        "found activations of I chunk 3");
    refused(&right, stamp_of(2, CHANNEL_ACTIVATION, (struct compute){ COMPUTE_F, 4, 5 }),
        "found activations of F chunk 4");
    refused(
        &right, stamp_of(2, CHANNEL_ACTIVATION, (struct compute){ COMPUTE_F, 3, 6 }), "chunk 3 microbatch 6");
    refused(&right, (struct stamp){ 0 }, "found no stamp (00000000)");

    CHECK(stamp_fits(24, &error) && !error.data, "24 bytes do not hold a stamp");
    CHECK(!stamp_fits(20, &error) && strstr(error.data, "a message of 20 bytes"), "20 bytes hold a stamp");
    text_free(&error);
}

/* Runs every compute of every rank in an order in which messages are made before they are used, each channel
   buffer being one stamp; `spoil` changes one message on its way. */
enum { RANKS = 2, CHUNKS = 4, MICROBATCHES = 4 };
typedef void change(struct stamp *message);

static struct stamp message[2][CHUNKS][MICROBATCHES]; /* of F, of B or I: by their maker */

static struct stamp *input_of(struct compute c)
{
    const int at = c.chunk + (c.kind == COMPUTE_F ? -1 : 1);
    return c.kind == COMPUTE_W || at < 0 || at >= CHUNKS ? NULL
                                                         : &message[c.kind != COMPUTE_F][at][c.microbatch];
}

static bool done_before(bool done[COMPUTE_KINDS][CHUNKS][MICROBATCHES], struct compute c)
{
    if (c.kind == COMPUTE_F) return c.chunk == 0 || done[COMPUTE_F][c.chunk - 1][c.microbatch];
    if (c.kind == COMPUTE_W) return done[COMPUTE_I][c.chunk][c.microbatch];
    if (c.chunk == CHUNKS - 1) return done[COMPUTE_F][c.chunk][c.microbatch];
    return done[COMPUTE_B][c.chunk + 1][c.microbatch] || done[COMPUTE_I][c.chunk + 1][c.microbatch];
}

static void play(const char *schedule_name, change *spoil, struct rehearsed result[RANKS])
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    if (!schedule_make(&schedule, schedule_name, RANKS, CHUNKS / RANKS, MICROBATCHES, 0, &error))
        fail("%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    schedule_free(&schedule);
    const double seconds[CHUNKS] = { 0 };
    const struct costs costs = { .seconds = { seconds, seconds, seconds, seconds } };
    struct worker *worker[RANKS];
    for (int r = 0; r < RANKS; r++)
        worker[r] = rehearsal_create(
            &(struct pipeline_request){ .program = &program, .rank = r, .rehearsal = &costs });
    bool done[COMPUTE_KINDS][CHUNKS][MICROBATCHES] = { 0 };
    int at[RANKS] = { 0 };
    memset(message, 0, sizeof message);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < RANKS; r++) {
            if (at[r] == program.rank[r].count) continue;
            const struct operation *o = &program.rank[r].operations[at[r]];
            const struct compute c = o->compute;
            if (o->kind == OPERATION_COMPUTE) {
                if (!done_before(done, c)) continue;
                struct stamp *output =
                    o->output.channel < 0 ? NULL : &message[c.kind != COMPUTE_F][c.chunk][c.microbatch];
                worker[r]->compute[c.kind](worker[r], 1, o, (float *)input_of(c), (float *)output);
                if (spoil && output && c.chunk == 1 && c.microbatch == 2) spoil(output);
                done[c.kind][c.chunk][c.microbatch] = true;
            }
            at[r]++;
            moved = true;
        }
    }
    for (int r = 0; r < RANKS; r++) {
        CHECK(at[r] == program.rank[r].count, "%s: rank %d is stuck", schedule_name, r);
        result[r] = *rehearsal_result(worker[r]);
        worker[r]->close(worker[r]);
    }
    program_free(&program);
}

static void of_an_earlier_step(struct stamp *message_on_its_way)
{
    message_on_its_way->step--;
}

static void of_another_chunk(struct stamp *message_on_its_way)
{
    message_on_its_way->chunk += 2;
}

static void the_worker_checks(const char *schedule)
{
    struct rehearsed r[RANKS];
    /* (CHUNKS - 1) hand-overs each way of every microbatch. */
    const uint64_t all = 2 * (CHUNKS - 1) * MICROBATCHES;
    play(schedule, NULL, r);
    CHECK(r[0].right + r[1].right == all && r[0].wrong + r[1].wrong == 0, "%s: %d right, %d wrong", schedule,
        (int)(r[0].right + r[1].right), (int)(r[0].wrong + r[1].wrong));
    CHECK(!r[0].first_wrong[0] && !r[1].first_wrong[0], "%s: a wrong message is reported", schedule);

    play(schedule, of_an_earlier_step, r);
    CHECK(r[0].right + r[1].right == all - 2 && r[0].wrong + r[1].wrong == 2, "%s: %d right, %d wrong",
        schedule, (int)(r[0].right + r[1].right), (int)(r[0].wrong + r[1].wrong));
    const char *line = r[0].first_wrong[0] ? r[0].first_wrong : r[1].first_wrong;
    CHECK(strncmp(line, "channel ", 8) == 0 && strstr(line, "microbatch 2 of step 1, found") &&
              strstr(line, "of step 0"),
        "%s: the report is '%s'", schedule, line);

    play(schedule, of_another_chunk, r);
    CHECK(r[0].wrong + r[1].wrong == 2, "%s: %d wrong", schedule, (int)(r[0].wrong + r[1].wrong));
}

int main(void)
{
    every_field_counts();
    the_worker_checks("interleaved-1f1b"); /* gradients come from B */
    the_worker_checks("zb-v");             /* and from I; chunks handed over on their rank */
    return check_result();
}
