/* A device is what was asked for, or there is one line that says why not; and its memory, events and flips
   are as device.h has them. */
#include "../check.h"
#include "variants.h"
#include "device/kinds.h"
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

static struct device_request request = {
    .kind = "host", .threads = 2, .microbatch_size = 2, .sequence = 32, .hidden = 64, .heads = 4, .ffn = 256
};

static void refused(const char *kind, const char *says)
{
    struct text error = { 0 };
    struct device *device = NULL;
    request.kind = kind;
    CHECK(!device_open(&request, &device, &error), "'%s' opens", kind);
    CHECK(error.data && strstr(error.data, says) && !strchr(error.data, '\n'), "'%s': %s", kind,
        error.data ? error.data : "no message");
    text_free(&error);
    request.kind = "host";
}

static void other_kinds_are_refused(void)
{
    refused("cuda", "device 'cuda': this build has no CUDA");
    refused("hots",
        "device 'hots': must be 'auto', 'host', 'cuda', 'definition' or 'rehearsal'; did you mean 'host'?");
    setenv("PIPELEAF_INSTRUCTION_SET", "sse9", 1);
    refused("host", "PIPELEAF_INSTRUCTION_SET=sse9: there is no such instruction set; here it can be ");
    unsetenv("PIPELEAF_INSTRUCTION_SET");
}

static void auto_is_the_host_unless_a_gpu_is_visible(void)
{
    struct text error = { 0 };
    const char *kind = auto_kind(false, false, &error);
    CHECK(kind && strcmp(kind, "host") == 0 && error.length == 0, "without a GPU");
    kind = auto_kind(true, true, &error);
    CHECK(kind && strcmp(kind, "cuda") == 0 && error.length == 0, "with a GPU and CUDA");
    CHECK(!auto_kind(true, false, &error), "with a GPU and no CUDA");
    CHECK(error.data && strstr(error.data, "device='host'"), "%s", error.data ? error.data : "no message");
    text_free(&error);

    char root[] = "/tmp/pipeleaf-test-XXXXXX", path[256];
    CHECK(mkdtemp(root) && !gpu_visible(root), "an empty machine shows a GPU");
    snprintf(path, sizeof path, "%s/dev", root);
    mkdir(path, 0700);
    strcat(path, "/nvidia0");
    FILE *file = fopen(path, "w");
    CHECK(file && gpu_visible(root), "/dev/nvidia0 is not seen");
    if (file) fclose(file);
    remove(path);
    *strrchr(path, '/') = 0;
    rmdir(path);
    rmdir(root);
}

static void a_variant_can_be_forced(void)
{
    struct devices devices = open_devices(request, (const int[]){ 1, 2, 0 });
    CHECK(devices.count >= 2, "%d devices", devices.count);
    for (int i = 0; i < devices.count; i++) {
        const struct device *d = devices.device[i];
        const char *threads = d->threads == 1 ? "1 thread" : "2 threads";
        CHECK(
            strcmp(d->kind, "host") == 0 && strstr(d->name, "host, ") == d->name && strstr(d->name, threads),
            "%s", d->name);
        if (strcmp(d->variant, "avx512") == 0) CHECK(strstr(d->name, "AVX-512"), "%s", d->name);
        if (strcmp(d->variant, "avx2") == 0) CHECK(strstr(d->name, "AVX2"), "%s", d->name);
#if defined(__x86_64__)
        if (strcmp(d->variant, "generic") == 0) CHECK(strstr(d->name, "slow"), "%s", d->name);
#endif
    }
    close_devices(&devices);
}

static void memory_is_aligned_zeroed_and_counted(struct device *d)
{
    static const size_t sizes[] = { 1, 255, 256, 257, 5000, 3000000 };
    enum { SIZES = sizeof sizes / sizeof sizes[0] };
    unsigned char *memory[SIZES];
    const size_t before = d->held(d);
    size_t expected = before;
    for (int i = 0; i < SIZES; i++) {
        memory[i] = d->allocate(d, sizes[i]);
        expected += sizes[i];
        CHECK((uintptr_t)memory[i] % 256 == 0, "%s: %zu bytes at %p", d->name, sizes[i], (void *)memory[i]);
        size_t set = 0;
        for (size_t j = 0; j < sizes[i]; j++) set += memory[i][j] != 0;
        CHECK(set == 0, "%s: %zu of %zu bytes are not zero", d->name, set, sizes[i]);
        CHECK(d->held(d) == expected, "%s holds %zu, expected %zu", d->name, d->held(d), expected);
    }
    const size_t last = sizes[SIZES - 1];
    unsigned char *pattern = allocate(last, 1), *back = allocate(last, 1);
    for (size_t j = 0; j < last; j++) pattern[j] = (unsigned char)(j * 7 + j / 256);
    d->upload(d, memory[SIZES - 1], pattern, last);
    void *other = d->allocate(d, last);
    d->copy(d, other, memory[SIZES - 1], last);
    d->zero(d, memory[SIZES - 1], last - 1);
    d->download(d, back, other, last);
    CHECK(memcmp(pattern, back, last) == 0, "%s: what was uploaded and copied comes back", d->name);
    d->download(d, back, memory[SIZES - 1], last);
    size_t set = 0;
    for (size_t j = 0; j + 1 < last; j++) set += back[j] != 0;
    CHECK(set == 0 && back[last - 1] == pattern[last - 1], "%s: zero leaves %zu bytes", d->name, set);
    d->release(d, other);
    for (int i = 0; i < SIZES; i++) d->release(d, memory[i]);
    d->release(d, NULL);
    CHECK(d->held(d) == before, "%s holds %zu at the end", d->name, d->held(d));
    free(pattern), free(back);
}

