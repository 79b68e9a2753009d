/* The two things every matrix product is made of: packing and a tile's chains. A packed panel holds, for each
   step of the chains, one short row: of the left operand `stride` = the tile's rows, of the right one
   TILE_COLUMNS columns. */
#pragma once
#include "device/host/tile.h"

/* Runs INSTANCE(rows, vectors) with the constants that these two are, so that every size of tile has a kernel
   of its own in which all accumulators are registers. */
#define TILE_CASE_(r, v, INSTANCE)                                                                           \
    case (v)*16 + (r):                                                                                       \
        INSTANCE(r, v);                                                                                      \
        break;
#if TILE_ROWS == 4
#define TILE_ROWS_(v, INSTANCE)                                                                              \
    TILE_CASE_(1, v, INSTANCE)                                                                               \
    TILE_CASE_(2, v, INSTANCE) TILE_CASE_(3, v, INSTANCE) TILE_CASE_(4, v, INSTANCE)
#elif TILE_ROWS == 6
#define TILE_ROWS_(v, INSTANCE)                                                                              \
    TILE_CASE_(1, v, INSTANCE)                                                                               \
    TILE_CASE_(2, v, INSTANCE)                                                                               \
    TILE_CASE_(3, v, INSTANCE) TILE_CASE_(4, v, INSTANCE) TILE_CASE_(5, v, INSTANCE)                         \
        TILE_CASE_(6, v, INSTANCE)
#elif TILE_ROWS == 8
#define TILE_ROWS_(v, INSTANCE)                                                                              \
    TILE_CASE_(1, v, INSTANCE)                                                                               \
    TILE_CASE_(2, v, INSTANCE)                                                                               \
    TILE_CASE_(3, v, INSTANCE) TILE_CASE_(4, v, INSTANCE) TILE_CASE_(5, v, INSTANCE)                         \
        TILE_CASE_(6, v, INSTANCE) TILE_CASE_(7, v, INSTANCE) TILE_CASE_(8, v, INSTANCE)
#endif
#if TILE_VECTORS == 2
#define TILE_DISPATCH(rows, vectors, INSTANCE)                                                               \
    switch ((vectors)*16 + (rows)) {                                                                         \
        TILE_ROWS_(1, INSTANCE) TILE_ROWS_(2, INSTANCE)                                                      \
    }
#elif TILE_VECTORS == 3
#define TILE_DISPATCH(rows, vectors, INSTANCE)                                                               \
    switch ((vectors)*16 + (rows)) {                                                                         \
        TILE_ROWS_(1, INSTANCE) TILE_ROWS_(2, INSTANCE) TILE_ROWS_(3, INSTANCE)                              \
    }
#else
#define TILE_DISPATCH(rows, vectors, INSTANCE)                                                               \
    switch ((vectors)*16 + (rows)) {                                                                         \
        TILE_ROWS_(1, INSTANCE) TILE_ROWS_(2, INSTANCE) TILE_ROWS_(3, INSTANCE) TILE_ROWS_(4, INSTANCE)      \
    }
#endif
#define TILE_WIDTH(columns) (((columns) + LANES - 1) / LANES) /* vectors that hold so many columns */

/* How many rows of lane group `first` .. `first` + LANES - 1 exist, of `count`. */
ALWAYS_INLINE size_t lanes_of(size_t count, size_t first)
{
    return count <= first ? 0 : count - first < LANES ? count - first : LANES;
}

/* Stores the first `kept` lanes of a row of `stride` floats, with `left` floats of the panel from its begin
   on. A row narrower than a register is stored whole where the panel goes on: the rows after it, stored
   later, overwrite what is too much. */
ALWAYS_INLINE void store_row(float *to, size_t kept, size_t stride, size_t left, vector row)
{
    vector_store_first(to, stride <= LANES && left >= LANES ? LANES : kept, row);
}

/* panel[t * stride + c] = source[t * step + c] for c < count, and 0 for count <= c < stride. */
static inline void pack_straight(
    float *panel, size_t stride, size_t count, size_t steps, const float *source, size_t step)
{
    if (stride == TILE_COLUMNS && count == TILE_COLUMNS) {
        for (size_t t = 0; t < steps; t++)
            for (int v = 0; v < TILE_VECTORS; v++)
                vector_store(
                    panel + t * TILE_COLUMNS + v * LANES, vector_load(source + t * step + v * LANES));
        return;
    }
    for (size_t first = 0; first < stride; first += LANES) {
        const size_t kept = lanes_of(stride, first), given = lanes_of(count, first);
        for (size_t t = 0; t < steps; t++)
            store_row(panel + t * stride + first, kept, stride, (steps - t) * stride,
                vector_load_first(source + t * step + first, given));
    }
}

/* panel[t * stride + c] = source[c * step + t] for c < count, and 0 for count <= c < stride. */
static inline void pack_turned(
    float *panel, size_t stride, size_t count, size_t steps, const float *source, size_t step)
{
    for (size_t t = 0; t < steps; t += LANES) {
        const size_t existing = lanes_of(steps, t);
        for (size_t first = 0; first < stride; first += LANES) {
            const size_t kept = lanes_of(stride, first), given = lanes_of(count, first);
            const float *from = source + first * step + t;
            float *to = panel + t * stride + first;
            vector block[LANES];
            if (existing == LANES) {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++)
                    block[c] = c < given ? vector_load(from + c * step) : vector_all(0.0f);
            } else {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++)
                    block[c] = c < given ? vector_load_first(from + c * step, existing) : vector_all(0.0f);
            }
            vector_transpose(block);
            if (kept == LANES) {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++)
                    if (c < existing) vector_store(to + c * stride, block[c]);
            } else {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++)
                    if (c < existing)
                        store_row(to + c * stride, kept, stride, (steps - t - c) * stride, block[c]);
            }
        }
    }
}

/* One step of the chains of rows first .. last - 1 of a tile. */
ALWAYS_INLINE void tile_step(int first, int last, int rows, int vectors, const float *left, size_t row_step,
    const float *right, vector sum[TILE_ROWS][TILE_VECTORS])
{
    vector b[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) b[v] = vector_load(right + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        if (r < first || r >= last) continue;
        const vector a = vector_all(left[(size_t)r * row_step]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] = vector_fma(a, b[v], sum[r][v]);
    }
}

/* sum[r][.] continues its chain over `steps` steps: left[r * row_step + t * step] times row t of the panel
   `right`. rows, vectors, row_step and step are constants where this is inlined. */
ALWAYS_INLINE void tile_chains(int rows, int vectors, size_t steps, const float *left, size_t row_step,
    size_t step, const float *right, vector sum[TILE_ROWS][TILE_VECTORS])
{
#pragma GCC unroll 4
    for (size_t t = 0; t < steps; t++)
        tile_step(0, rows, rows, vectors, left + t * step, row_step, right + t * TILE_COLUMNS, sum);
}
