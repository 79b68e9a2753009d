/* Every channel is a FIFO and every message arrives whole, whatever the pattern: random channels between all
   ranks and to themselves, random order of messages, random compute times; small and large messages; with and
   without overlap. */
#include "traffic.h"
#include "channel/call.h"
#include "fake_device.h"

enum { STEPS = 3 };
static struct progress progress = { .current = -1 };

static uint32_t word(const struct message *message, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u ^ (uint32_t)(message->step * 64 + message->channel) * 40503u ^
                 (uint32_t)message->nth * 0x01000193u;
    x ^= x >> 15;
    return x * 0x2c1b3c6du;
}

static void fill(void *context, const struct message *message, float *buffer, size_t bytes)
{
    (void)context;
    uint32_t *words = (uint32_t *)buffer;
    for (size_t i = 0; i < bytes / 4; i++) words[i] = word(message, i);
}

static void check(void *context, const struct message *message, float *buffer, size_t bytes)
{
    (void)context;
    const uint32_t *words = (const uint32_t *)buffer;
    size_t wrong = 0;
    for (size_t i = 0; i < bytes / 4; i++) wrong += words[i] != word(message, i);
    CHECK(wrong == 0, "step %d channel %d message %d: %zu of %zu words are wrong", message->step,
        message->channel, message->nth, wrong, bytes / 4);
    progress.count++;
}

static void compute(void *context)
{
    const double seconds = 1e-6 * below(context, 200), start = seconds_now();
    while (seconds_now() - start < seconds) continue;
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
    const struct content content = { .context = &own, .fill = fill, .check = check, .compute = compute };
    for (int step = 1; step <= STEPS; step++) run_step(channels, &traffic, job, step, &content);
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
