/* Mode 'vendor': attention, forward and backward, is the definition's within what the precision of its
   products allows, and has the same bits when computed again; however it is cut into blocks of queries and
   groups of heads. It is a few products in a row, so that its tensors' relative error, by norms, is below 4
   (u + 2^-22), with u the unit roundoff of what products read and 2^-22 for what adds them up. */
#include "vendor_tests.h"
#include <math.h>

static uint64_t state = 1;

static double relative_error(const float *x, const float *right_one, size_t count)
{
    double difference = 0.0, size = 0.0;
    for (size_t i = 0; i < count; i++) {
        difference += pow((double)x[i] - (double)right_one[i], 2.0);
        size += pow((double)right_one[i], 2.0);
    }
    return sqrt(difference / size);
}

static float *received(struct device *device, const float *memory, size_t count)
{
    float *host = allocate(count, sizeof *host);
    device->download(device, host, memory, count * sizeof *host);
    return host;
}

static void compare(struct device *device, const char *name, const float *there, const float *right_one,
    size_t count, const struct attention *a)
{
    const double bound = 4.0 * (unit_roundoff(device->precision) + 0x1p-22);
    float *host = received(device, there, count);
    const double error = relative_error(host, right_one, count);
    CHECK(error <= bound, "%s, batch %zu sequence %zu hidden %zu heads %zu: %s is off by %g, not below %g",
        precisions[device->precision], a->batch, a->sequence, a->hidden, a->heads, name, error, bound);
    free(host);
}

static void check_attention(struct device *device, size_t batch, size_t sequence, size_t heads, size_t size)
{
    const size_t hidden = heads * size, count = batch * sequence * hidden, rows = batch * heads * sequence;
    const size_t counts[] = { 3 * count, count, count, rows, rows, rows, 3 * count };
    enum { QKV, DOUT, OUT, MAXIMUM, INVERSE, ROW_DOT, DQKV, ALL };
    float *host[ALL], *there[ALL];
    for (int i = 0; i < ALL; i++) {
        host[i] = allocate(counts[i], sizeof(float));
        fill(
            host[i], counts[i], i >= OUT ? BROKEN : TAME, &state); /* what was there before does not matter */
        there[i] = sent(device, host[i], counts[i]);
    }
    struct attention a = { batch, sequence, hidden, heads, host[QKV], host[OUT], host[MAXIMUM], host[INVERSE],
        NULL, NULL, NULL };
    definition_attention_forward(&a);
    a.dout = host[DOUT], a.row_dot = host[ROW_DOT], a.dqkv = host[DQKV];
    definition_attention_backward(&a);

    struct attention g = { batch, sequence, hidden, heads, there[QKV], there[OUT], there[MAXIMUM],
        there[INVERSE], NULL, NULL, NULL };
    device->attention_forward(device, &g);
    compare(device, "out", g.out, a.out, count, &a);
    compare(device, "inverse", g.inverse, a.inverse, rows, &a);
    compare(device, "maximum", g.maximum, a.maximum, rows, &a);
    g.dout = there[DOUT], g.row_dot = there[ROW_DOT], g.dqkv = there[DQKV];
    device->attention_backward(device, &g);
    compare(device, "dqkv", g.dqkv, a.dqkv, 3 * count, &a);

    size_t at;
    float *first = received(device, g.dqkv, 3 * count), *first_out = received(device, g.out, count);
    device->attention_forward(device, &g);
    device->attention_backward(device, &g);
    float *second = received(device, g.dqkv, 3 * count), *second_out = received(device, g.out, count);
    CHECK(same_bits(first, second, 3 * count, &at), "%s: dqkv[%zu] has other bits the second time",
        precisions[device->precision], at);
    CHECK(same_bits(first_out, second_out, count, &at), "%s: out[%zu] has other bits the second time",
        precisions[device->precision], at);
    free(first), free(second), free(first_out), free(second_out);
    for (int i = 0; i < ALL; i++) {
        free(host[i]);
        device->release(device, there[i]);
    }
}

/* Whole, in blocks of queries, and in groups of heads too. */
static void attention_is_right(struct device *device)
{
    struct vendor *vendor = ((struct cuda_device *)device)->vendor;
    const size_t whole = vendor->block_count;
    check_attention(device, 2, 40, 3, 16);
    check_attention(device, 1, 33, 2, 24);
    check_attention(device, 2, 1, 1, 5);
    vendor->block_count = 40 * 10 * 2;
    check_attention(device, 2, 40, 3, 16);
    vendor->block_count = 33 * 7;
    check_attention(device, 1, 33, 3, 7);
    vendor->block_count = 33;
    check_attention(device, 1, 33, 2, 8);
    vendor->block_count = whole;
}

static void longer_than_a_block(void)
{
    struct device_request request = tiny;
    request.vendor = true;
    request.microbatch_size = 1, request.sequence = 530, request.hidden = 8, request.heads = 1;
    struct device *device = open_device(request);
    check_attention(device, 1, 530, 1, 8);
    device->close(device);
}

static void blocks_fit_their_memory(void)
{
    static const size_t shapes[][3] = { { 1, 1, 1 }, { 96, 2048, (size_t)32 << 20 },
        { 96, 8192, (size_t)32 << 20 }, { 7, 100, 250 }, { 3, 100000, (size_t)32 << 20 }, { 64, 33, 1000 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t heads = shapes[i][0], sequence = shapes[i][1], most = shapes[i][2];
        const struct attention_block block = attention_block(heads, sequence, most);
        CHECK(block.heads >= 1 && block.heads <= heads && block.queries >= 1 && block.queries <= sequence,
            "%zu heads, %zu queries at a time", block.heads, block.queries);
        CHECK(block.heads * block.queries * sequence <= most,
            "%zu heads, %zu queries of %zu: more than %zu elements", block.heads, block.queries, sequence,
            most);
        const struct attention_block same =
            attention_block(heads, sequence, block.heads * block.queries * sequence);
        CHECK(same.heads == block.heads && same.queries == block.queries, "in memory made for it: %zu, %zu",
            same.heads, same.queries);
    }
}

int main(void)
{
    for (int precision = PRECISION_FP32; precision <= PRECISION_BF16; precision++) {
        struct device *device = open_vendor((enum precision)precision);
        attention_is_right(device);
        CHECK(device->held(device) == 0, "%zu bytes held", device->held(device));
        device->close(device);
    }
    longer_than_a_block();
    blocks_fit_their_memory();
    return check_result();
}
