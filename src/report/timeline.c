#include "report/result.h"
#include "schedule/program.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* Times as the trace format wants them: microseconds from the first step's begin. */
static double microseconds(double seconds, double begin)
{
    return 1e6 * (seconds - begin);
}

static double earliest(const struct rank_trace *ranks, int rank_count)
{
    double begin = 0;
    bool any = false;
    for (int r = 0; r < rank_count; r++) {
        for (size_t i = 0; i < ranks[r].action_count; i++) {
            const double start = ranks[r].actions[i].start - ranks[r].actions[i].waited;
            if (!any || start < begin) begin = start;
            any = true;
        }
        for (size_t i = 0; i < ranks[r].transfer_count; i++) {
            if (!any || ranks[r].transfers[i].posted < begin) begin = ranks[r].transfers[i].posted;
            any = true;
        }
    }
    return begin;
}

/* Thread 0 of a process (a rank) is its compute; a channel's two ends have one each. */
static int thread_of(int channel, bool is_send)
{
    return 1 + 2 * channel + is_send;
}

static void add_separator(struct text *out)
{
    text_add(out, ",\n");
}

static void add_metadata(struct text *out, const char *what, int rank, int thread, const char *name)
{
    add_separator(out);
    text_add(out, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":\"%s\"}}", what,
        rank, thread, name);
}

static void name_threads(struct text *out, int rank, const struct channel_plan *channels, int channel_count)
{
    char name[80];
    snprintf(name, sizeof name, "rank %d", rank);
    add_metadata(out, "process_name", rank, 0, name);
    add_metadata(out, "thread_name", rank, 0, "compute");
    for (int c = 0; c < channel_count; c++) {
        if (channels[c].local) continue; /* a hand-over: nothing is sent */
        const char *kind = channels[c].kind == CHANNEL_ACTIVATION ? "activations" : "gradients";
        if (channels[c].from == rank) {
            snprintf(name, sizeof name, "send %s to rank %d", kind, channels[c].to);
            add_metadata(out, "thread_name", rank, thread_of(c, true), name);
        }
        if (channels[c].to == rank) {
            snprintf(name, sizeof name, "receive %s from rank %d", kind, channels[c].from);
            add_metadata(out, "thread_name", rank, thread_of(c, false), name);
        }
    }
}

static void add_actions(struct text *out, const struct rank_trace *trace, double begin)
{
    double free_since = begin;
    for (size_t i = 0; i < trace->action_count; i++) {
        const struct action_record *a = &trace->actions[i];
        /* Events of one thread must not overlap: a wait begins when the action before it is over. */
        const double waits = a->start - a->waited > free_since ? a->start - a->waited : free_since;
        if (waits < a->start && a->waited > 0) {
            add_separator(out);
            text_add(out,
                "{\"name\":\"wait\",\"cat\":\"wait\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%."
                "3f,\"args\":{\"step\":%d}}",
                trace->rank, microseconds(waits, begin), 1e6 * (a->start - waits), a->step);
        }
        add_separator(out);
        text_add(out,
            "{\"name\":\"%c chunk %d microbatch "
            "%d\",\"cat\":\"compute\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"step\":%d,\"kind\":\"%c\",\"chunk\":%d,\"microbatch\":%d,\"waited\":%.3f}}",
            compute_letter[a->kind], a->chunk, a->microbatch, trace->rank, microseconds(a->start, begin),
            1e6 * (a->end - a->start), a->step, compute_letter[a->kind], a->chunk, a->microbatch,
            1e6 * a->waited);
        if (a->end > free_since) free_since = a->end;
    }
}

/* The k-th send of a channel meets its k-th receive, so (channel, k) names the message on both ends. */
static void add_flow(struct text *out, const struct transfer_record *t, int rank, long message, double at)
{
    add_separator(out);
    text_add(out,
        "{\"name\":\"message\",\"cat\":\"message\",\"ph\":\"%s\",%s\"id\":\"%d.%ld\",\"pid\":%d,\"tid\":%d,"
        "\"ts\":%.3f}",
        t->is_send ? "s" : "f", t->is_send ? "" : "\"bp\":\"e\",", t->channel, message, rank,
        thread_of(t->channel, t->is_send), at);
}

static void add_transfers(struct text *out, const struct rank_trace *trace, int channel_count, double begin)
{
    /* For each channel and end: how many messages there were, and when the last was complete. */
    long *messages = allocate(2 * (size_t)channel_count, sizeof *messages);
    double *free_since = allocate(2 * (size_t)channel_count, sizeof *free_since);
    for (int i = 0; i < 2 * channel_count; i++) free_since[i] = begin;
    for (size_t i = 0; i < trace->transfer_count; i++) {
        const struct transfer_record *t = &trace->transfers[i];
        const int end = 2 * t->channel + (t->is_send != 0);
        /* A channel is a FIFO: a message posted while another is under way has its turn when that one is
         * complete. */
        const double start = t->posted > free_since[end] ? t->posted : free_since[end];
        const double complete = t->complete > start ? t->complete : start;
        add_separator(out);
        text_add(out,
            "{\"name\":\"%s chunk %d microbatch "
            "%d\",\"cat\":\"transfer\",\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"step\":%d,\"channel\":%d,\"posted\":%.3f}}",
            t->is_send ? "send" : "receive", t->chunk, t->microbatch, trace->rank,
            thread_of(t->channel, t->is_send), microseconds(start, begin), 1e6 * (complete - start), t->step,
            t->channel, microseconds(t->posted, begin));
        add_flow(out, t, trace->rank, messages[end]++, microseconds(t->is_send ? start : complete, begin));
        free_since[end] = complete;
    }
    free(messages);
    free(free_since);
}

void timeline_write(const char *path, const struct facts *facts, const struct rank_trace *ranks,
    int rank_count, const struct channel_plan *channels, int channel_count)
{
    const double begin = earliest(ranks, rank_count);
    struct text out = { 0 };
    json_t *other = json_pack("{s:s, s:s, s:s, s:s?}", "program", "pipeleaf", "version", pipeleaf_version,
        "run_id", facts->run_id, "device", facts->device);
    char *about = other ? json_dumps(other, 0) : NULL;
    if (!about) fail("'%s': the name of the run or of the device is no UTF-8", path);
    text_add(&out, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[\n", about);
    text_add(&out, "{\"name\":\"trace begins\",\"ph\":\"i\",\"s\":\"g\",\"pid\":0,\"tid\":0,\"ts\":0}");
    for (int r = 0; r < rank_count; r++) {
        name_threads(&out, ranks[r].rank, channels, channel_count);
        add_actions(&out, &ranks[r], begin);
        add_transfers(&out, &ranks[r], channel_count, begin);
    }
    text_add(&out, "\n]}\n");
    write_whole_file(path, out.data, out.length);
    text_free(&out);
    free(about);
    json_decref(other);
}
