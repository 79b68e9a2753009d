/* The CUDA product gives the bits of its definition: by every tile, at shapes around its edges, in all forms,
   with and without all that is added, at addresses that no vector may be read from, and on zeros, denormals,
   infinities and NaN. And the loop that measures the peak does the operations it is credited with. Argument
   "small": fewer shapes, for builds that watch every access. */
#include "on_gpu.h"
#include "device/cuda/gemm.h"
#include <assert.h>

enum {
    MOST = 1200000,
    CHOSEN = CUDA_GEMM_TILES /* by cuda_gemm */
};                           /* MOST: elements of the largest operand */
static float *left, *right, *start, *bias, *residual, *expected, *image;
static uint64_t state = 1;
static bool small;

struct options {
    bool accumulate, bias, residual, in_place; /* in place: C is the residual */
    enum wildness wildness;
    size_t shift; /* elements by which all operands lie behind an aligned address */
};

/* The tiles of gemm.cu: at multiples of these something ends. depth: of a slice of k. */
static const struct {
    size_t rows, columns, depth;
} tiles[CUDA_GEMM_TILES] = { { 128, 128, 8 }, { 64, 64, 16 }, { 32, 32, 32 }, { 64, 64, 8 } };

/* GPU memory with `count` elements of `host`, `shift` elements behind an aligned address; those are 12345. */
static float *put(const float *host, size_t count, size_t shift)
{
    for (size_t i = 0; i < shift; i++) image[i] = 12345.0f;
    memcpy(image + shift, host, count * sizeof *host);
    return gpu_floats(image, shift + count) + shift;
}

/* Takes it back: its elements are then at image + shift. */
static void take(float *x, size_t count, size_t shift)
{
    gpu_take(x - shift, image, shift + count);
    for (size_t i = 0; i < shift; i++) CHECK(image[i] == 12345.0f, "written before the beginning");
}

static void check_by(int tile, const struct gemm *host, struct options o)
{
    static const char *const forms[] = { "NN", "NT", "TN" };
    const size_t m = host->m, n = host->n, k = host->k, shift = o.shift;
    float *a = put(left, m * k, shift), *b = put(right, n * k, shift), *c = put(start, m * n, shift);
    float *bias_there = put(bias, n, shift), *residual_there = put(residual, m * n, shift);
    struct gemm g = *host;
    g.a = a;
    g.b = b;
    g.c = c;
    if (g.bias) g.bias = bias_there;
    if (g.residual) g.residual = o.in_place ? c : residual_there;
    const char *name = tile == CHOSEN ? "chosen" : cuda_gemm_tile_name((enum cuda_gemm_tile)tile);
    const bool fits = tile == CHOSEN || cuda_gemm_fits((enum cuda_gemm_tile)tile, &g);
    CHECK(fits, "%s m=%zu n=%zu k=%zu: tile %s does not fit", forms[g.form], m, n, k, name);
    if (tile == CHOSEN)
        cuda_gemm(gpu_stream(), &g);
    else if (fits)
        cuda_gemm_by(gpu_stream(), &g, (enum cuda_gemm_tile)tile);
    take(c, m * n, shift);
    size_t at;
    CHECK(same_bits(expected, image + shift, m * n, &at),
        "%s m=%zu n=%zu k=%zu, tile %s, shift %zu, accumulate %d bias %d residual %d in place %d wildness "
        "%d: "
        "[%zu, %zu] is %a, not %a",
        forms[g.form], m, n, k, name, shift, o.accumulate, o.bias, o.residual, o.in_place, o.wildness, at / n,
        at % n, (double)image[shift + at], (double)expected[at]);
    take(a, m * k, shift);
    take(b, n * k, shift);
    take(bias_there, n, shift);
    take(residual_there, m * n, shift);
}

/* By one tile, or as cuda_gemm chooses. */
static void check_shape(int tile, enum gemm_form form, size_t m, size_t n, size_t k, struct options o)
{
    assert(m * n + o.shift < MOST && m * k + o.shift < MOST && n * k + o.shift < MOST);
    fill(left, m * k, o.wildness, &state);
    fill(right, n * k, o.wildness, &state);
    fill(start, m * n, o.wildness, &state);
    fill(bias, n, o.wildness, &state);
    fill(residual, m * n, o.wildness, &state);
    struct gemm g = {
        .form = form, .m = m, .n = n, .k = k, .a = left, .b = right, .c = expected, .accumulate = o.accumulate
    };
    if (o.bias) g.bias = bias;
    if (o.residual || o.in_place) g.residual = o.in_place ? expected : residual;
    memcpy(expected, start, m * n * sizeof *start);
    definition_gemm(&g);
    check_by(tile, &g, o);
}

