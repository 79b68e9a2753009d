/* The GPU's row, column and element kernels have the definition's bits: odd shapes, data with denormals,
   zeros of both signs, infinities and NaN, outputs that are inputs, sums begun or continued; and the softmax
   of vendor attention has those of a plain loop. With the argument "small" fewer and smaller shapes. */
#include "on_gpu.h"
#include <setjmp.h>
#include <unistd.h>

static uint64_t state = 2025;

static float *data(size_t count, enum wildness wildness)
{
    float *x = allocate(count, sizeof *x);
    fill(x, count, wildness, &state);
    return x;
}

/* What a kernel made is what was defined; both memories are freed. */
static void compare(float *made, float *expected, size_t count, const char *what, size_t n, size_t h)
{
    size_t at;
    float *result = allocate(count, sizeof *result);
    gpu_take(made, result, count);
    CHECK(same_bits(expected, result, count, &at), "%s, %zu x %zu, element %zu: %a, defined as %a", what, n,
        h, at, (double)result[at], (double)expected[at]);
    free(result);
    free(expected);
}

/* An input is as it was. */
static void give_back(float *made, float *contents, size_t count, const char *what)
{
    compare(made, contents, count, what, 1, count);
}

static float *copy_of(const float *contents, size_t count)
{
    float *copy = allocate(count, sizeof *copy);
    memcpy(copy, contents, count * sizeof *copy);
    return copy;
}

static void norms(size_t n, size_t h, enum wildness wildness)
{
    float *x = data(n * h, wildness), *gain = data(h, wildness), *bias = data(h, TAME),
          *dy = data(n * h, wildness), *residual = data(n * h, TAME), *y = allocate(n * h, sizeof *y),
          *mean = allocate(n, sizeof *mean), *rstd = allocate(n, sizeof *rstd),
          *again = allocate(n * h, sizeof *again), *dx = allocate(n * h, sizeof *dx);
    float *gx = gpu_floats(x, n * h), *ggain = gpu_floats(gain, h), *gbias = gpu_floats(bias, h),
          *gdy = gpu_floats(dy, n * h), *gresidual = gpu_floats(residual, n * h),
          *gy = gpu_floats(NULL, n * h), *gmean = gpu_floats(NULL, n), *grstd = gpu_floats(NULL, n),
          *gagain = gpu_floats(NULL, n * h), *gdx = gpu_floats(NULL, n * h), *own_dy = gpu_floats(dy, n * h),
          *own_residual = gpu_floats(residual, n * h);
    const cudaStream_t s = gpu_stream();
    definition_norm_forward(n, h, x, gain, bias, y, mean, rstd);
    definition_norm_again(n, h, x, gain, bias, mean, rstd, again);
    definition_norm_backward(n, h, dy, x, gain, mean, rstd, residual, dx);
    cuda_norm_forward(s, n, h, gx, ggain, gbias, gy, gmean, grstd);
    cuda_norm_again(s, n, h, gx, ggain, gbias, gmean, grstd, gagain);
    cuda_norm_backward(s, n, h, gdy, gx, ggain, gmean, grstd, gresidual, gdx);
    cuda_norm_backward(s, n, h, own_dy, gx, ggain, gmean, grstd, gresidual, own_dy);
    cuda_norm_backward(s, n, h, gdy, gx, ggain, gmean, grstd, own_residual, own_residual);
    compare(gy, y, n * h, "norm_forward's y", n, h);
    compare(gagain, again, n * h, "norm_again", n, h);
    compare(own_dy, copy_of(dx, n * h), n * h, "norm_backward in place of dy", n, h);
    compare(own_residual, copy_of(dx, n * h), n * h, "norm_backward in place of residual", n, h);
    compare(gdx, dx, n * h, "norm_backward", n, h);

    for (int accumulate = 0; accumulate < 2; accumulate++) {
        float *dgain = data(h, TAME), *dbias = data(h, TAME), *gdgain = gpu_floats(dgain, h),
              *gdbias = gpu_floats(dbias, h);
        definition_norm_columns(n, h, dy, x, mean, rstd, dgain, dbias, accumulate);
        cuda_norm_columns(s, n, h, gdy, gx, gmean, grstd, gdgain, gdbias, accumulate);
        compare(gdgain, dgain, h, "norm_columns' dgain", n, h);
        compare(gdbias, dbias, h, "norm_columns' dbias", n, h);
    }
    compare(gmean, mean, n, "norm_forward's mean", n, h);
    compare(grstd, rstd, n, "norm_forward's rstd", n, h);
    give_back(gx, x, n * h, "x");
    give_back(ggain, gain, h, "gain");
    give_back(gbias, bias, h, "bias");
    give_back(gdy, dy, n * h, "dy");
    give_back(gresidual, residual, n * h, "residual");
}