static void events_tell_the_time(struct device *d)
{
    struct event *first = d->event_create(d), *second = d->event_create(d);
    CHECK(!d->event_reached(d, first), "%s: an event is reached before it is recorded", d->name);
    const double before = seconds_now();
    d->event_record(d, first);
    usleep(2000);
    d->event_record(d, second);
    d->synchronize(d);
    const double after = seconds_now();
    CHECK(d->event_reached(d, first) && d->event_reached(d, second), "%s: events are not reached", d->name);
    const double a = d->event_seconds(d, first), b = d->event_seconds(d, second);
    CHECK(before <= a && a + 0.002 <= b && b <= after, "%s: %g %g %g %g", d->name, before, a, b, after);
    d->event_destroy(d, first);
    d->event_destroy(d, second);
}

static void one_bit_is_flipped(struct device *d)
{
    float *x = d->allocate(d, 100 * sizeof(float));
    d->flip_bit(d, x, 33, 31);
    d->flip_bit(d, x, 34, 0);
    for (int i = 0; i < 100; i++)
        CHECK(pl_bits(x[i]) == (i == 33 ? 0x80000000u : i == 34), "%s: element %d is %08x", d->name, i,
            pl_bits(x[i]));
    d->release(d, x);
}

static void rates_are_measured(struct device *d)
{
    const double copy = d->measure_copy(d), peak = d->measure_peak(d);
    CHECK(copy > 1e8 && copy < 1e13, "%s copies %g bytes/s", d->name, copy);
    CHECK(peak > 1e6 && peak < 1e15, "%s computes %g FLOP/s", d->name, peak);
    printf("%s: %.1f GFLOP/s, copy %.1f GB/s\n", d->name, peak * 1e-9, copy * 1e-9);
}

struct looks {
    pthread_t asked;
    int by_it, by_others;
};

static void look(void *argument)
{
    struct looks *looks = argument;
    if (pthread_equal(looks->asked, pthread_self()))
        looks->by_it++;
    else
        looks->by_others++;
}

/* What the device is asked to call is called within long kernels, not after them alone, and by the thread
   that asked. */
static void kernels_look_up(void)
{
    enum { N = 256, H = 256, FFN = 1024, HEADS = 4, TOKENS = 64 };
    struct devices devices = open_devices(request, (const int[]){ 1, 2, 0 });
    for (int i = 0; i < devices.count; i++) {
        struct device *d = devices.device[i];
        struct looks looks = { .asked = pthread_self() };
        d->meanwhile = look, d->meanwhile_argument = &looks;
        float *a = d->allocate(d, 2 * N * FFN * sizeof(float)), *b = d->allocate(d, FFN * H * sizeof(float));
        const struct gemm g = { .form = GEMM_NN, .m = N, .n = FFN, .k = H, .a = a, .b = b, .c = a + N * FFN };
        d->gemm(d, &g);
        CHECK(looks.by_it >= 4, "%s: a product of %d columns looks up %d times", d->name, FFN, looks.by_it);
        looks.by_it = 0;
        const struct attention at = { .batch = 2,
            .sequence = TOKENS / 2,
            .hidden = TOKENS,
            .heads = HEADS,
            .qkv = a,
            .out = a + 3 * TOKENS * TOKENS,
            .maximum = b,
            .inverse = b + TOKENS * HEADS };
        d->attention_forward(d, &at);
        CHECK(
            looks.by_it >= 4, "%s: attention of %d heads looks up %d times", d->name, 2 * HEADS, looks.by_it);
        CHECK(looks.by_others == 0, "%s: other threads look up %d times", d->name, looks.by_others);
        d->meanwhile = NULL;
        d->release(d, a), d->release(d, b);
    }
    close_devices(&devices);
}

int main(void)
{
    other_kinds_are_refused();
    auto_is_the_host_unless_a_gpu_is_visible();
    a_variant_can_be_forced();
    kernels_look_up();
    for (int i = 0; i < 2; i++) {
        struct text error = { 0 };
        struct device *d;
        request.kind = i ? "definition" : "host";
        if (!device_open(&request, &d, &error)) fail("%s", error.data);
        d->check_arithmetic(d);
        memory_is_aligned_zeroed_and_counted(d);
        events_tell_the_time(d);
        one_bit_is_flipped(d);
        rates_are_measured(d);
        d->close(d);
    }
    return check_result();
}
