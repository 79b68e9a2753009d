/* The orders in which the double runs streams: legal in every mode, and such that a missing wait shows. */
#include "test_child.h"
#include "streams.h"
#include <atomic>
#include <pthread.h>
#include <set>
#include <vector>

static cudaStream_t new_stream(unsigned flags = cudaStreamNonBlocking)
{
    cudaStream_t stream = nullptr;
    CHECK(cudaStreamCreateWithFlags(&stream, flags) == cudaSuccess, "a stream");
    return stream;
}

static cudaEvent_t new_event()
{
    cudaEvent_t event = nullptr;
    CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess, "an event");
    return event;
}

/* An operation that notes its number when it runs. */
static std::vector<int> ran;
static void note(cudaStream_t stream, int number)
{
    double_enqueue(stream, { "note", nullptr, [=] { ran.push_back(number); } });
}
static long place(int number)
{
    for (size_t i = 0; i < ran.size(); i++)
        if (ran[i] == number) return (long)i;
    return -1;
}

/* Four streams of ten operations; number 10 s + i. Stream s > 0 waits before its fifth for the third of
 * stream s - 1. */
static void four_streams(cudaStream_t *streams)
{
    cudaEvent_t events[4];
    for (int s = 0; s < 4; s++) {
        streams[s] = new_stream();
        events[s] = new_event();
        for (int i = 0; i < 10; i++) {
            if (s > 0 && i == 5)
                CHECK(cudaStreamWaitEvent(streams[s], events[s - 1], 0) == cudaSuccess, "wait");
            note(streams[s], 10 * s + i);
            if (i == 3) CHECK(cudaEventRecord(events[s], streams[s]) == cudaSuccess, "record");
        }
    }
}

static int legal()
{
    cudaStream_t streams[4];
    four_streams(streams);
    CHECK(cudaDeviceSynchronize() == cudaSuccess, "synchronise");
    CHECK(ran.size() == 40, "%zu operations ran", ran.size());
    for (int s = 0; s < 4; s++) {
        for (int i = 1; i < 10; i++)
            CHECK(place(10 * s + i - 1) < place(10 * s + i), "operation %d of stream %d", i, s);
        if (s > 0) CHECK(place(10 * s - 10 + 3) < place(10 * s + 5), "the wait of stream %d", s);
    }
    printf("order");
    for (int number : ran) printf(" %d", number);
    printf("\n");
    return check_result();
}

/* Eager: each has run when its enqueue returns. */
static int eager()
{
    cudaStream_t streams[4];
    four_streams(streams);
    CHECK(ran.size() == 40, "%zu of 40 had run before anything waited", ran.size());
    return check_result();
}

/* Lazy: nothing before a wait, and then what it needs. */
static int lazy()
{
    cudaStream_t streams[4];
    four_streams(streams);
    CHECK(ran.empty(), "%zu had run before anything waited", ran.size());
    cudaStreamSynchronize(streams[1]);
    CHECK(ran.size() == 14, "%zu ran: stream 1, and of stream 0 what it waits for", ran.size());
    CHECK(place(4) < 0 && place(20) < 0, "others ran");
    cudaEvent_t event = new_event();
    note(streams[0], 100);
    cudaEventRecord(event, streams[0]);
    note(streams[0], 101);
    cudaEventSynchronize(event);
    CHECK(place(100) > 0 && place(101) < 0, "an event waits for what is before it");
    while (cudaStreamQuery(streams[3]) == cudaErrorNotReady) {
    }
    CHECK(place(39) > 0, "queries make progress");
    return check_result();
}

/* ---- a missing wait ---- */
__global__ void scale(int n, const float *x, float factor, float *y)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = x[i] * factor;
}

