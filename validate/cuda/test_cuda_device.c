/* The CUDA device is what device.h says: memory, copies, events, clock and words; and a device that cannot
   work is refused with one line. On the double the machine has two GPUs. */
#include "device_tests.h"
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t state = 1;

/* ---- What is refused: each in a process of its own, for the environment is read when CUDA starts ---- */

static void refused(const char *variable, const char *value, struct device_request request, const char *says)
{
    int pipes[2];
    char line[1024] = "";
    if (pipe(pipes) != 0) fail("pipe");
    const pid_t child = fork();
    if (child == 0) {
        struct text error = { 0 };
        struct device *device = NULL;
        if (variable) setenv(variable, value, 1);
        if (variable && !*value) setenv("DOUBLE_DEVICES", "0", 1); /* it does not know the other variable */
        if (cuda_device_open(&request, &device, &error)) text_add(&error, "it opens");
        const ssize_t written = write(pipes[1], error.data, error.length);
        _exit(written == (ssize_t)error.length ? 0 : 1);
    }
    close(pipes[1]);
    const ssize_t length = read(pipes[0], line, sizeof line - 1);
    close(pipes[0]);
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0 && length > 0 && strstr(line, says) && !strchr(line, '\n'),
        "with %s=%s it says '%s', not '...%s...'", variable ? variable : "nothing", value ? value : "", line,
        says);
}

static void what_cannot_work_is_refused(void)
{
    struct device_request request = tiny;
    refused("CUDA_VISIBLE_DEVICES", "", request,
        "device 'cuda': the driver shows no GPU (CUDA_VISIBLE_DEVICES: )");
    request.bytes = (size_t)5 << 50;
    refused(NULL, NULL, request, "device 'cuda': 5629499.534 GB of tensors and ");
    request.bytes = SIZE_MAX;
    refused(NULL, NULL, request, " GB free: take more ranks, a smaller model or a smaller microbatch");
    request = tiny;
    request.vendor = true;
    static const char *const variables[] = { "NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION",
        "CUBLAS_EMULATION_STRATEGY", "CUBLASLT_HEURISTICS_LUT_FILE" };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        refused(variables[i], "1", request, variables[i]);
}

/* ---- What it says of itself ---- */

static void it_says_what_it_is(struct device *device)
{
    unsigned digits[5], domain, bus, slot;
    int sms, clock, memory;
    CHECK(strcmp(device->kind, "cuda") == 0 && !device->is_host && device->threads == 1, "%s", device->kind);
    CHECK(strstr(device->name, device->variant) && strncmp(device->variant, "sm_", 3) == 0, "'%s', '%s'",
        device->name, device->variant);
    CHECK(strlen(device->uuid) == 40 && sscanf(device->uuid, "GPU-%8x-%4x-%4x-%4x-%8x", &digits[0],
                                            &digits[1], &digits[2], &digits[3], &digits[4]) == 5,
        "'%s'", device->uuid);
    CHECK(sscanf(device->place, "%4x:%2x:%2x.0, %d SMs, %d MHz, memory %d MHz", &domain, &bus, &slot, &sms,
              &clock, &memory) == 6,
        "'%s'", device->place);
    CHECK(strcmp(device->arithmetic, "portable") == 0, "'%s'", device->arithmetic);
    CHECK(device->scratch >= 80 * sizeof(float), "%zu bytes of scratch", device->scratch);
    struct text lines = { 0 };
    device->describe(device, &lines);
    CHECK(lines.length == 0, "portable products are described: %s", lines.data);
    text_free(&lines);
    device->check_arithmetic(device);
    const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    CHECK(connections && strcmp(connections, "32") == 0, "%s", connections ? connections : "not set");
}

