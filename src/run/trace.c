#include "run/pipeline.h"
#include <stdlib.h>

/* The records of one step are consecutive; each step is compared with the whole program. */
static bool check_actions(
    const struct rank_program *program, const struct action_record *actions, size_t count, struct text *error)
{
    char planned[64], executed[64];
    size_t done = 0;
    while (done < count) {
        const int step = actions[done].step;
        for (int i = 0; i < program->count; i++) {
            if (program->operations[i].kind != OPERATION_COMPUTE) continue;
            const struct compute plan = program->operations[i].compute;
            if (done == count || actions[done].step != step) {
                text_add(error, "step %d: the trace ends before %s", step,
                    compute_text(plan, planned, sizeof planned));
                return false;
            }
            const struct action_record *a = &actions[done++];
            if (a->kind != (int32_t)plan.kind || a->chunk != plan.chunk || a->microbatch != plan.microbatch) {
                const struct compute was = { (enum compute_kind)a->kind, a->chunk, a->microbatch };
                text_add(error, "step %d: executed %s where %s is planned", step,
                    compute_text(was, executed, sizeof executed),
                    compute_text(plan, planned, sizeof planned));
                return false;
            }
        }
        if (done < count && actions[done].step == step) {
            text_add(error, "step %d: the trace has more actions than the program", step);
            return false;
        }
    }
    return true;
}

/* The next planned operation of one channel and direction, from `*at` on; NULL at the end. */
static const struct operation *next_message(
    const struct rank_program *program, int channel, bool is_send, int *at)
{
    for (; *at < program->count; (*at)++) {
        const struct operation *o = &program->operations[*at];
        if (is_send ? o->kind == OPERATION_SEND && o->output.channel == channel
                    : o->kind == OPERATION_RECEIVE && o->input.channel == channel) {
            (*at)++;
            return o;
        }
    }
    return NULL;
}

static bool check_channel(const struct program *program, int rank, int channel, bool is_send,
    const struct transfer_record *transfers, size_t count, struct text *error)
{
    const struct rank_program *mine = &program->rank[rank];
    const char *what = is_send ? "send" : "receive";
    int step = -1, at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct transfer_record *t = &transfers[i];
        if (t->channel != channel || (bool)t->is_send != is_send) continue;
        if (t->step != step) {
            if (step >= 0 && next_message(mine, channel, is_send, &at)) {
                text_add(error, "step %d: channel %d: a %s is missing", step, channel, what);
                return false;
            }
            step = t->step;
            at = 0;
        }
        const struct operation *o = next_message(mine, channel, is_send, &at);
        if (!o || (is_send ? o->output.buffer : o->input.buffer) != t->buffer) {
            text_add(error, "step %d: channel %d: the %s that completed in buffer %d is not the one planned",
                step, channel, what, t->buffer);
            return false;
        }
    }
    if (step >= 0 && next_message(mine, channel, is_send, &at)) {
        text_add(error, "step %d: channel %d: a %s is missing", step, channel, what);
        return false;
    }
    return true;
}

bool trace_check(const struct program *program, int rank, const struct action_record *actions,
    size_t action_count, const struct transfer_record *transfers, size_t transfer_count, struct text *error)
{
    if (action_count == 0 && program->rank[rank].count > 0) {
        text_add(error, "the trace is empty");
        return false;
    }
    if (!check_actions(&program->rank[rank], actions, action_count, error)) return false;
    for (int c = 0; c < program->channel_count; c++) {
        const struct channel_plan *plan = &program->channels[c];
        for (int is_send = 0; is_send < 2 && !plan->local; is_send++) {
            if ((is_send ? plan->from : plan->to) != rank) continue;
            size_t seen = 0;
            for (size_t i = 0; i < transfer_count; i++)
                seen += transfers[i].channel == c && transfers[i].is_send == is_send;
            if (seen == 0) {
                text_add(error, "channel %d: no message was recorded", c);
                return false;
            }
            if (!check_channel(program, rank, c, is_send, transfers, transfer_count, error)) return false;
        }
    }
    return true;
}
