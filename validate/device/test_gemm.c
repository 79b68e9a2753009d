/* Every variant of the matrix product gives the bits of its definition: at shapes around the edges of tiles
   and blocks, in all forms, with any number of threads, with and without all that is added, and on zeros,
   denormals, infinities and NaN. */
#include "../check.h"
#include "device/definition.h"
#include "variants.h"

enum { MOST = 1000000 }; /* elements of the largest operand */
static float *left, *right, *start, *bias, *residual, *expected, *found;
static struct devices devices;
static uint64_t state = 1;

struct options {
    bool accumulate, bias, residual, in_place; /* in place: C is the residual */
    enum wildness wildness;
};

static void check_shape(enum gemm_form form, size_t m, size_t n, size_t k, struct options o)
{
    static const char *const names[] = { "NN", "NT", "TN" };
    fill(left, m * k, o.wildness, &state);
    fill(right, n * k, o.wildness, &state);
    fill(start, m * n, o.wildness, &state);
    fill(bias, n, o.wildness, &state);
    fill(residual, m * n, o.wildness, &state);
    struct gemm g = {
        .form = form, .m = m, .n = n, .k = k, .a = left, .b = right, .accumulate = o.accumulate
    };
    if (o.bias) g.bias = bias;
    if (o.residual) g.residual = residual;

    g.c = expected;
    if (o.in_place) g.residual = g.c;
    memcpy(expected, start, m * n * sizeof *start);
    definition_gemm(&g);
    for (int d = 0; d < devices.count; d++) {
        struct device *device = devices.device[d];
        g.c = found;
        if (o.in_place) g.residual = g.c;
        memcpy(found, start, m * n * sizeof *start);
        found[m * n] = 12345.0f;
        device->gemm(device, &g);
        size_t at;
        CHECK(same_bits(expected, found, m * n, &at),
            "%s m=%zu n=%zu k=%zu, %s, %d threads, accumulate %d bias %d residual %d in place %d wildness "
            "%d: "
            "[%zu, %zu] is %a, not %a",
            names[form], m, n, k, device->variant, device->threads, o.accumulate, o.bias, o.residual,
            o.in_place, o.wildness, at / n, at % n, (double)found[at], (double)expected[at]);
        CHECK(found[m * n] == 12345.0f, "%s m=%zu n=%zu k=%zu, %s: written past its end", names[form], m, n,
            k, device->variant);
    }
}

/* Every size of tile edge with some others, the options in turn. */
static void check_tile_edges(void)
{
    static const size_t sizes[] = { 1, 2, 3, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 25, 31, 32, 33, 47,
        48, 49, 63, 64, 65, 95, 96, 97, 100, 131 };
    const size_t count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < count; j++) {
            const size_t turn = i * count + j;
            const struct options o = { turn % 2, turn / 2 % 2, turn / 4 % 2, turn % 16 == 5, turn % 3 };
            check_shape(
                (enum gemm_form)(turn / 3 % 3), sizes[i], sizes[j], sizes[(i * 7 + j * 5) % count], o);
        }
    }
}

/* All options in all forms, at a shape that nothing divides. */
static void check_options(void)
{
    for (int form = 0; form < 3; form++) {
        for (unsigned bits = 0; bits < 48; bits++) {
            const struct options o = { bits & 1, bits & 2, bits & 4, bits & 8, bits / 16 };
            check_shape((enum gemm_form)form, 29, 35, 19, o);
        }
    }
}

/* Where blocks of k, of columns and of rows begin and end; and large enough that threads really share. */
static void check_block_edges(void)
{
    static const size_t shapes[][3] = { { 5, 33, 255 }, { 5, 33, 256 }, { 15, 33, 257 }, { 17, 40, 416 },
        { 7, 17, 417 }, { 9, 31, 512 }, { 9, 31, 513 }, { 3, 9, 1025 }, { 3, 2111, 9 }, { 4, 2112, 3 },
        { 3, 2113, 270 }, { 551, 3, 9 }, { 552, 4, 3 }, { 553, 5, 270 }, { 559, 3, 9 }, { 560, 4, 3 },
        { 561, 5, 270 }, { 1121, 5, 7 }, { 1, 4300, 2 }, { 2300, 2, 5 }, { 1, 1, 3000 }, { 57, 67, 201 },
        { 130, 150, 330 }, { 1, 5000, 60 }, { 5, 40, 2000 }, { 14, 127, 511 }, { 14, 128, 513 },
        { 14, 129, 1024 }, { 13, 273, 1030 } };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (int form = 0; form < 3; form++) {
            for (unsigned turn = 0; turn < 3; turn++) {
                const struct options o = { turn == 0, turn == 1, turn == 1, turn == 2, (enum wildness)turn };
                check_shape((enum gemm_form)form, shapes[i][0], shapes[i][1], shapes[i][2], o);
            }
        }
    }
}

/* fma(-tiny, tiny, +0) is -0. A term more, were it zero, would make it +0. */
static void check_no_padding(void)
{
    const float a = -1e-30f, b = 1e-30f;
    float c = 1.0f;
    for (int d = 0; d < devices.count; d++) {
        struct device *device = devices.device[d];
        device->gemm(
            device, &(struct gemm){ .form = GEMM_NN, .m = 1, .n = 1, .k = 1, .a = &a, .b = &b, .c = &c });
        CHECK(pl_bits(c) == 0x80000000u, "%s: -1e-30 * 1e-30 is %a, not -0", device->variant, (double)c);
    }
}

int main(void)
{
    float **const all[] = { &left, &right, &start, &bias, &residual, &expected, &found };
    const size_t count = sizeof all / sizeof *all;
    for (size_t i = 0; i < count; i++) *all[i] = allocate(MOST, sizeof(float));
    const struct device_request request = {
        .microbatch_size = 1, .sequence = 64, .hidden = 64, .heads = 1, .ffn = 64
    };
    devices = open_devices(request, (const int[]){ 1, 2, 3, 7, 0 });
    check_tile_edges();
    check_options();
    check_block_edges();
    check_no_padding();
    close_devices(&devices);
    for (size_t i = 0; i < count; i++) free(*all[i]);
    return check_result();
}
