/* timeline.json: Chrome trace events. */
#include "report/idle.h"
#include "report/timeline_parts.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

long long timeline_nanoseconds(const struct writer *w, double seconds)
{
    return llround(1e9 * (seconds - w->begin));
}

/* --- parts of an event --- */

void timeline_time(struct text *out, const char *name, long long nanoseconds)
{
    text_add(out, ",\"%s\":%lld.%03lld", name, nanoseconds / 1000, nanoseconds % 1000);
}

void timeline_begin(struct writer *w, const char *phase, int process, int thread)
{
    text_add(&w->out, ",\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d", phase, process, thread);
}

void timeline_span(struct writer *w, long long start, long long end)
{
    timeline_time(&w->out, "ts", start);
    timeline_time(&w->out, "dur", end - start);
}

/* A string as JSON has it; hosts and devices may be called anything. */
static void add_string(struct text *out, const char *text)
{
    json_t *string = json_string(text);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    if (!quoted) fail("timeline.json: a name is no UTF-8");
    text_add(out, "%s", quoted);
    free(quoted);
    json_decref(string);
}

static void name_it(
    struct writer *w, const char *what, int process, int thread, const char *member, const char *name)
{
    timeline_begin(w, "M", process, thread);
    text_add(&w->out, ",\"name\":\"%s\",\"args\":{\"%s\":", what, member);
    add_string(&w->out, name);
    text_add(&w->out, "}}");
}

static void sort_it(struct writer *w, const char *what, int process, int thread, int index)
{
    timeline_begin(w, "M", process, thread);
    text_add(&w->out, ",\"name\":\"%s\",\"args\":{\"sort_index\":%d}}", what, index);
}

const char *timeline_kind(const struct channel_plan *channel)
{
    return channel->kind == CHANNEL_ACTIVATION ? "activations" : "gradients";
}

/* --- names of tracks --- */

static void name_thread(struct writer *w, int rank, int thread, const char *name)
{
    name_it(w, "thread_name", process_of(rank), thread, "name", name);
    sort_it(w, "thread_sort_index", process_of(rank), thread, thread);
}

static void name_rank(struct writer *w, const struct rank_trace *trace)
{
    char name[80];
    struct text labels = { 0 };
    snprintf(name, sizeof name, "rank %d", trace->rank);
    name_it(w, "process_name", process_of(trace->rank), COMPUTE_THREAD, "name", name);
    text_add(&labels, "%s, %s", trace->host, trace->device);
    name_it(w, "process_labels", process_of(trace->rank), COMPUTE_THREAD, "labels", labels.data);
    text_free(&labels);
    sort_it(w, "process_sort_index", process_of(trace->rank), COMPUTE_THREAD, trace->rank + 1);
    name_thread(w, trace->rank, COMPUTE_THREAD, "compute");
    for (int c = 0; c < w->t->channel_count; c++) {
        const struct channel_plan *channel = &w->t->channels[c];
        if (channel->local) continue; /* a hand-over: nothing is sent */
        if (channel->from == trace->rank) {
            snprintf(name, sizeof name, "send %s to rank %d", timeline_kind(channel), channel->to);
            name_thread(w, trace->rank, thread_of(c, true), name);
        }
        if (channel->to == trace->rank) {
            snprintf(name, sizeof name, "receive %s from rank %d", timeline_kind(channel), channel->from);
            name_thread(w, trace->rank, thread_of(c, false), name);
        }
    }
}

/* --- steps --- */

/* A step as all ranks see it: from the first one's begin to the last one's end. */
static void step_bounds(const struct timeline *t, int step, double *begin, double *end)
{
    *begin = INFINITY;
    *end = -INFINITY;
    for (int r = 0; r < t->rank_count; r++) {
        const struct step_record *s = &t->ranks[r].steps[step];
        *begin = fmin(*begin, s->start);
        *end = fmax(*end, s->start + s->seconds);
    }
}

static const char *step_kind(const struct writer *w, int step)
{
    return w->t->ranks[0].steps[step].timed ? "timed" : step + 1 == w->t->steps ? "recorded" : "warm-up";
}

