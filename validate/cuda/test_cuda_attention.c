/* The CUDA attention kernels, forward and backward, give the bits of the definition: for head sizes and
   sequences that nothing divides, around the edges of tiles, slices and blocks, on GPUs with much shared
   memory and with little, and on numbers of all kinds. `small`: fewer shapes, for builds that are slow. */
#include "device/cuda/attention.h"
#include "on_gpu.h"

static uint64_t state = 1;
static size_t shared_bytes; /* that blocks may have */

struct shape {
    size_t batch, sequence, heads, size;
    enum wildness wildness;
    float factor; /* on queries and keys */
};

static void check_tensor(
    const struct shape *s, const char *name, const float *right, float *given, size_t count)
{
    float *found = allocate(count, sizeof *found);
    gpu_take(given, found, count);
    size_t at;
    CHECK(same_bits(right, found, count, &at),
        "%s[%zu] is %a, not %a: batch %zu, sequence %zu, heads %zu of %zu, wildness %d, %zu bytes shared",
        name, at, (double)found[at], (double)right[at], s->batch, s->sequence, s->heads, s->size, s->wildness,
        shared_bytes);
    free(found);
}

static void check_shape(struct shape s)
{
    const size_t hidden = s.heads * s.size, tokens = s.batch * s.sequence, rows = tokens * s.heads;
    float *qkv = allocate(3 * tokens * hidden, sizeof(float)),
          *dqkv = allocate(3 * tokens * hidden, sizeof(float));
    float *out = allocate(tokens * hidden, sizeof(float)), *dout = allocate(tokens * hidden, sizeof(float));
    float *maximum = allocate(rows, sizeof(float)), *inverse = allocate(rows, sizeof(float));
    float *row_dot = allocate(rows, sizeof(float));
    fill(qkv, 3 * tokens * hidden, s.wildness, &state);
    fill(dout, tokens * hidden, s.wildness, &state);
    for (size_t i = 0; i < tokens; i++)
        for (size_t c = 0; c < 2 * hidden; c++) qkv[i * 3 * hidden + c] *= s.factor;
    struct attention a = {
        .batch = s.batch, .sequence = s.sequence, .hidden = hidden, .heads = s.heads, .qkv = qkv
    };
    a.out = out, a.maximum = maximum, a.inverse = inverse;
    definition_attention_forward(&a);
    a.dout = dout, a.row_dot = row_dot, a.dqkv = dqkv;
    definition_attention_backward(&a);

    struct attention b = a;
    float *gpu_qkv = gpu_floats(qkv, 3 * tokens * hidden), *gpu_dout = gpu_floats(dout, tokens * hidden);
    b.qkv = gpu_qkv, b.out = gpu_floats(NULL, tokens * hidden);
    b.maximum = gpu_floats(NULL, rows), b.inverse = gpu_floats(NULL, rows);
    b.dout = NULL, b.row_dot = b.dqkv = NULL; /* forward has none */
    cuda_attention_forward(gpu_stream(), &b);
    struct attention dot = b;
    b.dout = dot.dout = gpu_dout, b.row_dot = gpu_floats(NULL, rows), dot.row_dot = gpu_floats(NULL, rows);
    b.dqkv = gpu_floats(NULL, 3 * tokens * hidden);
    cuda_attention_backward(gpu_stream(), &b);
    cuda_row_dot(gpu_stream(), &dot);
    check_tensor(&s, "maximum", maximum, b.maximum, rows);
    check_tensor(&s, "inverse", inverse, b.inverse, rows);
    check_tensor(&s, "out", out, b.out, tokens * hidden);
    check_tensor(&s, "row_dot", row_dot, b.row_dot, rows);
    check_tensor(&s, "row_dot alone", row_dot, dot.row_dot, rows);
    check_tensor(&s, "dqkv", dqkv, b.dqkv, 3 * tokens * hidden);
    check_tensor(&s, "qkv, which is read only,", qkv, gpu_qkv, 3 * tokens * hidden);
    check_tensor(&s, "dout, which is read only,", dout, gpu_dout, tokens * hidden);
    float *const all[] = { qkv, dqkv, out, dout, maximum, inverse, row_dot };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static void prepare_for(size_t bytes)
{
    shared_bytes = bytes;
    cuda_attention_prepare_for(bytes);
}

int main(int count, char **arguments)
{
    const bool small = count > 1 && strcmp(arguments[1], "small") == 0;
    static const size_t sequences[] = { 1, 2, 17, 31, 32, 33, 63, 64, 65, 96, 130 };
    static const size_t sizes[] = { 1, 3, 8, 16, 24, 31, 32, 33, 64, 80, 96, 128, 160 };
    enum { SEQUENCES = sizeof sequences / sizeof *sequences, SIZES = sizeof sizes / sizeof *sizes };

    cuda_attention_prepare();
    if (small) {
        static const size_t few[] = { 24, 33, 64, 130 };
        for (size_t i = 0; i < sizeof few / sizeof *few; i++)
            check_shape((struct shape){ 1, 65 + 2 * i, 1, few[i], (enum wildness)(i % 3), 1.0f });
        return check_result();
    }
    int device, most;
    CUDA_CALL(cudaGetDevice(&device));
    CUDA_CALL(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    shared_bytes = (size_t)most;

    /* Every head size at every sequence; batch, heads and the kind of numbers in turn. */
    for (size_t i = 0; i < SEQUENCES; i++)
        for (size_t j = 0; j < SIZES; j++)
            check_shape((struct shape){ 1 + (i + j) % 3 % 2, sequences[i], 1 + (i + 2 * j) % 5 % 2, sizes[j],
                (enum wildness)((i * 2 + j) % 3), 1.0f });
    check_shape((struct shape){ 3, 33, 4, 16, TAME, 1.0f });
    check_shape((struct shape){ 2, 66, 3, 7, BROKEN, 1.0f });
    check_shape((struct shape){ 1, 70, 2, 261, TAME, 1.0f });
    check_shape((struct shape){ 1, 257, 1, 64, TAME, 1.0f });
    /* All scores are zeros of either sign; and exponentials reach from 1 to 0 through the denormals. */
    check_shape((struct shape){ 2, 65, 2, 1, TAME, 1e-30f });
    check_shape((struct shape){ 2, 65, 2, 16, TAME, 9.0f });

    /* On GPUs with less shared memory (A100, RTX, Turing) other kernels are used. */
    const size_t less[] = { 163 << 10, 99 << 10, 64 << 10 };
    for (size_t i = 0; i < sizeof less / sizeof *less; i++) {
        if (less[i] > (size_t)most) continue;
        prepare_for(less[i]);
        for (size_t j = 0; j < SIZES; j += 2) check_shape((struct shape){ 1, 67, 2, sizes[j], TAME, 1.0f });
        check_shape((struct shape){ 1, 130, 1, 128, WILD, 1.0f });
    }
    return check_result();
}
