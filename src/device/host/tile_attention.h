/* Attention's products, tile by tile: scores of a block of rows against a chunk of the other side, and
   results of scores times the other side's rows. Above the diagonal, scores are computed where a tile holds
   them and never used: the steps of a tile on the diagonal (TRIANGLE_*) take in only those rows to which they
   belong. */
#pragma once
#include "device/host/tile_product.h"

enum {
    BLOCK = TILE_ROWS == 14 ? 56 : 48, /* rows of a block: whole tiles */
    CHUNK = 4 * BLOCK, /* of the other side; a multiple of 32 and of BLOCK, so that no tile lies across two */
    CHUNK_STRIDE = CHUNK + 16, /* from row to row, so that rows do not meet in the same cache sets */
    PANEL = CHUNK_STRIDE * BLOCK
};
static_assert(CHUNK % PL_LANES == 0 && CHUNK % TILE_COLUMNS == 0 && BLOCK % TILE_ROWS == 0,
    "a chunk is made of whole tiles and row sums");

static size_t rounded(size_t count, size_t multiple)
{
    return (count + multiple - 1) / multiple * multiple;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* One head of one sequence: where its tensors lie. Rows are tokens. */
struct head {
    size_t sequence, size;     /* tokens; columns of a head */
    size_t qkv_stride, stride; /* floats from token to token in qkv and dqkv, in out and dout */
    const float *q, *k, *v, *dout;
    float *out, *dq, *dk, *dv;
    float *maximum, *inverse, *row_dot;
    float scale;
};

/* The rows of a block, cut into tiles of nearly equal height. */
struct block {
    size_t row, rows, tiles;
};

static struct block block_of(size_t sequence, size_t index)
{
    struct block b = { .row = index * BLOCK };
    b.rows = least(BLOCK, sequence - b.row);
    b.tiles = rounded(b.rows, TILE_ROWS) / TILE_ROWS;
    return b;
}

/* Where tile t begins, counted from the block's first row. */
static size_t tile_begin(const struct block *b, size_t t)
{
    return b->rows * t / b->tiles;
}

static void pack_block(
    const struct head *h, const struct block *b, const float *rows, size_t stride, float *to)
{
    for (size_t t = 0; t < b->tiles; t++) {
        const size_t begin = tile_begin(b, t), height = tile_begin(b, t + 1) - begin;
        pack_turned(to + begin * h->size, height, height, h->size, rows + (b->row + begin) * stride, stride);
    }
}

/* Products over the head's columns, by tiles of a block's rows and a panel's: the chain times scale; or,
   where probability is given, the gradient of the scores: probability * (the chain - D). D belongs to
   queries, which are the rows or, where dot_by_column, the columns. */
struct score_tile {
    size_t size, columns; /* columns that exist */
    const float *left, *right;
    float scale;
    float *to;
    const float *probability, *dot;
    bool dot_by_column;
};

ALWAYS_INLINE void score_tile(int rows, int vectors, const struct score_tile *s)
{
    vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] = vector_all(0.0f);
    tile_chains(rows, vectors, s->size, s->left, 1, (size_t)rows, s->right, sum);
    if (!s->probability) {
        const vector scale = vector_all(s->scale);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                vector_store(s->to + r * CHUNK_STRIDE + v * LANES, vector_multiply(sum[r][v], scale));
        return;
    }
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
        vector dot = vector_all(0.0f);
        if (s->dot_by_column)
            dot = vector_load_first(s->dot + v * LANES, lanes_of(s->columns, (size_t)v * LANES));
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            if (!s->dot_by_column) dot = vector_all(s->dot[r]);
            const vector p = vector_load(s->probability + r * CHUNK_STRIDE + v * LANES);
            vector_store(
                s->to + r * CHUNK_STRIDE + v * LANES, vector_multiply(p, vector_subtract(sum[r][v], dot)));
        }
    }
}

/* Goes over the tiles of a block and of one chunk (columns `chunk` .. `end` - 1 of the other side) that hold
   a score with key <= query; rows are queries, or, where by_key, keys. `s` says what is the same for all. */