/* y = 2 x on one stream, z = 3 y on another; 0 where z is right. */
static int producer_and_consumer(bool wait)
{
    enum { N = 1000 };
    float *x, *y, *z, *host;
    cudaMalloc((void **)&x, N * sizeof *x);
    cudaMalloc((void **)&y, N * sizeof *y);
    cudaMalloc((void **)&z, N * sizeof *z);
    cudaHostAlloc((void **)&host, N * sizeof *host, cudaHostAllocDefault);
    for (int i = 0; i < N; i++) host[i] = (float)i;
    const cudaStream_t producer = new_stream(), consumer = new_stream();
    const cudaEvent_t produced = new_event();
    cudaMemcpyAsync(x, host, N * sizeof *x, cudaMemcpyHostToDevice, producer);
    cudaStreamSynchronize(producer);
    LAUNCH(scale, 8, 128, 0, producer, N, x, 2.0f, y);
    cudaEventRecord(produced, producer);
    if (wait) cudaStreamWaitEvent(consumer, produced, 0);
    LAUNCH(scale, 8, 128, 0, consumer, N, y, 3.0f, z);
    cudaMemcpyAsync(host, z, N * sizeof *x, cudaMemcpyDeviceToHost, consumer);
    cudaStreamSynchronize(consumer);
    int wrong = 0;
    for (int i = 0; i < N; i++) wrong += host[i] != (float)(6 * i);
    return wrong ? 9 : 0;
}

/* ---- hardware queues and the launch limit: a receive whose message this process itself sends later ---- */
static bool sent;
static void receive_then_compute(cudaStream_t receiving)
{
    double_enqueue(receiving, { "receive", [] { return sent; }, [] { ran.push_back(0); }, false });
    note(receiving, 1);
}
static void send_later(cudaStream_t sending)
{
    double_enqueue(sending, { "send", nullptr, [] {
                                 sent = true;
                                 ran.push_back(2);
                             } });
}
static int receive_ahead()
{
    const cudaStream_t receiving = new_stream(), sending = new_stream();
    receive_then_compute(receiving);
    send_later(sending);
    cudaDeviceSynchronize();
    CHECK(ran == (std::vector<int>{ 2, 0, 1 }), "the receive waits for the send");
    return check_result();
}

/* With DOUBLE_LAUNCH_LIMIT=3 and lazily: enqueues block until one ran. */
static int limit()
{
    const cudaStream_t stream = new_stream(), other = new_stream();
    for (int i = 0; i < 10; i++) {
        note(stream, i);
        CHECK((int)ran.size() == (i < 3 ? 0 : i - 2), "%zu ran after %d", ran.size(), i + 1);
    }
    note(other, 10);
    CHECK(ran.size() == 7, "another stream has room of its own: %zu", ran.size());
    cudaDeviceSynchronize();
    CHECK(ran.size() == 11, "%zu", ran.size());
    return check_result();
}

/* Memory is not given back while something enqueued may use it. */
static int free_waits()
{
    float *y = nullptr;
    cudaMalloc((void **)&y, sizeof *y);
    note(new_stream(), 1);
    CHECK(ran.empty(), "lazily, nothing has run");
    CHECK(cudaFree(y) == cudaSuccess && ran.size() == 1, "cudaFree waits for the device");
    return check_result();
}

/* An operation that waits for something outside the process does not end as a deadlock. */
static int outside()
{
    static std::atomic<int> polls;
    const cudaStream_t stream = new_stream();
    double_enqueue(stream, { "from outside", [] { return ++polls > 100; }, [] { ran.push_back(1); } });
    cudaStreamSynchronize(stream);
    CHECK(ran.size() == 1 && polls == 101, "%d polls", polls.load());
    return check_result();
}

/* Two host threads, each with a stream of its own. */
static void *use_a_stream(void *argument)
{
    const cudaStream_t stream = new_stream();
    const cudaEvent_t event = new_event();
    int *count = (int *)argument;
    for (int i = 0; i < 200; i++) {
        double_enqueue(stream, { "count", nullptr, [=] { ++*count; } });
        cudaEventRecord(event, stream);
        if (i % 3 == 0) {
            while (cudaEventQuery(event) != cudaSuccess) {
            }
        } else if (i % 3 == 1) {
            cudaEventSynchronize(event);
        }
    }
    cudaStreamSynchronize(stream);
    return nullptr;
}
static int threads()
{
    int counts[2] = { 0, 0 };
    pthread_t other;
    pthread_create(&other, nullptr, use_a_stream, &counts[1]);
    use_a_stream(&counts[0]);
    pthread_join(other, nullptr);
    CHECK(counts[0] == 200 && counts[1] == 200, "%d and %d", counts[0], counts[1]);
    return check_result();
}

