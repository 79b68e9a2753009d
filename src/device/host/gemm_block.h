/* A block of a product, and the packing of what it takes. */
#pragma once
#include "device/device.h"
#include "device/host/tile_product.h"
#include "device/team.h"

/* A block of C is at most BLOCK_ROWS x BLOCK_COLUMNS and takes at most BLOCK_STEPS of k at a time. Its rows
   of A are packed; then B, a strip of STRIP_PANELS panels (each TILE_COLUMNS wide) at a time, just before it
   is needed. A strip's tiles are computed from left to right and then down: C is met along its rows, however
   far these lie apart in memory. Two shapes of this:
   - low tiles: a strip and a tile's rows of A stay in a second cache of 512 KiB, and both come from there as
     they are multiplied, so that their length has no limit in the first: a layer's weight gradients over 512
     tokens are one block of k. A's other rows wait in the third cache.
   - tall tiles: a strip is one panel, which stays in a first cache of 48 KiB with a tile's rows of A; these
     come from a second cache of 1 to 2 MiB. Where k is cut, the cuts lie closer than they must: the tile's
     rows then leave the panel more of the first cache. */
enum {
    TALL = TILE_ROWS == 14,
    BLOCK_STEPS = TALL ? 256 : 512,
    CUT_STEPS = TALL ? 208 : BLOCK_STEPS,
    BLOCK_ROWS = TALL ? 560 : 552,
    BLOCK_COLUMNS = 2112,
    STRIP_PANELS = TALL ? 1 : 8,
    ASKS_AHEAD = STRIP_PANELS == 1, /* for the strip to come; a wide one is as soon packed without */
    WAYS = 8,   /* of a first cache, at least: as many lines a power of two apart stay in it */
    PIECE = 32, /* steps of a tile, before which it asks for some of what the next one needs */
    LEFT_SIZE = BLOCK_ROWS * BLOCK_STEPS,
    RIGHT_SIZE = BLOCK_STEPS * STRIP_PANELS * TILE_COLUMNS,
    TILE_SIZE = TILE_ROWS * TILE_COLUMNS,
    PARTIAL_SIZE = (BLOCK_ROWS / TILE_ROWS) * (BLOCK_COLUMNS / TILE_COLUMNS) * TILE_SIZE
};
static_assert(
    BLOCK_ROWS % TILE_ROWS == 0 && BLOCK_COLUMNS % TILE_COLUMNS == 0, "a block is made of whole tiles");

static inline size_t ceiling(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static inline size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One block of C for one block of k, and where its parts lie. */
struct block {
    const struct gemm *g;
    size_t row, rows, column, columns, step, steps; /* in C and k */
    size_t tiles, height, taller; /* tiles down the rows; the first `taller` have a row more than height */
    size_t panels;                /* across the columns */
    bool first, last;             /* block of k */
    float *left, *partial, *right;
};

/* Where a tile begins, counted from the block's first row. */
static inline size_t tile_begin(const struct block *b, size_t tile)
{
    return tile * b->height + least(tile, b->taller);
}

/* Packs `steps` steps, from `step` of the block on, of a tile's rows of A. */
static inline void pack_left(const struct block *b, size_t tile, size_t step, size_t steps)
{
    const struct gemm *g = b->g;
    const size_t begin = tile_begin(b, tile), rows = tile_begin(b, tile + 1) - begin;
    const size_t row = b->row + begin, first = b->step + step;
    float *panel = b->left + begin * b->steps + step * rows;
    if (g->form == GEMM_TN)
        pack_straight(panel, rows, rows, steps, g->a + first * g->m + row, g->m);
    else
        pack_turned(panel, rows, rows, steps, g->a + row * g->k + first, g->k);
}

/* The block's rows of A. In form TN, where C's rows lie along A's, some steps at a time, so as to read along
   A's rows. */
static inline void pack_all_left(const struct block *b)
{
    const size_t most = b->g->form == GEMM_TN ? WAYS : b->steps;
    for (size_t step = 0; step < b->steps; step += most)
        for (size_t tile = 0; tile < b->tiles; tile++) pack_left(b, tile, step, least(most, b->steps - step));
}

/* Panels [first, end) of a block. */
struct strip {
    size_t first, end;
};

/* Where a strip of B lies: `lines` lines of `length` floats, `stride` apart. */
struct source {
    const float *at;
    size_t lines, length, stride;
};

static inline struct source source_of_strip(const struct block *b, const struct strip *s)
{
    const struct gemm *g = b->g;
    const size_t begin = s->first * TILE_COLUMNS, columns = least(s->end * TILE_COLUMNS, b->columns) - begin,
                 column = b->column + begin;
    if (g->form == GEMM_NT) return (struct source){ g->b + column * g->k + b->step, columns, b->steps, g->k };
    return (struct source){ g->b + b->step * g->n + column, b->steps, columns, g->n };
}

/* The strip's panels, one after another. Where columns lie along B's rows, some steps at a time, so as to
   read along these. */
static inline void pack_right(const struct block *b, const struct strip *strip)
{
    const struct source s = source_of_strip(b, strip);
    const size_t panels = strip->end - strip->first, size = TILE_COLUMNS * b->steps;
    if (b->g->form == GEMM_NT) {
        for (size_t p = 0; p < panels; p++)
            pack_turned(b->right + p * size, TILE_COLUMNS, least(TILE_COLUMNS, s.lines - p * TILE_COLUMNS),
                s.length, s.at + p * TILE_COLUMNS * s.stride, s.stride);
        return;
    }
    const size_t most = panels == 1 ? b->steps : WAYS;
    for (size_t step = 0; step < b->steps; step += most)
        for (size_t p = 0; p < panels; p++)
            pack_straight(b->right + p * size + step * TILE_COLUMNS, TILE_COLUMNS,
                least(TILE_COLUMNS, s.length - p * TILE_COLUMNS), least(most, b->steps - step),
                s.at + step * s.stride + p * TILE_COLUMNS, s.stride);
}

/* What is still to be asked for of the strip that will be packed next: `rest`, from float `i` of its first
   line on, a few cache lines with each piece of a tile, since only so many can be on their way at once. */
struct coming {
    struct source rest;
    size_t i, a_piece;
};

/* All of the strip within so many tiles. */
static inline struct coming coming_strip(const struct source *s, size_t tiles, size_t steps)
{
    return (struct coming){ *s, 0,
        ceiling(s->lines * ceiling(s->length + 15, 16), tiles * ceiling(steps, PIECE)) };
}

ALWAYS_INLINE void prefetch_coming(struct coming *c)
{
    struct source *rest = &c->rest;
    for (size_t n = rest->lines ? c->a_piece : 0; n > 0; n--) {
        prefetch_far(rest->at + c->i);
        c->i += 16;
        if (c->i < rest->length) continue;
        prefetch_far(rest->at + rest->length - 1);
        c->i = 0;
        rest->at += rest->stride;
        if (--rest->lines == 0) return;
    }
}