static void column_sums(size_t n, size_t columns, enum wildness wildness)
{
    float *x = data(n * columns, wildness), *gx = gpu_floats(x, n * columns);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        float *sum = data(columns, TAME), *gsum = gpu_floats(sum, columns);
        definition_column_sum(n, columns, x, sum, accumulate);
        cuda_column_sum(gpu_stream(), n, columns, gx, gsum, accumulate);
        compare(gsum, sum, columns, "column_sum", n, columns);
    }
    give_back(gx, x, n * columns, "column_sum's x");
}

/* Of tensors whose numbers are `size` times those of the test's data. */
static void losses(size_t n, size_t h, enum wildness wildness, float size)
{
    float *out = data(n * h, wildness), *target = data(n * h, TAME);
    for (size_t i = 0; i < n * h; i++) out[i] *= size, target[i] *= size;
    float *gout = gpu_floats(out, n * h), *gtarget = gpu_floats(target, n * h);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        float *dout = allocate(n * h, sizeof *dout), *loss = data(1, TAME), *gdout = gpu_floats(NULL, n * h),
              *gloss = gpu_floats(loss, 1), *row_loss = gpu_floats(NULL, n),
              *unused = allocate(n, sizeof *unused);
        definition_loss(n, h, out, target, 1.0f / 3.0f, dout, loss, accumulate);
        cuda_loss(gpu_stream(), n, h, gout, gtarget, 1.0f / 3.0f, gdout, row_loss, gloss, accumulate);
        compare(gdout, dout, n * h, "loss's dout", n, h);
        compare(gloss, loss, 1, "loss", n, h);
        gpu_take(row_loss, unused, n);
        free(unused);
    }
    give_back(gout, out, n * h, "loss's out");
    give_back(gtarget, target, n * h, "loss's target");
}

/* Tensors that begin `shift` elements past a multiple of 256 bytes. */
static void gelus(size_t count, size_t shift, enum wildness wildness)
{
    const size_t all = shift + count;
    float *u = data(all, wildness), *dg = data(all, TAME);
    for (size_t i = 0; i < all; i++) u[i] *= 8.0f;
    float *g = copy_of(u, all), *du = copy_of(dg, all), *gu = gpu_floats(u, all), *gdg = gpu_floats(dg, all),
          *gg = gpu_floats(u, all), *again = gpu_floats(u, all), *gdu = gpu_floats(dg, all),
          *own_dg = gpu_floats(dg, all);
    const cudaStream_t s = gpu_stream();
    definition_gelu_backward(count, u + shift, dg + shift, g + shift, du + shift);
    cuda_gelu_forward(s, count, gu + shift, gg + shift);
    cuda_gelu_backward(s, count, gu + shift, gdg + shift, again + shift, gdu + shift);
    compare(gg, copy_of(g, all), all, "gelu_forward", shift, count);
    compare(again, copy_of(g, all), all, "gelu_backward's g", shift, count);
    compare(gdu, copy_of(du, all), all, "gelu_backward's du", shift, count);
    again = gpu_floats(u, all);
    cuda_gelu_backward(s, count, gu + shift, own_dg + shift, again + shift, own_dg + shift);
    compare(own_dg, du, all, "gelu_backward in place of dg", shift, count);
    compare(again, g, all, "gelu_backward's g beside that", shift, count);
    give_back(gu, u, all, "gelu's u");
    give_back(gdg, dg, all, "gelu's dg");
}

static void randoms(size_t count)
{
    /* Not a multiple of 4; across 2^34, where the counter's first word wraps; and far out. */
    static const uint64_t first[] = { 0, 1, 7, (1ull << 34) - 9, (1ull << 40) + 2, (1ull << 40) + 4 };
    for (size_t f = 0; f < sizeof first / sizeof first[0]; f++) {
        const struct random key = { .seed = 0x123456789abcdef0u + f,
            .purpose = f % 2 ? RANDOM_INPUT : 3,
            .layer = 5,
            .step = 70000,
            .first_index = first[f],
            .centre = f % 2 ? 0.0f : 1.0f,
            .deviation = 0.02f };
        float *x = allocate(count, sizeof *x), *gx = gpu_floats(NULL, count);
        definition_random(&key, count, x);
        cuda_random(gpu_stream(), &key, count, gx);
        compare(gx, x, count, "random", (size_t)first[f], count);
    }
}