/* The default stream goes after what is before it on blocking streams, and before what comes after it. */
static int default_stream()
{
    const cudaStream_t blocking = new_stream(cudaStreamDefault), free_one = new_stream();
    const unsigned long before = double_default_stream_uses();
    note(blocking, 0);
    note(nullptr, 1);
    note(blocking, 2);
    note(free_one, 3);
    CHECK(double_default_stream_uses() == before + 1, "one use");
    cudaDeviceSynchronize();
    CHECK(place(0) < place(1) && place(1) < place(2), "the default stream's place");
    CHECK(double_default_stream_uses() == before + 1, "waiting for the device is none");
    printf("free %ld\n", place(3));
    return check_result();
}

static const test_case cases[] = {
    { "legal", legal },
    { "eager", eager },
    { "lazy", lazy },
    { "ordered", [] { return producer_and_consumer(true); } },
    { "unordered", [] { return producer_and_consumer(false); } },
    { "receive_ahead", receive_ahead },
    { "limit", limit },
    { "free_waits", free_waits },
    { "outside", outside },
    { "threads", threads },
    { "default_stream", default_stream },
};

#define CHECK_RIGHT(environment, name)                                                                       \
    do {                                                                                                     \
        const outcome child = run_case(environment, name);                                                   \
        CHECK(child.code == 0, "%s %s: %d: %s", std::string(environment).c_str(), name, child.code,          \
            child.text.c_str());                                                                             \
    } while (0)

int main(int argc, char **argv)
{
    if (argc > 1) return run_named(cases, argv[1]);
#if defined(__SANITIZE_THREAD__)
    printf("skipped: operations of several streams note what ran in one list\n");
    return 77;
#endif
    std::set<std::string> orders;
    int wrong = 0;
    for (int seed = 1; seed <= 10; seed++) {
        const std::string random = "DOUBLE_ORDER=random:" + std::to_string(seed);
        const outcome it = run_case(random, "legal");
        CHECK(it.code == 0, "%s: %s", random.c_str(), it.text.c_str());
        orders.insert(it.text);
        CHECK_RIGHT(random, "ordered");
        CHECK_RIGHT(random, "receive_ahead");
        CHECK_RIGHT(random, "threads");
        CHECK_RIGHT(random, "default_stream");
        wrong += run_case(random, "unordered").code == 9;
    }
    CHECK(orders.size() > 5, "ten seeds give %zu orders", orders.size());
    CHECK(
        wrong > 0 && wrong < 10, "without the wait the result is wrong for some seeds: for %d of 10", wrong);
    for (const char *order : { "DOUBLE_ORDER=eager", "DOUBLE_ORDER=lazy" })
        for (const char *queues : { " DOUBLE_QUEUES=1", " DOUBLE_QUEUES=3", "" }) {
            const std::string environment = std::string(order) + queues;
            for (const char *name : { "legal", "ordered", "outside", "threads", "default_stream" })
                CHECK_RIGHT(environment, name);
        }
    CHECK_RIGHT("DOUBLE_ORDER=eager", "eager");
    CHECK_RIGHT("DOUBLE_ORDER=lazy", "lazy");
    CHECK_RIGHT("DOUBLE_ORDER=lazy", "free_waits");
    CHECK(run_case("DOUBLE_ORDER=lazy", "unordered").code == 9, "lazily, the consumer runs first");
    CHECK_RIGHT("DOUBLE_ORDER=eager", "unordered");

    CHECK_ENDS("DOUBLE_QUEUES=1", "receive_ahead", "deadlock between streams",
        "stream 0 (2 waiting) is at 'receive'", "stream 1 (1 waiting) is at 'send' in hardware queue 0");
    CHECK_RIGHT("DOUBLE_QUEUES=2", "receive_ahead");
    CHECK_RIGHT("DOUBLE_QUEUES=32", "receive_ahead");
    CHECK_RIGHT("DOUBLE_ORDER=lazy DOUBLE_LAUNCH_LIMIT=3", "limit");
    CHECK_ENDS("DOUBLE_LAUNCH_LIMIT=1", "receive_ahead", "deadlock between streams", "is at 'receive'");
    CHECK_RIGHT("DOUBLE_LAUNCH_LIMIT=2", "receive_ahead");
    CHECK_ENDS("DOUBLE_ORDER=fast", "legal", "DOUBLE_ORDER=fast is none of random:SEED, eager, lazy");
    CHECK_ENDS("DOUBLE_QUEUES=x", "legal", "DOUBLE_QUEUES=x is not a whole number from 1 to 1024");
    return check_result();
}
