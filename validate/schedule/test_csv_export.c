/* What is exported as CSV reads back to the same program, for every schedule at every small p, v and m; and
   it is the text that one expects. */
#include "check.h"
#include "schedule/program.h"
#include <stdlib.h>
#include <string.h>

static bool same_program(const struct program *a, const struct program *b)
{
    if (a->ranks != b->ranks || a->chunks != b->chunks || a->microbatches != b->microbatches ||
        a->channel_count != b->channel_count ||
        memcmp(a->rank_of, b->rank_of, (size_t)a->chunks * sizeof *a->rank_of) != 0 ||
        memcmp(a->channels, b->channels, (size_t)a->channel_count * sizeof *a->channels) != 0)
        return false;
    for (int rank = 0; rank < a->ranks; rank++) {
        const struct rank_program *x = &a->rank[rank], *y = &b->rank[rank];
        if (x->count != y->count || x->slots != y->slots ||
            memcmp(x->operations, y->operations, (size_t)x->count * sizeof *x->operations) != 0)
            return false;
    }
    return true;
}

static void comes_back(const struct program *program, bool communication, const char *name, int v)
{
    const int p = program->ranks, m = program->microbatches;
    const char *with = communication ? "with communication" : "computes alone";
    struct text text = { 0 }, error = { 0 };
    struct schedule read;
    program_write_csv(program, communication, &text);
    const bool good = schedule_read_csv(&read, "a.csv", text.data, text.length, CSV_CURRENT, p, m, &error);
    CHECK(good, "%s p=%d v=%d m=%d, %s: %s", name, p, v, m, with, good ? "" : error.data);
    if (good) {
        struct program again;
        program_make(&again, &read, 2, 0, false);
        CHECK(same_program(program, &again), "%s p=%d v=%d m=%d, %s: another program", name, p, v, m, with);
        program_free(&again);
        schedule_free(&read);
    }
    text_free(&text);
    text_free(&error);
}

static void every_schedule_comes_back(void)
{
    for (int s = 0; schedule_names[s]; s++) {
        int cases = 0;
        for (int p = 1; p <= 4; p++)
            for (int v = 1; v <= 3; v++)
                for (int m = 1; m <= 2 * p + 1; m++) {
                    struct schedule schedule;
                    struct program program;
                    struct text error = { 0 };
                    if (schedule_make(&schedule, schedule_names[s], p, v, m, 0, &error)) {
                        program_make(&program, &schedule, 2, 0, false);
                        comes_back(&program, false, schedule_names[s], v);
                        comes_back(&program, true, schedule_names[s], v);
                        program_free(&program);
                        schedule_free(&schedule);
                        cases++;
                    }
                    text_free(&error);
                }
        const int chunks = schedule_traits(schedule_names[s]).chunks_per_rank;
        CHECK(cases == (chunks ? 24 : 72), "%s: %d cases", schedule_names[s], cases);
    }
}

/* Receives stand where this program posts them: at the start as many as there are buffers. */
static void the_text_is_the_programs(void)
{
    static const struct {
        const char *name, *text;
        bool communication;
    } known[] = {
        { "1f1b", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", false },
        { "zb-h1", "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n", false },
        { "1f1b",
            "0RECV_B0,0RECV_B1,0F0,0SEND_F0,0F1,0SEND_F1,0B0,0B1\n"
            "1RECV_F0,1RECV_F1,1F0,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n",
            true },
        { "zb-h1",
            "0RECV_B0,0RECV_B1,0F0,0SEND_F0,0F1,0SEND_F1,0I0,0W0,0I1,0W1\n"
            "1RECV_F0,1RECV_F1,1F0,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1\n",
            true },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct schedule schedule;
        struct program program;
        struct text text = { 0 }, error = { 0 };
        CHECK(schedule_make(&schedule, known[i].name, 2, 1, 2, 0, &error), "%s", error.data);
        program_make(&program, &schedule, 2, 0, false);
        program_write_csv(&program, known[i].communication, &text);
        CHECK(strcmp(text.data, known[i].text) == 0, "%s: wrote\n%s", known[i].name, text.data);
        program_free(&program);
        schedule_free(&schedule);
        text_free(&text);
    }
}

int main(void)
{
    every_schedule_comes_back();
    the_text_is_the_programs();
    return check_result();
}