static void local_ranks_are_shared_out(void)
{
    int count = 0;
    CUDA_CALL(cudaGetDeviceCount(&count));
    struct device_request request = tiny;
    char last[48] = "";
    for (int rank = 0; rank <= count; rank++) {
        request.local_rank = rank;
        struct device *device = open_device(request);
        CHECK(((struct cuda_device *)device)->ordinal == rank % count,
            "local rank %d of %d GPUs is on GPU %d", rank, count, ((struct cuda_device *)device)->ordinal);
        CHECK(count == 1 || strcmp(device->uuid, last) != 0, "two GPUs are %s", last);
        snprintf(last, sizeof last, "%s", device->uuid);
        device->close(device);
    }
}

/* ---- Memory and copies ---- */

static void memory_is_counted_and_zeroed(struct device *device)
{
    enum { COUNT = 1001 };
    float host[COUNT], sent[COUNT];
    CHECK(device->held(device) == 0, "%zu bytes held", device->held(device));
    float *x = device->allocate(device, sizeof host), *y = device->allocate(device, sizeof host);
    CHECK((uintptr_t)x % 256 == 0 && (uintptr_t)y % 256 == 0, "%p, %p", (void *)x, (void *)y);
    CHECK(device->held(device) == 2 * sizeof host, "%zu bytes held", device->held(device));
    device->download(device, host, x, sizeof host);
    for (size_t i = 0; i < COUNT; i++) CHECK(pl_bits(host[i]) == 0, "[%zu] is %g", i, (double)host[i]);
    fill(sent, COUNT, WILD, &state);
    device->upload(device, x, sent, sizeof sent);
    device->copy(device, y, x, sizeof sent);
    device->zero(device, x + 1, sizeof *x);
    device->download(device, host, y, sizeof host);
    CHECK(memcmp(host, sent, sizeof sent) == 0, "a copy is another");
    device->download(device, host, x, sizeof host);
    CHECK(host[0] == sent[0] && pl_bits(host[1]) == 0 && host[2] == sent[2], "zeroed: %g, %g, %g",
        (double)host[0], (double)host[1], (double)host[2]);
    device->release(device, x);
    CHECK(device->held(device) == sizeof host, "%zu bytes held", device->held(device));
    device->release(device, y);
    device->release(device, NULL);
    char *pinned = device->allocate_pinned(device, 1000);
    int others = 0;
    for (size_t i = 0; i < 1000; i++) others += pinned[i] != 0;
    CHECK(others == 0 && device->held(device) == 0, "%d pinned bytes not 0; %zu bytes held", others,
        device->held(device));
    device->release_pinned(device, pinned);
}

struct beside {
    struct device *device;
    void *to;
    const void *from;
    size_t bytes;
    struct event *after, *done;
};

static void *ask_for_copy(void *argument)
{
    const struct beside *b = argument;
    b->device->copy_beside(b->device, b->to, b->from, b->bytes, b->after, b->done);
    return NULL;
}

/* What another thread asks for: copied after the event and not before; and the other way, awaited. */
static void copies_pass_beside(struct device *device)
{
    enum { COUNT = 5000, ROUNDS = 10 };
    const size_t bytes = COUNT * sizeof(float);
    float *x = device->allocate(device, bytes), *out = device->allocate_pinned(device, bytes);
    float *in = device->allocate_pinned(device, bytes), *right = allocate(COUNT, sizeof *right);
    struct event *made = device->event_create(device), *gone = device->event_create(device),
                 *come = device->event_create(device);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        struct random key = { .seed = round, .deviation = 1.0f };
        size_t at;
        device->random(device, &key, COUNT, x);
        device->event_record(device, made);
        struct beside back = { device, out, x, bytes, made, gone };
        pthread_t thread;
        pthread_create(&thread, NULL, ask_for_copy, &back);
        pthread_join(thread, NULL);
        device->event_await(device, gone);
        device->zero(device, x, bytes); /* not before it is copied */
        while (!device->event_reached(device, gone)) {
        }
        definition_random(&key, COUNT, right);
        CHECK(
            same_bits(right, out, COUNT, &at), "round %u: [%zu] was copied too early or too late", round, at);

        fill(in, COUNT, WILD, &state);
        device->event_record(device, made);
        struct beside forth = { device, x, in, bytes, made, come };
        pthread_create(&thread, NULL, ask_for_copy, &forth);
        pthread_join(thread, NULL);
        device->event_await(device, come);
        device->download(device, right, x, bytes);
        CHECK(memcmp(right, in, bytes) == 0, "round %u: what came beside was not awaited", round);
    }
    device->event_destroy(device, made);
    device->event_destroy(device, gone);
    device->event_destroy(device, come);
    device->release(device, x);
    device->release_pinned(device, out);
    device->release_pinned(device, in);
    free(right);
}

