/* timeline.json: the messages. */
#include "report/timeline_parts.h"
#include <stdlib.h>

/* Both ends of every message, by its number on the channel. */
static void index_messages(struct writer *w)
{
    const struct timeline *t = w->t;
    w->first_message = allocate((size_t)t->channel_count + 1, sizeof *w->first_message);
    for (int c = 0; c < t->channel_count; c++)
        w->first_message[c + 1] = w->first_message[c] + (size_t)t->channels[c].messages * (size_t)t->steps;
    w->send = allocate(w->first_message[t->channel_count], sizeof *w->send);
    w->receive = allocate(w->first_message[t->channel_count], sizeof *w->receive);
}

static void add_transfer(struct writer *w, const struct rank_trace *trace, const struct transfer_record *m,
    const struct span *span)
{
    const struct channel_plan *channel = &w->t->channels[m->channel];
    timeline_begin(w, "X", process_of(trace->rank), thread_of(m->channel, m->is_send));
    text_add(&w->out, ",\"name\":\"%s chunk %d microbatch %d\",\"cat\":\"transfer\"",
        m->is_send ? "send" : "receive", m->chunk, m->microbatch);
    timeline_span(w, span->start, span->end);
    text_add(&w->out,
        ",\"args\":{\"step\":%d,\"kind\":\"%s\",\"bytes\":%zu,\"from_rank\":%d,\"to_rank\":%d,\"chunk\":%d,"
        "\"microbatch\":%d,\"channel\":%d,\"buffer\":%d",
        m->step, timeline_kind(channel), w->t->message_bytes, channel->from, channel->to, m->chunk,
        m->microbatch, m->channel, m->buffer);
    timeline_time(&w->out, "posted", timeline_nanoseconds(w, m->posted));
    timeline_time(&w->out, "complete", timeline_nanoseconds(w, m->complete));
    text_add(&w->out, "}}");
}

/* Of each channel and end the place of its next message, from the first: [channels][receive, send]. */
static struct span **first_messages(const struct writer *w)
{
    struct span **span = allocate(2 * (size_t)w->t->channel_count, sizeof *span);
    for (int c = 0; c < w->t->channel_count; c++) {
        span[2 * c] = w->receive + w->first_message[c];
        span[2 * c + 1] = w->send + w->first_message[c];
    }
    return span;
}

static struct span *next_message(struct span **span, const struct transfer_record *m)
{
    return span[2 * (size_t)m->channel + (m->is_send != 0)]++;
}

static void note_transfers(struct writer *w, const struct rank_trace *trace)
{
    struct span **span = first_messages(w);
    for (size_t i = 0; i < trace->transfer_count; i++) {
        const struct transfer_record *m = &trace->transfers[i];
        *next_message(span, m) =
            (struct span){ timeline_nanoseconds(w, m->posted), timeline_nanoseconds(w, m->complete) };
    }
    free(span);
}

/* A channel is a FIFO, and several of its messages may be under way at an end: a send is shown until the next
 * one is posted; a receive, which is posted long before, from when its message is sent and the one before was
 * complete. (Viewers point an arrow at the later of its two slices.) What takes no time is shown as a
 * nanosecond, so that its flow has a place. */
static void fit(const struct writer *w, const struct transfer_record *m, struct span *span)
{
    const size_t message = (size_t)(span - (m->is_send ? w->send : w->receive));
    struct span *next = message + 1 < w->first_message[m->channel + 1] && span[1].end != 0 ? span + 1 : NULL;
    const struct span *send = &w->send[message];
    if (m->is_send && next && span->end > next->start) span->end = next->start;
    if (!m->is_send && span->start < send->start && send->start < span->end) span->start = send->start;
    if (span->end <= span->start) span->end = span->start + 1;
    if (next && next->start < span->end) next->start = span->end;
}

/* All sends first, since a receive is fitted to its send. */
static void add_transfers(struct writer *w)
{
    for (int r = 0; r < w->t->rank_count; r++) note_transfers(w, &w->t->ranks[r]);
    for (int sends = 1; sends >= 0; sends--) {
        for (int r = 0; r < w->t->rank_count; r++) {
            const struct rank_trace *trace = &w->t->ranks[r];
            struct span **span = first_messages(w);
            for (size_t i = 0; i < trace->transfer_count; i++) {
                const struct transfer_record *m = &trace->transfers[i];
                if ((m->is_send != 0) != sends) continue;
                struct span *one = next_message(span, m);
                fit(w, m, one);
                add_transfer(w, trace, m, one);
            }
            free(span);
        }
    }
}

static void add_flow(struct writer *w, const char *phase, int rank, int channel, size_t message, long long at)
{
    const bool is_send = phase[0] == 's';
    timeline_begin(w, phase, process_of(rank), thread_of(channel, is_send));
    text_add(&w->out, ",\"name\":\"message\",\"cat\":\"message\",\"id\":%zu%s", message,
        is_send ? "" : ",\"bp\":\"e\"");
    timeline_time(&w->out, "ts", at);
    text_add(&w->out, "}");
}

/* The k-th send of a channel meets its k-th receive. Where the clocks of two hosts are so far apart that a
 * message arrived before it was sent, an arrow would go back in time: it is left out, and counted. */
static void add_flows(struct writer *w)
{
    for (int c = 0; c < w->t->channel_count; c++) {
        const struct channel_plan *channel = &w->t->channels[c];
        for (size_t m = w->first_message[c]; m < w->first_message[c + 1]; m++) {
            const struct span *send = &w->send[m], *receive = &w->receive[m];
            if (channel->local || send->end == 0 || receive->end == 0) continue;
            if (receive->end - 1 < send->start) {
                w->left_out++;
                continue;
            }
            add_flow(w, "s", channel->from, c, m, send->start);
            add_flow(w, "f", channel->to, c, m, receive->end - 1);
        }
    }
}

void timeline_messages(struct writer *w)
{
    index_messages(w);
    add_transfers(w);
    add_flows(w);
    free(w->first_message);
    free(w->send);
    free(w->receive);
}