/* The nearest bf16 value by comparing distances: that below and above in magnitude, the even one of two
   equally near. */
static uint16_t nearest_bf16(float x)
{
    if (x != x) return 0x7fc0;
    const uint32_t below = pl_bits(x) >> 16, above = below + 1;
    if (isinf(x)) return (uint16_t)below;
    const double size = fabs((double)x), low = fabs((double)pl_float(below << 16));
    const double next = fabs((double)pl_float(above << 16)), high = isinf(next) ? 0x1p128 : next;
    if (size - low == high - size) return (uint16_t)(below % 2 ? above : below);
    return (uint16_t)(size - low < high - size ? below : above);
}

/* Every upper half with the lower halves about the tie, in steps of `step`. */
static void bf16_is_the_nearest(uint32_t step, size_t shift)
{
    static const uint32_t lower[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
    const size_t count = 65536 / step * 6 + 1;
    float *x = allocate(count, sizeof *x), *rounded = allocate(count, sizeof *rounded);
    uint16_t *half = allocate(count, sizeof *half), *expected = allocate(count, sizeof *expected), *ghalf;
    for (size_t i = 0; i < count; i++) {
        x[i] = pl_float((uint32_t)(i / 6) * step << 16 | lower[i % 6]);
        expected[i] = nearest_bf16(x[i]);
        rounded[i] = pl_float((uint32_t)expected[i] << 16);
    }
    memcpy(rounded, x, shift * sizeof *x);
    float *gx = gpu_floats(x, count), *in_place = gpu_floats(x, count), *back = gpu_floats(x, count);
    const cudaStream_t s = gpu_stream();
    CUDA_CALL(cudaMalloc((void **)&ghalf, count * sizeof *ghalf));
    cuda_round_bf16(s, count - shift, in_place + shift);
    cuda_to_bf16(s, count - shift, gx + shift, ghalf + shift);
    cuda_from_bf16(s, count - shift, ghalf + shift, back + shift);
    CUDA_CALL(cudaMemcpyAsync(half, ghalf, count * sizeof *half, cudaMemcpyDeviceToHost, s));
    compare(in_place, copy_of(rounded, count), count, "round_bf16", shift, count);
    compare(back, rounded, count, "to_bf16 and back", shift, count);
    CHECK(memcmp(half + shift, expected + shift, (count - shift) * sizeof *half) == 0, "to_bf16 from %zu",
        shift);
    give_back(gx, x, count, "to_bf16's x");
    CUDA_CALL(cudaFree(ghalf));
    free(half), free(expected);
}

static void a_flipped_bit_is_one_bit(void)
{
    enum { COUNT = 5 };
    float *x = data(COUNT, TAME), *gx = gpu_floats(x, COUNT);
    for (int bit = 0; bit < 32; bit += 31) { /* twice and once: set and cleared */
        cuda_flip_bit(gpu_stream(), gx, 3, bit);
        cuda_flip_bit(gpu_stream(), gx, 3, bit);
        cuda_flip_bit(gpu_stream(), gx, 4, bit);
    }
    x[4] = pl_float(pl_bits(x[4]) ^ 0x80000001u);
    compare(gx, x, COUNT, "flip_bit", 1, COUNT);
}

static void a_stored_word_reaches_the_host(void)
{
    int *word;
    CUDA_CALL(cudaHostAlloc((void **)&word, 2 * sizeof *word, 0));
    word[0] = word[1] = -7;
    cuda_store_word(gpu_stream(), word, 41);
    CUDA_CALL(cudaStreamSynchronize(gpu_stream()));
    CHECK(__atomic_load_n(word, __ATOMIC_ACQUIRE) == 41 && word[1] == -7, "%d, %d", word[0], word[1]);
    CUDA_CALL(cudaFreeHost(word));
}

static jmp_buf after_failure;

static void return_to_test(int code)
{
    longjmp(after_failure, code + 1);
}

static void a_failed_launch_ends_the_job_and_is_named(void)
{
    char line[256] = "";
    FILE *caught = tmpfile();
    const int stderr_copy = dup(STDERR_FILENO);
    cuda_launched("none failed");
    (void)cudaSetDevice(1 << 20); /* leaves an error as a launch would */
    fail_hook(return_to_test);
    fflush(stderr);
    dup2(fileno(caught), STDERR_FILENO);
    const int code = setjmp(after_failure);
    if (code == 0) cuda_launched("some_kernel");
    fflush(stderr);
    dup2(stderr_copy, STDERR_FILENO);
    fail_hook(NULL);
    rewind(caught);
    CHECK(code == EXIT_FAILED + 1, "a failed launch passes");
    CHECK(fgets(line, sizeof line, caught) && strstr(line, "some_kernel"), "'%s'", line);
    fclose(caught);
    close(stderr_copy);
}

/* One head of the block of scores: what vendor attention is defined as. */
static void plain_softmax(size_t first, size_t queries, size_t keys, float scale, const float *scores,
    const float *dp, const float *row_dot, float *p, float *ds, float *maximum, float *inverse)
{
    for (size_t row = 0; row < queries; row++, scores += keys, dp += keys, p += keys, ds += keys) {
        const size_t i = first + row;
        float m = -INFINITY, lane[PL_LANES] = { 0 };
        for (size_t j = 0; j <= i && j < keys; j++) m = pl_max(scores[j] * scale, m);
        m += 0.0f;
        for (size_t j = 0; j <= i && j < keys; j++)
            lane[j % PL_LANES] += pl_softmax_exponential(scores[j] * scale - m);
        maximum[i] = m;
        inverse[i] = 1.0f / pl_lane_sum(lane);
        for (size_t j = 0; j < keys; j++) {
            p[j] = j <= i ? pl_softmax_exponential(scores[j] * scale - m) * inverse[i] : 0.0f;
            ds[j] = j <= i ? p[j] * (dp[j] - row_dot[i]) * scale : 0.0f;
        }
    }
}

static float *as_bf16(const float *x, size_t count)
{
    float *halves = allocate(count / 2 + 1, sizeof *halves); /* two to a float */
    for (size_t i = 0; i < count; i++) ((uint16_t *)halves)[i] = nearest_bf16(x[i]);
    return halves;
}

/* In bf16 the count of elements may be odd: the last half is then as it was. */
static void compare_operand(
    float *made, float *expected, size_t count, bool half, const char *what, size_t keys)
{
    size_t at;
    if (!half) {
        compare(made, expected, count, what, count / keys, keys);
        return;
    }
    const size_t floats = count / 2 + 1;
    float *result = allocate(floats, sizeof *result), *wanted = as_bf16(expected, count);
    gpu_take(made, result, floats);
    for (at = 0; at < count && ((uint16_t *)result)[at] == ((uint16_t *)wanted)[at];) at++;
    CHECK(at == count, "%s in bf16, %zu keys, element %zu", what, keys, at);
    CHECK(((uint16_t *)result)[count] == 0xffff, "%s in bf16, %zu keys: written past the end", what, keys);
    free(result), free(wanted), free(expected);
}

/* Memory for an operand, in which every bit is set. */
static float *operand(size_t count)
{
    float *ones = allocate(count + 1, sizeof *ones);
    memset(ones, 0xff, (count + 1) * sizeof *ones);
    float *memory = gpu_floats(ones, count);
    free(ones);
    return memory;
}

static void softmaxes(
    size_t heads, size_t first, size_t queries, size_t keys, bool half, enum wildness wildness)
{
    const size_t sequence = first + queries + 2, count = heads * queries * keys, rows = heads * sequence;
    const float scale = attention_scale(5);
    float *scores = data(count, wildness), *dp = data(count, wildness), *row_dot = data(rows, TAME),
          *p = allocate(count, sizeof *p), *ds = allocate(count, sizeof *ds), *maximum = data(rows, TAME),
          *inverse = data(rows, TAME);
    const size_t floats = half ? count / 2 + 1 : count;
    float *gscores = gpu_floats(scores, count), *gdp = gpu_floats(dp, count),
          *gdot = gpu_floats(row_dot, rows), *gp = operand(floats), *again = operand(floats),
          *gds = operand(floats), *gmaximum = gpu_floats(maximum, rows),
          *ginverse = gpu_floats(inverse, rows);
    for (size_t head = 0; head < heads; head++) {
        const size_t at = head * queries * keys, row = head * sequence;
        plain_softmax(first, queries, keys, scale, scores + at, dp + at, row_dot + row, p + at, ds + at,
            maximum + row, inverse + row);
    }
    const cudaStream_t s = gpu_stream();
    cuda_softmax_rows(s, heads, sequence, first, queries, keys, scale, gscores, gp, half, gmaximum, ginverse);
    cuda_softmax_rows_backward(s, heads, sequence, first, queries, keys, scale, gscores, gdp, gmaximum,
        ginverse, gdot, again, gds, half);
    compare_operand(gp, copy_of(p, count), count, half, "softmax's P", keys);
    compare_operand(again, p, count, half, "P again", keys);
    compare_operand(gds, ds, count, half, "dS", keys);
    compare(gmaximum, maximum, rows, "softmax's maximum", queries, keys);
    compare(ginverse, inverse, rows, "softmax's inverse", queries, keys);
    give_back(gscores, scores, count, "scores");
    give_back(gdp, dp, count, "dP");
    give_back(gdot, row_dot, rows, "D");
}

int main(int argc, char **argv)
{
    static const size_t columns[] = { 1, 3, 17, 31, 32, 33, 96, 512, 513, 1000 };
    static const size_t rows[] = { 1, 7, 130 };
    const bool small = argc > 1 && strcmp(argv[1], "small") == 0;
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            if (small && rows[r] * columns[c] > 7 * 513) continue;
            for (enum wildness wildness = small ? BROKEN : TAME; wildness <= BROKEN; wildness++) {
                norms(rows[r], columns[c], wildness);
                column_sums(rows[r], columns[c], wildness);
                losses(rows[r], columns[c], wildness, 1.0f);
            }
        }
    }
    /* Many tiles of rows; each width of a strip. */
    for (enum wildness wildness = TAME; wildness <= WILD; wildness++) {
        norms(small ? 2100 : 9001, 1, wildness);
        column_sums(small ? 4200 : 9001, 1, wildness);
        losses(small ? 300 : 1025, 3, wildness, 1.0f);
        column_sums(300, small ? 33 : 4129, wildness);
        column_sums(300, small ? 9 : 2049, wildness);
    }
    /* Whole tiles of rows, and one row more. */
    for (size_t more = 0; more < 2; more++) {
        norms(256 + more, 8, WILD);
        column_sums(512 + more, 8, WILD);
        losses(256 + more, 2, WILD, 1.0f);
    }
    losses(1, 9, TAME, 2e-22f); /* squares are denormal: where they are halved matters */
    /* Rows that need more shared memory than a kernel has without asking; more than there is. */
    norms(2, 7001, WILD);
    norms(small ? 1 : 3, 13001, WILD);
    norms(small ? 1 : 2, 60001, WILD);
    losses(small ? 1 : 2, 60001, WILD, 1.0f);

    static const size_t counts[] = { 1, 2, 3, 4, 5, 63, 1023, 1024, 1025, 10007 };
    for (size_t c = 0; c < sizeof counts / sizeof counts[0] - small; c++) {
        for (size_t shift = 0; shift < 4; shift += 3)
            for (enum wildness wildness = TAME; wildness <= BROKEN; wildness++)
                gelus(counts[c], shift, wildness);
        randoms(counts[c]);
    }
    bf16_is_the_nearest(small ? 97 : 1, 0);
    bf16_is_the_nearest(97, 1);
    a_flipped_bit_is_one_bit();
    a_stored_word_reaches_the_host();
    a_failed_launch_ends_the_job_and_is_named();

    for (int half = 0; half < 2; half++) {
        for (enum wildness wildness = TAME; wildness <= BROKEN; wildness++) {
            softmaxes(1, 0, 1, 1, half, wildness);
            softmaxes(3, 0, 7, 7, half, wildness);
            softmaxes(2, 5, 9, 31, half, wildness);
            softmaxes(2, 60, 5, 65, half, wildness);
            softmaxes(2, 509, 3, 512, half, wildness);
            softmaxes(2, 530, 3, 533, half, wildness);
        }
        softmaxes(1, 13000, 1, 13001, half, TAME);
        softmaxes(1, 60000, 1, 60001, half, WILD);
    }
    return check_result();
}