/* ---- Order and time ---- */

static void events_have_an_order_and_a_time(struct device *device)
{
    enum { COUNT = 50000 };
    const double slack = 2e-3; /* half a round trip at most, on a busy machine */
    float *x = device->allocate(device, COUNT * sizeof *x);
    struct event *first = device->event_create(device), *second = device->event_create(device);
    const struct random key = { .seed = 1, .deviation = 1.0f };
    for (int step = 0; step < 3; step++) {
        device->start_clock(device);
        const double before = seconds_now();
        device->event_record(device, first);
        for (int i = 0; i < 3; i++) device->random(device, &key, COUNT, x);
        device->event_record(device, second);
        while (!device->event_reached(device, second)) {
        }
        const double after = seconds_now();
        CHECK(device->event_reached(device, first), "the second is reached before the first");
        const double a = device->event_seconds(device, first), b = device->event_seconds(device, second);
        CHECK(before - slack < a && a < b && b < after + slack,
            "step %d: %.6f and %.6f s after the beginning, which took %.6f s", step, a - before, b - before,
            after - before);
    }
    device->event_destroy(device, first);
    device->event_destroy(device, second);
    device->release(device, x);
}

static void a_word_is_stored_after_all_earlier_work(struct device *device)
{
    int *words = device->allocate_pinned(device, 2 * sizeof *words);
    struct event *before = device->event_create(device), *behind = device->event_create(device);
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < 10; i++) device->store_word(device, &words[1], 10 * round + i);
        device->event_record(device, before);
        device->store_word(device, &words[0], round);
        device->event_record(device, behind);
        bool reached = false;
        while (__atomic_load_n(&words[0], __ATOMIC_ACQUIRE) != round && !reached)
            reached = device->event_reached(device, behind);
        CHECK(words[0] == round && words[1] == 10 * round + 9, "round %d: the words are %d, %d", round,
            words[0], words[1]);
        CHECK(device->event_reached(device, before), "round %d: the word is there before the event", round);
        device->synchronize(device);
    }
    device->event_destroy(device, before);
    device->event_destroy(device, behind);
    device->release_pinned(device, words);
}

static void rates_are_measured(struct device *device)
{
    const double peak = device->measure_peak(device), copy = device->measure_copy(device);
    CHECK(isfinite(peak) && peak > 0.0, "%g FLOP/s", peak);
    CHECK(isfinite(copy) && copy > 0.0, "%g bytes/s", copy);
    const size_t before = free_memory();
    device->measure_peak(device), device->measure_copy(device);
    CHECK(free_memory() == before, "%zu bytes free became %zu", before, free_memory());
    CHECK(device->held(device) == 0, "%zu bytes held", device->held(device));
}

int main(void)
{
    setenv("DOUBLE_DEVICES", "2", 0);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    what_cannot_work_is_refused(); /* before CUDA starts here: what is forked later cannot use it */
    struct device *device = open_device(tiny);
    it_says_what_it_is(device);
    memory_is_counted_and_zeroed(device);
    copies_pass_beside(device);
    events_have_an_order_and_a_time(device);
    a_word_is_stored_after_all_earlier_work(device);
    rates_are_measured(device);
    device->close(device);
    local_ranks_are_shared_out();
    return check_result();
}
