/* Every channel is a FIFO and every message arrives whole, whatever the pattern: random channels between all
   ranks, random order of messages, random compute times; small and large messages; with and without overlap.
 */
#include "../check.h"
#include "channel/call.h"
#include "channel/channel.h"
#include "fake_device.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_CHANNELS = 64, STEPS = 3 };
static struct progress progress = { .done = -1, .current = -1 };

/* splitmix64 (Steele, Lea, Flood 2014). The same sequence on all ranks. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static int below(uint64_t *state, int limit)
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

static void make_traffic(
    struct traffic *traffic, const struct job *job, uint64_t *random, size_t bytes, int messages)
{
    *traffic = (struct traffic){
        .bytes = bytes, .messages = messages, .order = allocate((size_t)messages, sizeof(int))
    };
    for (int from = 0; from < job->size; from++)
        for (int to = 0; to < job->size; to++)
            for (int kind = 0; kind < 2; kind++) {
                /* Between two ranks all of them: next and previous are the same rank then. */
                if (job->size > 2 && below(random, 3) == 0) continue;
                traffic->plan[traffic->count++] = (struct channel_plan){ .kind = (enum channel_kind)kind,
                    .from = from,
                    .to = to,
                    .send_buffers = 1 + below(random, 3),
                    .receive_buffers = 1 + below(random, 3) };
            }
    for (int i = 0; i < messages; i++) {
        struct channel_plan *plan = &traffic->plan[traffic->order[i] = below(random, traffic->count)];
        plan->messages++;
        if (plan->from != plan->to) traffic->transfers += (plan->from == job->rank) + (plan->to == job->rank);
    }
}

static uint32_t word(int step, int channel, int message, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ (uint32_t)(step * 64 + channel) * 40503u ^
                 (uint32_t)message * 0x01000193u;
    x ^= x >> 15;
    return x * 0x2c1b3c6du;
}

static void fill(float *buffer, size_t bytes, int step, int channel, int message)
{
    uint32_t *words = (uint32_t *)buffer;
    for (size_t i = 0; i < bytes / 4; i++) words[i] = word(step, channel, message, i);
}

static size_t count_wrong(const float *buffer, size_t bytes, int step, int channel, int message)
{
    const uint32_t *words = (const uint32_t *)buffer;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes / 4; i++) wrong += words[i] != word(step, channel, message, i);
    return wrong;
}

static void compute(uint64_t *random)
{
    const double seconds = 1e-6 * below(random, 200), start = seconds_now();
    while (seconds_now() - start < seconds) continue;
}

static void check_records(
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
        const bool local = plan->from == plan->to;
        CHECK(sends[c] == (!local && plan->from == job->rank ? plan->messages : 0), "channel %d: %d sends", c,
            sends[c]);
        CHECK(receives[c] == (!local && plan->to == job->rank ? plan->messages : 0),
            "channel %d: %d receives", c, receives[c]);
    }
}

/* A step in which each message is waited for in one order common to all ranks, and each receive is posted
   when its buffer is free. With one buffer or more that cannot deadlock, even where every send waits for its
   receive. */
static void run_step(struct channels *channels, const struct traffic *traffic, const struct job *job,
    int step, uint64_t *random)
{
    int posted[MOST_CHANNELS] = { 0 }, sent[MOST_CHANNELS] = { 0 }, received[MOST_CHANNELS] = { 0 };
    for (int c = 0; c < traffic->count; c++) {
        const struct channel_plan *plan = &traffic->plan[c];
        if (plan->to != job->rank) continue;
        for (; posted[c] < plan->messages && posted[c] < plan->receive_buffers; posted[c]++)
            channel_receive(channels, c, posted[c]);
    }
    for (int i = 0; i < traffic->messages; i++, progress.count++) {
        const int c = traffic->order[i];
        const struct channel_plan *plan = &traffic->plan[c];
        if (plan->from == job->rank) {
            const int buffer =
                sent[c] % (plan->from == plan->to ? plan->receive_buffers : plan->send_buffers);
            channel_await_send(channels, c, buffer);
            compute(random);
            fill(channel_send_buffer(channels, c, buffer), traffic->bytes, step, c, sent[c]);
            channel_send(channels, c, buffer);
            sent[c]++;
        }
        if (plan->to == job->rank) {
            const int buffer = received[c] % plan->receive_buffers;
            channel_await_receive(channels, c, buffer);
            const float *data = channel_receive_buffer(channels, c, buffer);
            const size_t wrong = count_wrong(data, traffic->bytes, step, c, received[c]);
            CHECK(wrong == 0, "step %d channel %d message %d: %zu of %zu words are wrong", step, c,
                received[c], wrong, traffic->bytes / 4);
            received[c]++;
            if (posted[c] < plan->messages) channel_receive(channels, c, posted[c]++ % plan->receive_buffers);
            compute(random);
        }
    }
    const struct transfer *transfers;
    int count;
    channels_finish_step(channels, &transfers, &count);
    check_records(traffic, job, transfers, count);
}

static void run_traffic(struct job *job, uint64_t seed, size_t bytes, int messages, bool overlap)
{
    uint64_t random = seed, own = seed + 1 + (uint64_t)job->rank;
    struct traffic traffic;
    make_traffic(&traffic, job, &random, bytes, messages);
    const struct channels_request request = { .transport = "mpi",
        .job = job,
        .device = &fake_device,
        .plan = traffic.plan,
        .count = traffic.count,
        .message_bytes = bytes,
        .overlap = overlap,
        .transfers_a_step = traffic.transfers };
    struct channels *channels = NULL;
    struct text error = { 0 };
    const bool opened = channels_open(&request, &channels, &error);
    CHECK(opened, "%s", error.data);
    CHECK(fake_held == channels_bytes(traffic.plan, traffic.count, job->rank, bytes),
        "%zu bytes are held, %zu were planned", fake_held,
        channels_bytes(traffic.plan, traffic.count, job->rank, bytes));
    for (int step = 1; step <= STEPS; step++) run_step(channels, &traffic, job, step, &own);
    job_barrier(job);
    channels_close(channels);
    CHECK(fake_held == 0, "%zu bytes are still held", fake_held);
    free(traffic.order);
}

int main(int argc, char **argv)
{
    struct job job;
    job_start(&job, &argc, &argv);
    const struct {
        size_t bytes;
        int messages;
    } sizes[] = { { 64, 200 }, { 4096, 100 }, { 100000, 40 }, { (size_t)4 << 20, 12 } };
    uint64_t seed = 20250101;
    struct watchdog *watchdog = watchdog_start(&job, &progress, 15.0); /* a broken FIFO can hang */
    for (int round = 0; round < 3; round++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (int overlap = 0; overlap < 2; overlap++)
                run_traffic(&job, seed++, sizes[i].bytes, sizes[i].messages, overlap);
    job_barrier(&job);
    watchdog_stop(watchdog);
    job_end(&job);
    return check_result();
}
