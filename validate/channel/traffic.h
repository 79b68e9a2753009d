/* Random traffic over channels, for any transport and device: channels between all ranks, in a random order
   of messages that all ranks work through. What a message is, and how it is known again, the test says. */
#pragma once
#include "../check.h"
#include "channel/channel.h"
#include <stdlib.h>

enum { MOST_CHANNELS = 64 };

/* splitmix64 (Steele, Lea, Flood 2014). The same sequence on all ranks. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline int below(uint64_t *state, int limit)
{
    return (int)(next_random(state) % (uint64_t)limit);
}

struct traffic {
    struct channel_plan plan[MOST_CHANNELS];
    int count;
    int *order; /* [messages] the channel of each message of a step, in the order in which all ranks work
                   through them */
    int messages, transfers; /* transfers: sends and receives of this rank */
    size_t bytes;
};

/* The message of a step that is `number` in traffic.order, and `nth` on its channel. */
struct message {
    int step, number, channel, nth;
};

/* How a test makes messages and knows them again. */
struct content {
    void *context;
    void (*fill)(void *context, const struct message *message, float *buffer, size_t bytes);
    void (*check)(void *context, const struct message *message, float *buffer, size_t bytes);
    void (*compute)(void *context); /* for a random while */
};

/* Each channel that there could be is there with a chance of 2 in 3; between two ranks all are, where next
   and previous are the same rank. Those from a rank to itself are local, or not, at random. */
static inline void make_traffic(
    struct traffic *traffic, const struct job *job, uint64_t *random, size_t bytes, int messages)
{
    *traffic = (struct traffic){
        .bytes = bytes, .messages = messages, .order = allocate((size_t)messages, sizeof(int))
    };
    for (int from = 0; from < job->size; from++)
        for (int to = 0; to < job->size; to++)
            for (int kind = 0; kind < 2; kind++) {
                if (job->size > 2 && below(random, 3) == 0) continue;
                const bool local = from == to && below(random, 2) == 0;
                traffic->plan[traffic->count++] = (struct channel_plan){ .kind = (enum channel_kind)kind,
                    .from = from,
                    .to = to,
                    .local = local,
                    .send_buffers = local ? 0 : 1 + below(random, 3),
                    .receive_buffers = 1 + below(random, 3) };
            }
    for (int i = 0; i < messages; i++) {
        struct channel_plan *plan = &traffic->plan[traffic->order[i] = below(random, traffic->count)];
        plan->messages++;
        if (!plan->local) traffic->transfers += (plan->from == job->rank) + (plan->to == job->rank);
    }
}

static inline void check_records(
    const struct traffic *traffic, const struct job *job, const struct transfer *transfers, int count)
{
    CHECK(count == traffic->transfers, "%d transfers in the records, %d were posted", count,
        traffic->transfers);
    int sends[MOST_CHANNELS] = { 0 }, receives[MOST_CHANNELS] = { 0 };
    double before[2][MOST_CHANNELS] = { { 0 } };
    for (int i = 0; i < count; i++) {
        const struct transfer t = transfers[i];
        const struct channel_plan *of = &traffic->plan[t.channel];
        const int nth = (t.is_send ? sends : receives)[t.channel]++;
        CHECK(t.buffer == nth % (t.is_send ? of->send_buffers : of->receive_buffers),
            "channel %d: transfer %d has buffer %d", t.channel, nth, t.buffer);
        CHECK(t.posted > 0 && t.posted <= t.complete, "channel %d: posted %f, complete %f", t.channel,
            t.posted, t.complete);
        CHECK(t.complete >= before[t.is_send][t.channel], "channel %d: not in the order of completion",
            t.channel);
        before[t.is_send][t.channel] = t.complete;
    }
    for (int c = 0; c < traffic->count; c++) {
        const struct channel_plan *plan = &traffic->plan[c];
        CHECK(sends[c] == (!plan->local && plan->from == job->rank ? plan->messages : 0),
            "channel %d: %d sends", c, sends[c]);
        CHECK(receives[c] == (!plan->local && plan->to == job->rank ? plan->messages : 0),
            "channel %d: %d receives", c, receives[c]);
    }
}

/* A step in which each message is waited for in one order common to all ranks, and each receive is posted
   when its buffer is free. With one buffer or more that cannot deadlock, even where every send waits for its
   receive. */
static inline void run_step(struct channels *channels, const struct traffic *traffic, const struct job *job,
    int step, const struct content *content)
{
    int posted[MOST_CHANNELS] = { 0 }, sent[MOST_CHANNELS] = { 0 }, received[MOST_CHANNELS] = { 0 };
    for (int c = 0; c < traffic->count; c++) {
        const struct channel_plan *plan = &traffic->plan[c];
        if (plan->to != job->rank) continue;
        for (; posted[c] < plan->messages && posted[c] < plan->receive_buffers; posted[c]++)
            channel_receive(channels, c, posted[c]);
    }
    for (int i = 0; i < traffic->messages; i++) {
        const int c = traffic->order[i];
        const struct channel_plan *plan = &traffic->plan[c];
        if (plan->from == job->rank) {
            const struct message message = { step, i, c, sent[c] };
            const int buffer = sent[c]++ % (plan->local ? plan->receive_buffers : plan->send_buffers);
            channel_await_send(channels, c, buffer);
            content->compute(content->context);
            content->fill(
                content->context, &message, channel_send_buffer(channels, c, buffer), traffic->bytes);
            channel_send(channels, c, buffer);
        }
        if (plan->to == job->rank) {
            const struct message message = { step, i, c, received[c] };
            const int buffer = received[c]++ % plan->receive_buffers;
            channel_await_receive(channels, c, buffer);
            content->check(
                content->context, &message, channel_receive_buffer(channels, c, buffer), traffic->bytes);
            if (posted[c] < plan->messages) channel_receive(channels, c, posted[c]++ % plan->receive_buffers);
            content->compute(content->context);
        }
    }
    const struct transfer *transfers;
    int count;
    channels_finish_step(channels, &transfers, &count);
    check_records(traffic, job, transfers, count);
}
