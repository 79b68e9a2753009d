/* What `plan --from` takes from a run's files: two ranks' files made up, with times that are known. */
#include "report/timings.h"
#include "../check.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 4, MICROBATCHES = 3 }; /* steps: warm-up, two timed, the recorded one */

static const struct model model = { .layers = 2,
    .hidden = 8,
    .heads = 2,
    .ffn = 16,
    .sequence = 4,
    .microbatches = MICROBATCHES,
    .microbatch_size = 1,
    .seed = 7 };

/* Seconds of a chunk's action in a step: F 2, 3; B 7, 5, so that only the first of each waits; twice that in
   the warm-up, and the timed steps a quarter second below and above. */
static double takes(int kind, int chunk, int step)
{
    const double mean = kind == COMPUTE_F ? 2 + chunk : 7 - 2 * chunk;
    return step == 1 ? 2 * mean : step == 2 ? mean - 0.25 : step == 3 ? mean + 0.25 : 9 * mean;
}

/* GPipe over two ranks; activations take half of `hop` seconds, gradients one and a half. */
static void make_run(const char *directory, const char *run_id_1, const char *host_1, double hop, bool splits)
{
    struct action_record action[2][STEPS * MICROBATCHES * 3];
    struct step_record record[2][STEPS];
    size_t count[2] = { 0 };
    double now[2] = { 100, 100 };
    memset(record, 0, sizeof record);
    for (int step = 1; step <= STEPS; step++) {
        const double begin = fmax(now[0], now[1]) + 1;
        double end[2][2][MICROBATCHES] = { 0 };
        now[0] = now[1] = begin;
        for (int pass = 0; pass < 2; pass++) { /* forwards, then backwards from the last chunk on */
            for (int c = 0; c < 2; c++) {
                const int rank = pass == 0 ? c : 1 - c;
                for (int i = 0; i < MICROBATCHES; i++) {
                    const int parts = pass == 1 && splits ? 2 : 1;
                    for (int part = 0; part < parts; part++) {
                        const int kind = pass == 0   ? COMPUTE_F
                                         : !splits   ? COMPUTE_B
                                         : part == 0 ? COMPUTE_I
                                                     : COMPUTE_W;
                        const double arrives =
                            c == 0 || part == 1 ? 0 : end[pass][1 - rank][i] + (pass + 0.5) * hop;
                        const double start = fmax(now[rank], arrives);
                        struct action_record *a = &action[rank][count[rank]++];
                        *a = (struct action_record){ .step = step,
                            .kind = kind,
                            .chunk = rank,
                            .microbatch = i,
                            .start = start,
                            .waited = start - now[rank],
                            .end = start + takes(pass == 0 ? COMPUTE_F : COMPUTE_B, rank, step) / parts };
                        now[rank] = a->end;
                        if (part == 0) end[pass][rank][i] = a->end;
                    }
                }
            }
        }
        for (int rank = 0; rank < 2; rank++)
            record[rank][step - 1] = (struct step_record){
                .step = step, .timed = step == 2 || step == 3, .start = begin, .seconds = 41 + step - rank
            }; /* the slower is rank 0 */
    }
    mkdir(directory, 0777);
    for (int rank = 0; rank < 2; rank++) {
        const struct facts facts = { .kind = "run",
            .run_id = rank ? run_id_1 : "run-a",
            .identity = "0",
            .deck = "&model layers=2 /\n",
            .deck_sha256 = "0",
            .host = rank ? host_1 : "here",
            .device = "",
            .device_uuid = "",
            .cpus = "",
            .compiler = "",
            .libraries = "",
            .ranks = 2,
            .chunks_per_rank = 1,
            .rank = rank,
            .threads = 1,
            .recorded_step = STEPS,
            .model = model };
        struct text path = { 0 };
        text_add(&path, "%s/rank%05d.h5", directory, rank);
        struct output *output = output_create(path.data, &facts);
        output_timings(output, action[rank], count[rank], record[rank], STEPS);
        output_finish(output);
        text_free(&path);
    }
}

static void times_are_means_over_the_timed_steps(void)
{
    struct timings t;
    struct text error = { 0 };
    make_run("timings_whole", "run-a", "here", 0.125, false);
    const bool read = timings_read(&t, "timings_whole", &error);
    CHECK(read, "%s", error.data);
    if (!read) return;
    CHECK(t.ranks == 2 && t.chunks == 2 && t.model.hidden == 8, "p %d, chunks %d", t.ranks, t.chunks);
    CHECK(!strcmp(t.deck, "&model layers=2 /\n"), "%s", t.deck);
    for (int c = 0; c < 2; c++) {
        CHECK(t.seconds[COMPUTE_F][c] == 2 + c, "F of chunk %d: %g", c, t.seconds[COMPUTE_F][c]);
        CHECK(t.seconds[COMPUTE_B][c] == 7 - 2 * c, "B of chunk %d: %g", c, t.seconds[COMPUTE_B][c]);
    }
    CHECK(!t.seconds[COMPUTE_I] && !t.seconds[COMPUTE_W], "a whole backward has no halves");
    CHECK(t.steps == 2 && t.step[0] == 43 && t.step[1] == 44, "%zu steps: %g, %g", t.steps, t.step[0],
        t.step[1]);
    CHECK(fabs(t.hop - 0.125) < 1e-12, "hop %g", t.hop);
    timings_free(&t);
}

static void halves_of_the_backward_are_told_apart(void)
{
    struct timings t;
    struct text error = { 0 };
    make_run("timings_split", "run-a", "here", 0.25, true);
    const bool read = timings_read(&t, "timings_split", &error);
    CHECK(read, "%s", error.data);
    if (!read) return;
    CHECK(!t.seconds[COMPUTE_B], "no B was run");
    for (int c = 0; c < 2; c++)
        CHECK(t.seconds[COMPUTE_I][c] == 3.5 - c && t.seconds[COMPUTE_W][c] == 3.5 - c, "I %g, W %g",
            t.seconds[COMPUTE_I][c], t.seconds[COMPUTE_W][c]);
    CHECK(fabs(t.hop - 0.25) < 1e-12, "hop %g", t.hop);
    timings_free(&t);
}

static void clocks_of_two_hosts_give_no_hop(void)
{
    struct timings t;
    struct text error = { 0 };
    make_run("timings_hosts", "run-a", "there", 0.125, false);
    const bool read = timings_read(&t, "timings_hosts", &error);
    CHECK(read && isnan(t.hop), "hop %g", t.hop);
    if (read) timings_free(&t);
}

static void refused(const char *directory, const char *because)
{
    struct timings t;
    struct text error = { 0 };
    CHECK(!timings_read(&t, directory, &error), "%s was read", directory);
    CHECK(error.data && strstr(error.data, because), "%s: '%s' does not say '%s'", directory,
        error.data ? error.data : "", because);
    text_free(&error);
}

int main(void)
{
    times_are_means_over_the_timed_steps();
    halves_of_the_backward_are_told_apart();
    clocks_of_two_hosts_give_no_hop();
    make_run("timings_mixed", "run-b", "here", 0, false);
    refused("timings_mixed", "is of run run-b, the file of rank 0 of run run-a");
    make_run("timings_missing", "run-a", "here", 0, false);
    remove("timings_missing/rank00001.h5");
    refused("timings_missing", "rank00001.h5");
    refused("timings_nowhere", "rank00000.h5");
    return check_result();
}
