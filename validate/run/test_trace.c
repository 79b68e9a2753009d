/* A trace is accepted only where it is the planned program: every deviation is refused with its own words. */
#include "run/pipeline.h"
#include "check.h"
#include <stdlib.h>
#include <string.h>

enum { RANK = 1, STEPS = 2 };

struct trace {
    struct action_record action[256];
    struct transfer_record transfer[256];
    size_t actions, transfers;
};

/* What a faithful run of the program leaves. */
static struct trace planned(const struct program *program)
{
    struct trace t = { 0 };
    const struct rank_program *mine = &program->rank[RANK];
    for (int step = 1; step <= STEPS; step++)
        for (int i = 0; i < mine->count; i++) {
            const struct operation *o = &mine->operations[i];
            const struct compute c = o->compute;
            if (o->kind == OPERATION_COMPUTE)
                t.action[t.actions++] = (struct action_record){
                    .step = step, .kind = (int32_t)c.kind, .chunk = c.chunk, .microbatch = c.microbatch
                };
            else
                t.transfer[t.transfers++] = (struct transfer_record){ .step = step,
                    .is_send = o->kind == OPERATION_SEND,
                    .channel = o->kind == OPERATION_SEND ? o->output.channel : o->input.channel,
                    .buffer = o->kind == OPERATION_SEND ? o->output.buffer : o->input.buffer };
        }
    return t;
}

static void expect(const struct program *program, const struct trace *t, const char *words)
{
    struct text error = { 0 };
    const bool good = trace_check(program, RANK, t->action, t->actions, t->transfer, t->transfers, &error);
    if (!words)
        CHECK(good, "the planned trace is refused: %s", error.data);
    else
        CHECK(!good && error.data && strstr(error.data, words), "expected '%s', got '%s'", words,
            good ? "accepted" : error.data);
    text_free(&error);
}

int main(void)
{
    struct schedule schedule;
    struct program program;
    struct text error = { 0 };
    if (!schedule_make(&schedule, "interleaved-1f1b", 2, 2, 4, 0, &error)) fail("%s", error.data);
    program_make(&program, &schedule, 2, 0, false);
    schedule_free(&schedule);
    const struct trace good = planned(&program);
    expect(&program, &good, NULL);

    struct trace t = good;
    t.action[2].microbatch++;
    expect(&program, &t, "where F chunk");

    t = good;
    const struct action_record first = t.action[0];
    t.action[0] = t.action[1];
    t.action[1] = first;
    expect(&program, &t, "executed F chunk");

    t = good;
    t.actions--;
    expect(&program, &t, "the trace ends before");

    t = good;
    t.action[t.actions] = t.action[t.actions - 1];
    t.actions++;
    expect(&program, &t, "more actions than the program");

    t = good;
    t.actions = 0;
    expect(&program, &t, "the trace is empty");

    t = good;
    t.transfers--;
    expect(&program, &t, "is missing");

    t = good;
    t.transfers = 0;
    expect(&program, &t, "no message was recorded");

    t = good;
    t.transfer[0].buffer = 7;
    expect(&program, &t, "is not the one planned");

    program_free(&program);
    return check_result();
}