/* The nearest size that the tile can do: rows of C, of A and of B are read four elements at a time by all but
 * one. */
static size_t row_length(int tile, size_t size)
{
    return tile == CUDA_GEMM_ANY ? size : (size + 3) / 4 * 4;
}

/* Every size about an edge of the tile with every other, with slices of k in turn: from less than one to
 * four. */
static void check_tile_edges(void)
{
    for (int tile = 0; tile < CUDA_GEMM_TILES; tile++) {
        const size_t r = tiles[tile].rows, c = tiles[tile].columns, d = tiles[tile].depth;
        const size_t rows[] = { r - 1, r + 1, 1, r, 4, r / 2 + 3, 2 * r - 2, 2 * r + 5 };
        const size_t columns[] = { c + 1, c - 4, 3, c, c / 2 + 1, c - 1, 2 * c, 2 * c + 6 };
        const size_t steps[] = { 1, d + 1, d, d - 1, 2 * d + 3, 2, 3 * d, 3 * d - 1, 2 * d - 4, d / 2 + 1,
            4 * d + 1 };
        const size_t count = small ? 3 : sizeof rows / sizeof *rows;
        for (size_t i = 0; i < count; i++) {
            for (size_t j = 0; j < count; j++) {
                for (int form = 0; form < 3; form++) {
                    const size_t turn = (i * count + j) * 3 + (size_t)form;
                    const size_t k = steps[turn % (sizeof steps / sizeof *steps)];
                    const struct options o = { turn % 2, turn / 2 % 2, turn / 4 % 2, turn % 16 == 5, turn % 3,
                        0 };
                    check_shape(tile, (enum gemm_form)form,
                        form == GEMM_TN ? row_length(tile, rows[i]) : rows[i], row_length(tile, columns[j]),
                        form == GEMM_TN ? k : row_length(tile, k), o);
                }
            }
        }
    }
}

/* Each number of steps up to three slices and one. */
static void check_steps(void)
{
    for (int tile = 0; tile < CUDA_GEMM_TILES; tile++) {
        for (size_t k = 1; k <= 3 * tiles[tile].depth + 1; k += small ? 5 : 1) {
            const enum gemm_form form = (enum gemm_form)(tile == CUDA_GEMM_ANY ? k % 3 : GEMM_TN);
            const struct options o = { k % 2, false, k % 5 == 0, false, TAME, 0 };
            check_shape(tile, form, 20, 36, k, o);
            if (tile != CUDA_GEMM_ANY && k % 4 == 0) {
                check_shape(tile, GEMM_NN, 21, 36, k, o);
                check_shape(tile, GEMM_NT, 21, 36, k, o);
            }
        }
    }
}

/* All options in all forms, at shapes that the tile does not divide. */
static void check_options(void)
{
    for (int tile = 0; tile < CUDA_GEMM_TILES; tile++) {
        const bool any = tile == CUDA_GEMM_ANY;
        for (int form = 0; form < 3; form++) {
            for (unsigned bits = 0; bits < 48; bits += small ? 11 : 1) {
                const struct options o = { bits & 1, bits & 2, bits & 4, bits & 8, bits / 16, 0 };
                check_shape(tile, (enum gemm_form)form, any ? 67 : 36, any ? 35 : 76, any ? 19 : 20, o);
            }
        }
    }
}

/* Whatever cuda_gemm chooses: among shapes of a few and of many tiles, in bands that are full and not, and
   where the operands lie off any address that a vector is read from. */