static void score_chunk(const struct head *h, const struct block *b, size_t chunk, size_t end, bool by_key,
    const float *left, const float *turned, struct score_tile s)
{
    float *const to = s.to;
    const float *const probability = s.probability, *const dot = s.dot;
    s.size = h->size;
    s.scale = h->scale;
    s.dot_by_column = by_key;
    for (size_t column = chunk; column < end; column += TILE_COLUMNS) {
        for (size_t t = 0; t < b->tiles; t++) {
            const size_t begin = tile_begin(b, t), tile_end = tile_begin(b, t + 1);
            if (by_key ? column + TILE_COLUMNS <= b->row + begin : column >= b->row + tile_end) continue;
            s.columns = least(TILE_COLUMNS, h->sequence - column);
            s.left = left + begin * h->size;
            s.right = turned + column * h->size;
            s.to = to + begin * CHUNK_STRIDE + (column - chunk);
            if (probability) s.probability = probability + begin * CHUNK_STRIDE + (column - chunk);
            if (dot) s.dot = dot + (by_key ? column : b->row + begin);
#define INSTANCE(r, v) score_tile(r, v, &s)
            TILE_DISPATCH(tile_end - begin, TILE_WIDTH(least(TILE_COLUMNS, end - column)), INSTANCE)
#undef INSTANCE
        }
    }
}

/* Products over rows: to[r] (a row of results) continues its chain over `steps` steps on which all rows of
   the tile take part, and the steps on the diagonal: after them, row r takes part in the first r of rows - 1
   more; or before them, row r takes part from the r-th on. */
enum triangle { TRIANGLE_NONE, TRIANGLE_AFTER, TRIANGLE_BEFORE };

struct result_tile {
    enum triangle triangle;
    size_t steps, columns, stride;
    const float *left, *right;
    float *to;
    bool from_zero;
    float factor; /* of the result: the scale at the end of a chain that has one, else 1, which changes no bit
                   */
};

ALWAYS_INLINE void result_tile(int rows, int vectors, const struct result_tile *s)
{
    const float *left = s->left, *right = s->right;
    vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sum[r][v] = s->from_zero ? vector_all(0.0f)
                                     : vector_load_first(s->to + (size_t)r * s->stride + (size_t)v * LANES,
                                           lanes_of(s->columns, (size_t)v * LANES));
    if (s->triangle == TRIANGLE_BEFORE) {
#pragma GCC unroll 16
        for (int t = 0; t < rows - 1; t++)
            tile_step(0, t + 1, rows, vectors, left + t, unknown(left + t), CHUNK_STRIDE,
                right + t * TILE_COLUMNS, sum);
        left += rows - 1;
        right += (rows - 1) * TILE_COLUMNS;
    }
    tile_chains(rows, vectors, s->steps, left, CHUNK_STRIDE, 1, right, sum);
    if (s->triangle == TRIANGLE_AFTER) {
        left += s->steps;
        right += s->steps * TILE_COLUMNS;
#pragma GCC unroll 16
        for (int t = 0; t < rows - 1; t++)
            tile_step(t + 1, rows, rows, vectors, left + t, unknown(left + t), CHUNK_STRIDE,
                right + t * TILE_COLUMNS, sum);
    }
    const vector factor = vector_all(s->factor);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            vector_store_first(s->to + (size_t)r * s->stride + (size_t)v * LANES,
                lanes_of(s->columns, (size_t)v * LANES), vector_multiply(sum[r][v], factor));
}

/* result[row] of the block's rows continues its chains over one chunk: scores times the other side's rows
   (`straight`). begins, ends: these chains do in this chunk. */
static void result_chunk(const struct head *h, const struct block *b, size_t chunk, size_t end, bool by_key,
    const float *scores, const float *straight, float *result, size_t stride, bool begins, float factor)
{
    for (size_t c = 0; c < h->size; c += TILE_COLUMNS) {
        for (size_t t = 0; t < b->tiles; t++) {
            const size_t begin = tile_begin(b, t), row = b->row + begin,
                         height = tile_begin(b, t + 1) - begin;
            struct result_tile s = { .steps = end - chunk,
                .columns = least(TILE_COLUMNS, h->size - c),
                .stride = stride,
                .left = scores + begin * CHUNK_STRIDE,
                .right = straight + c * h->sequence + chunk * TILE_COLUMNS,
                .to = result + row * stride + c,
                .from_zero = begins,
                .factor = factor };
            if (row >= chunk && row < end) { /* the tile is on the diagonal */
                if (by_key) {
                    s.triangle = TRIANGLE_BEFORE;
                    s.left += row - chunk;
                    s.right += (row - chunk) * TILE_COLUMNS;
                    s.steps = end - row - (height - 1);
                } else {
                    s.triangle = TRIANGLE_AFTER;
                    s.steps = row + 1 - chunk;
                }
            }
#define INSTANCE(r, v) result_tile(r, v, &s)
            TILE_DISPATCH(height, TILE_WIDTH(s.columns), INSTANCE)
#undef INSTANCE
        }
    }
}