static void add_step(struct writer *w, int step)
{
    const int process = process_of_run(w->t);
    double begin, end;
    step_bounds(w->t, step, &begin, &end);
    timeline_begin(w, "X", process, COMPUTE_THREAD);
    text_add(&w->out, ",\"name\":\"step %d\",\"cat\":\"step\"", step + 1);
    timeline_span(w, timeline_nanoseconds(w, begin), timeline_nanoseconds(w, end));
    text_add(&w->out, ",\"args\":{\"step\":%d,\"kind\":\"%s\",\"planned\":%.3f}}", step + 1,
        step_kind(w, step), 1e6 * w->t->makespan);
    timeline_begin(w, "i", process, COMPUTE_THREAD);
    text_add(&w->out, ",\"name\":\"step %d begins\",\"cat\":\"step\",\"s\":\"g\"", step + 1);
    timeline_time(&w->out, "ts", timeline_nanoseconds(w, begin));
    text_add(&w->out, "}");
}

/* --- compute and idle --- */

static size_t computes_in_step(const struct timeline *t, const struct rank_trace *trace)
{
    return trace->action_count / (size_t)t->steps;
}

static struct compute compute_of(const struct action_record *a)
{
    return (struct compute){ (enum compute_kind)a->kind, a->chunk, a->microbatch };
}

/* Notes when each output of a step was made; gives the end of its last action. */
static double note_outputs(struct writer *w, int step)
{
    double last = -INFINITY;
    for (int r = 0; r < w->t->rank_count; r++) {
        const struct rank_trace *trace = &w->t->ranks[r];
        const size_t count = computes_in_step(w->t, trace);
        for (size_t i = 0; i < count; i++) {
            const struct action_record *a = &trace->actions[(size_t)step * count + i];
            last = fmax(last, a->end);
            if (a->kind == COMPUTE_W) continue;
            w->made[compute_index(compute_of(a), w->t->chunks, w->t->microbatches)] =
                (struct made){ a->end, trace->rank, (enum compute_kind)a->kind };
        }
    }
    return last;
}

/* maker: what the compute after the gap waited for, or NULL. `free_since`: the end of the event before. */
static void add_idle(struct writer *w, const struct rank_trace *trace, int step, const struct gap *gap,
    const struct compute *maker, int made_by, long long free_since)
{
    double cut[IDLE_CAUSES + 1];
    idle_split(gap, cut);
    for (int cause = 0; cause < IDLE_CAUSES; cause++) {
        long long start = timeline_nanoseconds(w, cut[cause]), end = timeline_nanoseconds(w, cut[cause + 1]);
        if (start < free_since) start = free_since;
        if (end - start < LEAST_IDLE) continue;
        timeline_begin(w, "X", process_of(trace->rank), COMPUTE_THREAD);
        text_add(&w->out, ",\"name\":\"%s\",\"cat\":\"idle\"", idle_name[cause]);
        timeline_span(w, start, end);
        text_add(&w->out, ",\"args\":{\"step\":%d,\"planned\":%.3f", step + 1, 1e6 * gap->planned);
        if (maker && cause != IDLE_OTHER) {
            char what[64];
            text_add(&w->out, ",\"for\":\"%s\",\"from_rank\":%d", compute_text(*maker, what, sizeof what),
                made_by);
        }
        text_add(&w->out, "}}");
    }
}

static void add_action(struct writer *w, const struct rank_trace *trace, const struct action_record *a,
    const struct planned_record *planned, long long start, long long end)
{
    static const char *const kind[COMPUTE_KINDS] = { "forward", "backward", "input gradient",
        "weight gradient" };
    char name[64];
    timeline_begin(w, "X", process_of(trace->rank), COMPUTE_THREAD);
    text_add(&w->out, ",\"name\":\"%s\",\"cat\":\"compute\"", compute_text(compute_of(a), name, sizeof name));
    timeline_span(w, start, end);
    text_add(&w->out,
        ",\"args\":{\"step\":%d,\"kind\":\"%c\",\"what\":\"%s\",\"chunk\":%d,\"microbatch\":%d,\"slot\":%d,"
        "\"waited\":%.3f,\"planned\":%.3f}}",
        a->step, compute_letter[a->kind], kind[a->kind], a->chunk, a->microbatch, planned->slot,
        1e6 * a->waited, 1e6 * (planned->end - planned->start));
}

