/* Every variant of attention, forward and backward, gives the bits of its definition: for head sizes and
   sequences that nothing divides, around the edges of tiles, blocks and chunks, with any number of threads,
   and on numbers of all kinds. */
#include "../check.h"
#include "device/definition.h"
#include "variants.h"

enum { MOST_TOKENS = 600, MOST_COLUMNS = 264, MOST_ROWS = 2400 };

/* What attention reads and what it writes. */
struct tensors {
    float *qkv, *dout, *out, *maximum, *inverse, *row_dot, *dqkv;
};
static struct tensors expected, found;
static struct devices devices;
static uint64_t state = 1;

static struct tensors allocate_tensors(void)
{
    struct tensors t;
    t.qkv = allocate(MOST_TOKENS * MOST_COLUMNS * 3, sizeof(float));
    t.dqkv = allocate(MOST_TOKENS * MOST_COLUMNS * 3, sizeof(float));
    t.dout = allocate(MOST_TOKENS * MOST_COLUMNS, sizeof(float));
    t.out = allocate(MOST_TOKENS * MOST_COLUMNS, sizeof(float));
    t.maximum = allocate(MOST_ROWS, sizeof(float));
    t.inverse = allocate(MOST_ROWS, sizeof(float));
    t.row_dot = allocate(MOST_ROWS, sizeof(float));
    return t;
}

static void free_tensors(struct tensors *t)
{
    free(t->qkv), free(t->dqkv), free(t->dout), free(t->out);
    free(t->maximum), free(t->inverse), free(t->row_dot);
}

static void check_tensor(const struct attention *a, const struct device *device, enum wildness wildness,
    const char *name, const float *right, const float *given, size_t count)
{
    size_t at;
    CHECK(same_bits(right, given, count, &at),
        "%s[%zu] is %a, not %a: batch %zu, sequence %zu, hidden %zu, heads %zu, %s, %d threads, wildness %d",
        name, at, (double)given[at], (double)right[at], a->batch, a->sequence, a->hidden, a->heads,
        device->variant, device->threads, wildness);
}

/* Queries and keys are multiplied by `factor`. */
static void check_scaled_shape(
    size_t batch, size_t sequence, size_t heads, size_t size, enum wildness wildness, float factor)
{
    const size_t hidden = heads * size, tokens = batch * sequence, rows = tokens * heads;
    if (tokens > MOST_TOKENS || hidden > MOST_COLUMNS || rows > MOST_ROWS)
        fail("test_attention: too large a shape");
    fill(expected.qkv, tokens * hidden * 3, wildness, &state);
    fill(expected.dout, tokens * hidden, wildness, &state);
    for (size_t i = 0; i < tokens; i++)
        for (size_t c = 0; c < 2 * hidden; c++) expected.qkv[i * 3 * hidden + c] *= factor;
    struct attention a = { .batch = batch, .sequence = sequence, .hidden = hidden, .heads = heads };
    a.qkv = expected.qkv, a.out = expected.out, a.maximum = expected.maximum, a.inverse = expected.inverse;
    definition_attention_forward(&a);
    a.dout = expected.dout, a.row_dot = expected.row_dot, a.dqkv = expected.dqkv;
    definition_attention_backward(&a);

    for (int d = 0; d < devices.count; d++) {
        struct device *device = devices.device[d];
        struct attention b = a;
        b.out = found.out, b.maximum = found.maximum, b.inverse = found.inverse;
        b.row_dot = found.row_dot, b.dqkv = found.dqkv;
        /* Whatever is not written shows. */
        for (size_t i = 0; i < tokens * hidden; i++) found.out[i] = 12345.0f;
        for (size_t i = 0; i < tokens * hidden * 3; i++) found.dqkv[i] = 12345.0f;
        b.dout = NULL; /* forward has none */
        device->attention_forward(device, &b);
        b.dout = a.dout;
        device->attention_backward(device, &b);
        check_tensor(&a, device, wildness, "maximum", a.maximum, b.maximum, rows);
        check_tensor(&a, device, wildness, "inverse", a.inverse, b.inverse, rows);
        check_tensor(&a, device, wildness, "out", a.out, b.out, tokens * hidden);
        check_tensor(&a, device, wildness, "row_dot", a.row_dot, b.row_dot, rows);
        check_tensor(&a, device, wildness, "dqkv", a.dqkv, b.dqkv, tokens * hidden * 3);
    }
}

static void check_shape(size_t batch, size_t sequence, size_t heads, size_t size, enum wildness wildness)
{
    check_scaled_shape(batch, sequence, heads, size, wildness, 1.0f);
}

int main(void)
{
    expected = allocate_tensors(), found = allocate_tensors();
    const struct device_request request = {
        .microbatch_size = 2, .sequence = 400, .hidden = 128, .heads = 1, .ffn = 128
    };
    devices = open_devices(request, (const int[]){ 1, 2, 3, 0 });

    static const size_t sequences[] = { 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 50, 55,
        56, 57, 63, 64, 65, 95, 96, 97, 100, 111, 112, 113 };
    static const size_t sizes[] = { 1, 2, 3, 7, 8, 15, 16, 17, 24, 31, 32, 33, 47, 48, 49, 64, 65, 80, 128 };
    const size_t count = sizeof sequences / sizeof *sequences, size_count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < 3; j++)
            check_shape(1 + (i + j) % 2, sequences[i], 1 + (i + j) % 3 % 2,
                sizes[(i * 5 + j * 4) % size_count], (enum wildness)((i + j) % 3));
    for (size_t j = 0; j < size_count; j++) check_shape(1, 58, 2, sizes[j], TAME);

    /* Beyond one chunk, and two. */
    static const size_t longer[] = { 191, 192, 193, 223, 224, 225, 241, 385, 449 };
    for (size_t i = 0; i < sizeof longer / sizeof *longer; i++) {
        check_shape(1, longer[i], 1, sizes[(i * 3 + 2) % 9], TAME);
        check_shape(1, longer[i], 2, 5, (enum wildness)(i % 3));
    }
    check_shape(2, 200, 2, 24, WILD);
    check_shape(3, 65, 4, 17, BROKEN);
    /* All scores are zeros of either sign; and exponentials reach from 1 to 0 through the denormals. */
    check_scaled_shape(2, 65, 2, 1, TAME, 1e-30f);
    check_scaled_shape(2, 65, 2, 16, TAME, 9.0f);

    close_devices(&devices);
    free_tensors(&expected), free_tensors(&found);
    return check_result();
}
