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
#define TILE_ROWS_4_(v, INSTANCE)                                                                            \
    TILE_CASE_(1, v, INSTANCE) TILE_CASE_(2, v, INSTANCE) TILE_CASE_(3, v, INSTANCE) TILE_CASE_(4, v, INSTANCE)
#define TILE_ROWS_6_(v, INSTANCE)                                                                            \
    TILE_ROWS_4_(v, INSTANCE) TILE_CASE_(5, v, INSTANCE) TILE_CASE_(6, v, INSTANCE)
#define TILE_ROWS_14_(v, INSTANCE)                                                                           \
    TILE_ROWS_6_(v, INSTANCE)                                                                                \
    TILE_CASE_(7, v, INSTANCE) TILE_CASE_(8, v, INSTANCE) TILE_CASE_(9, v, INSTANCE)                         \
    TILE_CASE_(10, v, INSTANCE) TILE_CASE_(11, v, INSTANCE) TILE_CASE_(12, v, INSTANCE)                      \
    TILE_CASE_(13, v, INSTANCE) TILE_CASE_(14, v, INSTANCE)
#if TILE_ROWS == 4
#define TILE_ROWS_ TILE_ROWS_4_
#elif TILE_ROWS == 6
#define TILE_ROWS_ TILE_ROWS_6_
#elif TILE_ROWS == 14
#define TILE_ROWS_ TILE_ROWS_14_
#endif
#if TILE_VECTORS == 2
#define TILE_DISPATCH(rows, vectors, INSTANCE)                                                               \
    switch ((vectors)*16 + (rows)) {                                                                         \
        TILE_ROWS_(1, INSTANCE) TILE_ROWS_(2, INSTANCE)                                                      \
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

/* panel[t * stride + c] = source[c * step + t] for c < count; for count <= c < stride, the last of these
 * again. */
static inline void pack_turned(
    float *panel, size_t stride, size_t count, size_t steps, const float *source, size_t step)
{
    for (size_t first = 0; first < stride; first += LANES) {
        const size_t kept = lanes_of(stride, first);
        size_t line[LANES];
        for (size_t c = 0; c < LANES; c++) line[c] = (first + c < count ? first + c : count - 1) * step;
        for (size_t t = 0; t < steps; t += LANES) {
            const size_t existing = lanes_of(steps, t);
            const float *from = source + t;
            float *to = panel + t * stride + first;
            vector block[LANES];
            if (existing == LANES) {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++) block[c] = vector_load(from + line[c]);
            } else {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++) block[c] = vector_load_first(from + line[c], existing);
            }
            vector_transpose(block);
            if (existing == LANES && (kept == LANES || (stride <= LANES && 2 * stride >= LANES))) {
                /* As store_row, whose condition holds: two rows or more go on from here. */
#pragma GCC unroll 16
                for (size_t c = 0; c + 1 < LANES; c++) vector_store(to + c * stride, block[c]);
                store_row(to + (LANES - 1) * stride, kept, stride, (steps - t - (LANES - 1)) * stride,
                    block[LANES - 1]);
            } else {
#pragma GCC unroll 16
                for (size_t c = 0; c < LANES; c++)
                    if (c < existing)
                        store_row(to + c * stride, kept, stride, (steps - t - c) * stride, block[c]);
            }
        }
    }
}

/* Whether a tile's row r is multiplied by its element of the left operand as it lies in memory, for each
   vector anew: an instruction less than loading it into a register first, which counts where another thread
   of the same core takes half of its turns; but more loads, so not for every row. Compilers do so where an
   element is used once. */
#if defined(__AVX512F__)
#define TILE_FROM_MEMORY(r) ((r) % 2 == 1)
#else
#define TILE_FROM_MEMORY(r) false
#endif

/* One step of the chains of rows first .. last - 1 of a tile. left, again: the same address, which the
   compiler must not know. */
ALWAYS_INLINE void tile_step(int first, int last, int rows, int vectors, const float *left,
    const float *again, size_t row_step, const float *right, vector sum[TILE_ROWS][TILE_VECTORS])
{
    vector b[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) b[v] = vector_load(right + v * LANES);
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        if (r < first || r >= last) continue;
        const vector a = vector_all(left[(size_t)r * row_step]);
        const vector other = TILE_FROM_MEMORY(r) ? vector_all(again[(size_t)r * row_step]) : a;
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) sum[r][v] = vector_fma(v % 2 ? other : a, b[v], sum[r][v]);
    }
}

/* `address`, as something that the compiler knows nothing of. */
ALWAYS_INLINE const float *unknown(const float *address)
{
    __asm__("" : "+r"(address));
    return address;
}

/* sum[r][.] continues its chain over `steps` steps: left[r * row_step + t * step] times row t of the panel
   `right`. rows, vectors, row_step and step are constants where this is inlined. */
ALWAYS_INLINE void tile_chains(int rows, int vectors, size_t steps, const float *left, size_t row_step,
    size_t step, const float *right, vector sum[TILE_ROWS][TILE_VECTORS])
{
    const float *again = unknown(left);
#pragma GCC unroll 4
    for (size_t t = 0; t < steps; t++) {
        tile_step(0, rows, rows, vectors, left, again, row_step, right, sum);
        left += step, again += step, right += TILE_COLUMNS;
    }
}