static void check_choice(void)
{
    static const size_t shapes[][3] = { { 1, 1, 1 }, { 4, 4, 4 }, { 1, 4300, 2 }, { 2300, 2, 5 },
        { 1, 1, 3000 }, { 2176, 260, 4 }, { 2308, 132, 12 }, { 1100, 68, 40 }, { 544, 40, 36 },
        { 130, 150, 330 }, { 57, 67, 201 }, { 256, 512, 128 }, { 96, 96, 1028 } };
    for (size_t i = 0; i < (small ? 5 : sizeof shapes / sizeof *shapes); i++) {
        for (int form = 0; form < 3; form++) {
            for (size_t shift = 0; shift < 2; shift++) {
                const struct options o = { i % 2, i % 3 == 0, i % 2, i % 4 == 1, TAME, shift * (i % 3 + 1) };
                check_shape(CHOSEN, (enum gemm_form)form, shapes[i][0], shapes[i][1], shapes[i][2], o);
            }
        }
    }
}

/* Every tile where the blocks come in several bands of 16, of which the last is not full. */
static void check_bands(void)
{
    for (int tile = 0; tile < CUDA_GEMM_TILES; tile++) {
        const struct options o = { .bias = true };
        check_shape(tile, GEMM_NN, 18 * tiles[tile].rows - 3, tiles[tile].columns + 4, 4, o);
        check_shape(tile, GEMM_NT, 33 * tiles[tile].rows - 3, 2 * tiles[tile].columns + 4, 4, o);
    }
}

/* A vector is only read where rows and addresses allow it. */
static void check_fitting(void)
{
    float *x = gpu_floats(NULL, 64);
    const struct gemm good = { .form = GEMM_NN, .m = 3, .n = 4, .k = 4, .a = x, .b = x, .c = x, .bias = x };
    struct gemm g[8];
    for (int i = 0; i < 8; i++) g[i] = good;
    g[1].n = 5;
    g[2].k = 6;
    g[3].form = GEMM_TN; /* m = 3 */
    g[4].a = x + 1;
    g[5].b = x + 2;
    g[6].c = x + 3;
    g[7].bias = x + 1;
    for (int i = 0; i < 8; i++) {
        for (int tile = 0; tile < CUDA_GEMM_TILES; tile++) {
            const bool fits = cuda_gemm_fits((enum cuda_gemm_tile)tile, &g[i]);
            CHECK(fits == (i == 0 || tile == CUDA_GEMM_ANY), "case %d, tile %d: %d", i, tile, fits);
        }
    }
    float ignored[64];
    gpu_take(x, ignored, 64);
}

/* fma(-tiny, tiny, +0) is -0, and so is a chain of them. A term more, were it zero, would make it +0. */
static void check_no_padding(void)
{
    for (size_t i = 0; i < 16; i++) {
        left[i] = -1e-30f;
        right[i] = 1e-30f;
        expected[i] = -0.0f;
        start[i] = 1.0f;
    }
    for (int tile = 0; tile <= CHOSEN; tile++) {
        struct gemm g = { .form = GEMM_TN, .m = 4, .n = 4, .k = 1 };
        check_by(tile, &g, (struct options){ 0 });
        g.k = 4;
        for (int form = 0; form < 3; form++) {
            g.form = (enum gemm_form)form;
            check_by(tile, &g, (struct options){ 0 });
        }
    }
    struct gemm one = { .form = GEMM_NN, .m = 1, .n = 1, .k = 1 };
    check_by(CUDA_GEMM_ANY, &one, (struct options){ 0 });
    check_by(CHOSEN, &one, (struct options){ 0 });
}

/* Each chain of the loop counts its operations, and a thread's result is the sum of its chains. */
static void check_fma_loop(void)
{
    static const int counts[] = { 0, 1, 15, 16, 17, 63, 64, 65, 1000, 4097 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        float *sink = gpu_floats(NULL, 1), result;
        const size_t threads = cuda_fma_loop(gpu_stream(), 2, counts[i], sink);
        gpu_take(sink, &result, 1);
        CHECK(result == (float)counts[i], "%d operations are %g", counts[i], (double)result);
        CHECK(threads >= 2 * 128 && threads % 64 == 0, "%zu threads do not fill two SMs", threads);
    }
}

int main(int count, char **arguments)
{
    small = count > 1 && strcmp(arguments[1], "small") == 0;
    float **const all[] = { &left, &right, &start, &bias, &residual, &expected, &image };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) *all[i] = allocate(MOST, sizeof(float));
    cuda_gemm_prepare();
    check_no_padding();
    check_fitting();
    check_tile_edges();
    check_steps();
    check_options();
    if (!small) check_bands();
    check_choice();
    check_fma_loop();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(*all[i]);
    return check_result();
}