static void add_actions(struct writer *w, const struct rank_trace *trace, int step, double last_end)
{
    const struct timeline *t = w->t;
    const size_t count = computes_in_step(t, trace);
    double begin, end, free_since, planned_free = 0;
    step_bounds(t, step, &begin, &end);
    free_since = begin;
    long long shown = timeline_nanoseconds(w, begin);
    for (size_t i = 0; i < count; i++) {
        const struct action_record *a = &trace->actions[(size_t)step * count + i];
        struct compute maker;
        const struct made *made = NULL;
        if (input_maker(compute_of(a), t->chunks, &maker)) {
            made = &w->made[compute_index(maker, t->chunks, t->microbatches)];
            maker.kind = made->kind;
            if (made->rank == trace->rank) made = NULL;
        }
        const struct gap gap = { free_since, a->start, trace->planned[i].start - planned_free,
            made ? made->end : free_since, a->waited };
        if (a->start > free_since)
            add_idle(w, trace, step, &gap, made ? &maker : NULL, made ? made->rank : -1, shown);
        long long from = timeline_nanoseconds(w, a->start), to = timeline_nanoseconds(w, a->end);
        if (from < shown) from = shown;
        if (to < from) to = from;
        add_action(w, trace, a, &trace->planned[i], from, to);
        shown = to;
        free_since = fmax(a->end, free_since);
        planned_free = trace->planned[i].end;
    }
    const struct gap gap = { free_since, end, t->makespan - planned_free, last_end, 0 };
    if (end > free_since) add_idle(w, trace, step, &gap, NULL, -1, shown);
}

/* --- the file --- */

static double earliest(const struct timeline *t)
{
    double begin, end;
    step_bounds(t, 0, &begin, &end);
    for (int r = 0; r < t->rank_count; r++) {
        if (t->ranks[r].action_count > 0) begin = fmin(begin, t->ranks[r].actions[0].start);
        for (size_t i = 0; i < t->ranks[r].transfer_count; i++)
            begin = fmin(begin, t->ranks[r].transfers[i].posted);
    }
    return begin;
}

static void add_about(struct writer *w)
{
    const struct facts *f = w->t->facts;
    json_t *about = json_pack("{s:s, s:s, s:s, s:s, s:s?, s:i, s:i, s:i, s:I, s:s}", "program", "pipeleaf",
        "version", pipeleaf_version, "commit", pipeleaf_commit, "run_id", f->run_id, "device", f->device,
        "ranks", w->t->rank_count, "chunks", w->t->chunks, "microbatches", w->t->microbatches,
        "messages_without_flow", (json_int_t)w->left_out, "idle",
        "bubble: the input was not made yet, as planned; late input: nor after that; message wait: made but "
        "not "
        "here, or the way for the output not free; other: the host between two actions. Idle below 1 us is "
        "not "
        "shown. Times called planned and waited are microseconds.");
    char *text = about ? json_dumps(about, 0) : NULL;
    if (!text) fail("timeline.json: the name of the run or of the device is no UTF-8");
    text_add(&w->out, "\n],\"displayTimeUnit\":\"ms\",\"otherData\":%s}\n", text);
    free(text);
    json_decref(about);
}

void timeline_write(const char *path, const struct timeline *t)
{
    struct writer w = { .t = t, .begin = earliest(t) };
    w.made = allocate(2 * (size_t)t->chunks * (size_t)t->microbatches, sizeof *w.made);
    text_add(&w.out,
        "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"process_name\",\"args\":{"
        "\"name\":\"run\"}}",
        process_of_run(t), COMPUTE_THREAD);
    sort_it(&w, "process_sort_index", process_of_run(t), COMPUTE_THREAD, 0);
    name_it(&w, "thread_name", process_of_run(t), COMPUTE_THREAD, "name", "steps");
    for (int r = 0; r < t->rank_count; r++) name_rank(&w, &t->ranks[r]);
    for (int step = 0; step < t->steps; step++) {
        add_step(&w, step);
        const double last_end = note_outputs(&w, step);
        for (int r = 0; r < t->rank_count; r++) add_actions(&w, &t->ranks[r], step, last_end);
    }
    timeline_messages(&w);
    add_about(&w);
    write_whole_file(path, w.out.data, w.out.length);
    text_free(&w.out);
    free(w.made);
}
