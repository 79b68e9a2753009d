/* The kernels in the CUDA device's table give the bits of the definition, one after the other as a step has
   them; and once all was used, a step allocates nothing. */
#include "device_tests.h"

static uint64_t state = 1;

/* A tensor on both sides. */
struct pair {
    float *host, *gpu;
    size_t count;
};

static struct pair pair_make(struct device *device, size_t count)
{
    struct pair pair = { allocate(count, sizeof(float)), device->allocate(device, count * sizeof(float)),
        count };
    fill(pair.host, count, TAME, &state);
    device->upload(device, pair.gpu, pair.host, count * sizeof(float));
    return pair;
}

static void pair_free(struct device *device, struct pair *pair)
{
    free(pair->host);
    device->release(device, pair->gpu);
}

static void is_right(struct device *device, const char *what, const struct pair *pair)
{
    size_t at;
    float *found = allocate(pair->count, sizeof *found);
    device->download(device, found, pair->gpu, pair->count * sizeof *found);
    CHECK(same_bits(pair->host, found, pair->count, &at), "%s: [%zu] is %a, not %a", what, at,
        (double)found[at], (double)pair->host[at]);
    free(found);
}

enum { N = 80, H = 48, F = 192, ROWS = 2 * 3 * 40 };

/* Every kernel of the table once, on the device; `definition` computes the same on the host. */
enum tensor {
    X,
    WIDE,
    BACK,
    SQUARE,
    OUT,
    MEAN,
    RSTD,
    GAIN,
    BIAS,
    UP,
    DOWN,
    MAXIMUM,
    INVERSE,
    ROW_DOT,
    LOSS,
    TENSORS
};
static const size_t counts[TENSORS] = { N * H, N * 3 * H, N * 3 * H, H *H, N *H, N, N, F, F, N *F, N *F, ROWS,
    ROWS, ROWS, 1 };

static void compute(struct device *device, float *const t[TENSORS])
{
    device->norm_forward(device, N, H, t[X], t[GAIN], t[BIAS], t[OUT], t[MEAN], t[RSTD]);
    device->norm_again(device, N, H, t[X], t[GAIN], t[BIAS], t[MEAN], t[RSTD], t[OUT]);
    struct attention a = { 2, 40, H, 3, t[WIDE], t[OUT], t[MAXIMUM], t[INVERSE], NULL, NULL, NULL };
    device->attention_forward(device, &a);
    a.dout = t[X], a.row_dot = t[ROW_DOT], a.dqkv = t[BACK];
    device->attention_backward(device, &a);
    device->gemm(device, &(struct gemm){ .form = GEMM_NN,
                             .m = N,
                             .n = H,
                             .k = H,
                             .a = t[OUT],
                             .b = t[SQUARE],
                             .c = t[X],
                             .bias = t[BIAS],
                             .residual = t[X] });
    device->gemm(device, &(struct gemm){ .form = GEMM_TN,
                             .m = H,
                             .n = H,
                             .k = N,
                             .a = t[OUT],
                             .b = t[X],
                             .c = t[SQUARE],
                             .accumulate = true });
    device->gelu_forward(device, N * F, t[UP], t[DOWN]);
    device->gelu_backward(device, N * F, t[UP], t[DOWN], t[DOWN], t[UP]);
    device->norm_columns(device, N, H, t[X], t[OUT], t[MEAN], t[RSTD], t[GAIN], t[BIAS], true);
    device->norm_backward(device, N, H, t[X], t[OUT], t[GAIN], t[MEAN], t[RSTD], t[X], t[X]);
    device->column_sum(device, N, F, t[UP], t[GAIN], true);
    device->loss(device, N, H, t[X], t[OUT], 0.01f, t[OUT], t[LOSS], true);
    const struct random key = { .seed = 5, .purpose = RANDOM_TARGET, .step = 3, .deviation = 1.0f };
    device->random(device, &key, 1000, t[DOWN]);
    device->flip_bit(device, t[UP], 17, 22);
    device->round_boundary(device, N * H, t[X]);
}

static void digests_agree(struct device *device, const struct pair *x)
{
    struct digest right, found, *there = device->allocate(device, sizeof *there);
    definition_digest(x->count, x->host, 12345, &right);
    device->digest(device, x->count, x->gpu, 12345, there);
    device->download(device, &found, there, sizeof found);
    CHECK(digest_equal(right, found), "digest %llx is not %llx", (unsigned long long)found.sum,
        (unsigned long long)right.sum);
    device->release(device, there);
}

static void messages_are_copies(struct device *device, const struct pair *x)
{
    CHECK(device->operand_bytes(device, 100) == 0, "%zu bytes", device->operand_bytes(device, 100));
    const size_t bytes = x->count * sizeof(float);
    float *message = device->allocate(device, bytes), *y = device->allocate(device, bytes);
    device->pack_message(device, x->count, x->gpu, message);
    device->unpack_message(device, x->count, message, y);
    const struct pair unpacked = { x->host, y, x->count };
    is_right(device, "a message", &unpacked);
    device->release(device, message);
    device->release(device, y);
}

static void kernels_give_the_bits_of_the_definition(struct device *device)
{
    struct text error = { 0 };
    struct device *definition;
    struct device_request request = tiny;
    if (!definition_device_open(&request, &definition, &error)) fail("%s", error.data);
    struct pair pairs[TENSORS];
    float *host[TENSORS], *gpu[TENSORS];
    for (int i = 0; i < TENSORS; i++) {
        pairs[i] = pair_make(device, counts[i]);
        host[i] = pairs[i].host, gpu[i] = pairs[i].gpu;
    }
    compute(definition, host);
    compute(device, gpu);
    static const char *const names[TENSORS] = { "x", "qkv", "dqkv", "square", "out", "mean", "rstd", "gain",
        "bias", "up", "down", "maximum", "inverse", "row_dot", "loss" };
    for (int i = 0; i < TENSORS; i++) is_right(device, names[i], &pairs[i]);
    digests_agree(device, &pairs[UP]);
    messages_are_copies(device, &pairs[UP]);
    for (int i = 0; i < TENSORS; i++) pair_free(device, &pairs[i]);
    definition->close(definition);
}

static void a_step_allocates_nothing(struct device *device)
{
    float *gpu[TENSORS];
    for (int i = 0; i < TENSORS; i++) gpu[i] = device->allocate(device, counts[i] * sizeof(float));
    struct digest *digest = device->allocate(device, sizeof *digest);
    int *word = device->allocate_pinned(device, sizeof *word);
    struct event *event = device->event_create(device);
    unsigned long before = 0;
    for (int step = 0; step < 3; step++) {
        if (step == 1) before = allocated(); /* in the first all is used for the first time */
        device->start_clock(device);
        device->range_push(device, "F chunk 0 microbatch 0");
        compute(device, gpu);
        device->range_pop(device);
        device->digest(device, counts[X], gpu[X], 0, digest);
        device->event_record(device, event);
        device->store_word(device, word, step);
        device->synchronize(device);
    }
    CHECK(allocated() == before, "a step allocates");
    device->event_destroy(device, event);
    device->release_pinned(device, word);
    device->release(device, digest);
    for (int i = 0; i < TENSORS; i++) device->release(device, gpu[i]);
}

int main(void)
{
    struct device *device = open_device(tiny);
    kernels_give_the_bits_of_the_definition(device);
    a_step_allocates_nothing(device);
    CHECK(device->held(device) == 0, "%zu bytes held", device->held(device));
    device->close(device);
    return check_result();
}
