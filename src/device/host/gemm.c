/* C = A B in the three forms of device.h: blocked for the caches, operands packed, tiles of C in registers
   (the loops of K. Goto and R. van de Geijn, Anatomy of high-performance matrix multiplication, ACM TOMS 34,
   2008), with one thing that is not theirs: each element stays one chain. k is cut into blocks only so that
   what is packed fits a cache: at a cut the accumulators are put away as they are, into `partial`, and taken
   up again. (Not into C, which may be the residual.) Threads share out C, never k, so bits depend neither on
   their number nor on the blocks. Each has a rectangle of C and packs for itself what that takes: to pack a
   panel twice costs less than to fetch it from another core's cache and to meet after each block. */
#include "device/host/gemm_block.h"
#include "device/host/kernels.h"
#include <omp.h>

enum {
    PACKING = 16,           /* multiply-adds in whose time an element of an operand is packed, about */
    WORTH_THREADS = 200000, /* multiply-adds below which one thread is sooner done than several have met */
    LOOK_AFTER = 3 << 20    /* multiply-adds of a thread between two looks at what else there is to do */
};

size_t KERNEL(gemm_own_size)(const struct device_request *request)
{
    (void)request; /* the blocks are the same for all sizes */
    return LEFT_SIZE + PARTIAL_SIZE + RIGHT_SIZE;
}

/* Where a tile's chains come from and go to. */
struct tile {
    size_t steps, columns,
        n; /* columns that exist, at most TILE_COLUMNS; n: floats from row to row of c and residual */
    const float *left, *right;
    float *c, *partial;
    const float *bias, *residual; /* of this tile's first column and element, or NULL */
    size_t next,
        next_rows; /* the next tile: floats from here to there in c; its rows, 0 where there is none */
    bool from_zero, from_c, first, last;
    struct coming *coming;
};

/* Asks for row r of what the next tile will take up and put away, so that it comes while this one's chains
   run; a row at a time, since only so many lines can be on their way at once. */
ALWAYS_INLINE void prefetch_next(const struct tile *tile, size_t r)
{
    if (!tile->first || !tile->last)
        for (size_t i = 0; i < TILE_COLUMNS; i += 16)
            prefetch(tile->partial + TILE_SIZE + r * TILE_COLUMNS + i);
    if ((tile->from_c || tile->last) && r < tile->next_rows) {
        const size_t at = tile->next + r * tile->n;
        for (size_t i = 0; i < TILE_COLUMNS + 15; i += 16) {
            prefetch(tile->c + at + i);
            if (tile->residual) prefetch(tile->residual + at + i);
        }
    }
}

/* A tile's accumulators, as they begin. */
ALWAYS_INLINE void begin_chains(
    int rows, int vectors, const struct tile *tile, vector sum[TILE_ROWS][TILE_VECTORS])
{
#define EACH_VECTOR(value)                                                                                   \
    _Pragma("GCC unroll 16") for (int r = 0; r < rows; r++)                                                  \
        _Pragma("GCC unroll 4") for (int v = 0; v < vectors; v++) sum[r][v] = (value)
    if (tile->from_zero)
        EACH_VECTOR(vector_all(0.0f));
    else if (!tile->from_c)
        EACH_VECTOR(vector_load(tile->partial + (r * TILE_VECTORS + v) * LANES));
    else if (tile->columns == (size_t)vectors * LANES)
        EACH_VECTOR(vector_load(tile->c + (size_t)r * tile->n + v * LANES));
    else
        EACH_VECTOR(vector_load_first(
            tile->c + (size_t)r * tile->n + v * LANES, lanes_of(tile->columns, (size_t)v * LANES)));
}

/* What a chain's end is worth, put where it belongs. whole: all lanes are elements. */
ALWAYS_INLINE void end_chains(
    int rows, int vectors, bool whole, const struct tile *tile, vector sum[TILE_ROWS][TILE_VECTORS])
{
    size_t count[TILE_VECTORS];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) count[v] = whole ? LANES : lanes_of(tile->columns, (size_t)v * LANES);
    if (tile->bias) EACH_VECTOR(vector_add(sum[r][v], vector_load_first(tile->bias + v * LANES, count[v])));
    if (tile->residual)
        EACH_VECTOR(vector_add(
            vector_load_first(tile->residual + (size_t)r * tile->n + v * LANES, count[v]), sum[r][v]));
#undef EACH_VECTOR
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            vector_store_first(tile->c + (size_t)r * tile->n + v * LANES, count[v], sum[r][v]);
}

ALWAYS_INLINE void compute_tile(int rows, int vectors, const struct tile *tile)
{
    vector sum[TILE_ROWS][TILE_VECTORS];
    begin_chains(rows, vectors, tile, sum);
    const size_t rows_a_piece = ceiling(TILE_ROWS * PIECE, tile->steps);
    for (size_t t = 0, r = 0; t < tile->steps; t += PIECE) {
        for (const size_t end = least(TILE_ROWS, r + rows_a_piece); r < end; r++) prefetch_next(tile, r);
        if (ASKS_AHEAD) prefetch_coming(tile->coming);
        tile_chains(rows, vectors, least(PIECE, tile->steps - t), tile->left + t * (size_t)rows, 1,
            (size_t)rows, tile->right + t * TILE_COLUMNS, sum);
    }
    if (!tile->last) {
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++)
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                vector_store(tile->partial + (r * TILE_VECTORS + v) * LANES, sum[r][v]);
    } else if (tile->columns == (size_t)vectors * LANES) {
        end_chains(rows, vectors, true, tile, sum);
    } else {
        end_chains(rows, vectors, false, tile, sum);
    }
}

static void compute(
    const struct block *b, const struct strip *strip, size_t row_tile, size_t panel, struct coming *coming)
{
    const struct gemm *g = b->g;
    const size_t begin = tile_begin(b, row_tile), end = tile_begin(b, row_tile + 1);
    const size_t column = b->column + panel * TILE_COLUMNS, at = (b->row + begin) * g->n + column;
    const size_t across = panel - strip->first, panels = strip->end - strip->first;
    const bool to_the_right = panel + 1 < strip->end, below = row_tile + 1 < b->tiles;
    const struct tile tile = {
        .steps = b->steps,
        .columns = least(TILE_COLUMNS, b->columns - panel * TILE_COLUMNS),
        .n = g->n,
        .left = b->left + begin * b->steps,
        .right = b->right + across * TILE_COLUMNS * b->steps,
        .c = g->c + at,
        .partial = b->partial + (strip->first * b->tiles + row_tile * panels + across) * TILE_SIZE,
        .bias = g->bias ? g->bias + column : NULL,
        .residual = g->residual ? g->residual + at : NULL,
        .from_zero = b->first && !g->accumulate,
        .from_c = b->first && g->accumulate,
        .next = to_the_right ? TILE_COLUMNS : (end - begin) * g->n - across * TILE_COLUMNS,
        .next_rows = to_the_right ? end - begin
                     : below      ? tile_begin(b, row_tile + 2) - end
                                  : 0,
        .first = b->first,
        .last = b->last,
        .coming = coming,
    };
#define INSTANCE(r, v) compute_tile(r, v, &tile)
    TILE_DISPATCH(end - begin, TILE_WIDTH(tile.columns), INSTANCE)
#undef INSTANCE
}

/* Counts multiply-adds, and looks up when there have been enough. */
static void look(const struct host_scratch *scratch, size_t *since_look, size_t multiply_adds)
{
    *since_look += multiply_adds;
    if (*since_look < LOOK_AFTER) return;
    *since_look = 0;
    scratch->meanwhile(scratch->meanwhile_argument);
}

/* Packs the block's rows of A, then multiplies strip by strip. since_look: NULL for a thread that does not
 * look up. */
static void multiply_block(const struct block *b, const struct host_scratch *scratch, size_t *since_look)
{
    pack_all_left(b);
    const size_t strips = ceiling(b->panels, STRIP_PANELS);
    for (size_t s = 0; s < strips; s++) {
        const struct strip strip = { part_begin(b->panels, strips, s), part_begin(b->panels, strips, s + 1) };
        pack_right(b, &strip);
        struct coming coming = { 0 };
        if (ASKS_AHEAD) {
            const struct strip next =
                s + 1 < strips ? (struct strip){ strip.end, part_begin(b->panels, strips, s + 2) } : strip;
            const struct source source = source_of_strip(b, &next);
            coming = coming_strip(&source, b->tiles, b->steps);
        }
        for (size_t tile = 0; tile < b->tiles; tile++) {
            for (size_t panel = strip.first; panel < strip.end; panel++)
                compute(b, &strip, tile, panel, &coming);
            if (since_look) look(scratch, since_look, TILE_SIZE * (strip.end - strip.first) * b->steps);
        }
    }
}

/* A thread's part of C: rows [row, row_end) by panels [panel, panel_end). */
struct part {
    size_t row, row_end, panel, panel_end;
};

/* The part of `thread`, of `team`, cut into so many groups: each has columns as it has threads, and its
 * threads share out the rows. */
static struct part part_of_thread(const struct gemm *g, size_t groups, size_t thread, size_t team)
{
    size_t first = 0, end = 0;
    for (size_t group = 0; end <= thread; group++) first = end, end = part_begin(team, groups, group + 1);
    const size_t panels = ceiling(g->n, TILE_COLUMNS), threads = end - first, of_group = thread - first;
    return (struct part){ part_begin(g->m, threads, of_group), part_begin(g->m, threads, of_group + 1),
        part_begin(panels, team, first), part_begin(panels, team, end) };
}

/* What the largest part in a group of so many threads, of `team`, costs at most: multiply-adds for a step. */
static size_t cost_of_part(const struct gemm *g, size_t threads, size_t team)
{
    const size_t rows = ceiling(g->m, threads),
                 columns = ceiling(ceiling(g->n, TILE_COLUMNS) * threads, team) * TILE_COLUMNS;
    return rows * columns +
           PACKING * (rows * ceiling(columns, BLOCK_COLUMNS) + columns * ceiling(rows, BLOCK_ROWS));
}

/* The number of groups with which the slowest thread is done first, of some 15 between 1 and the team. */
static size_t best_groups(const struct gemm *g, size_t team)
{
    size_t best = 1, least_cost = SIZE_MAX;
    for (size_t groups = 1;; groups = least(team, groups + 1 + groups / 4)) {
        const size_t few = cost_of_part(g, team / groups, team),
                     many = cost_of_part(g, ceiling(team, groups), team), cost = few > many ? few : many;
        if (cost < least_cost) best = groups, least_cost = cost;
        if (groups == team) return best;
    }
}

static void multiply_part(
    const struct gemm *g, const struct host_scratch *scratch, const struct part *part, size_t thread)
{
    const size_t m = part->row_end - part->row, all_panels = part->panel_end - part->panel;
    if (m == 0 || all_panels == 0) return;
    const size_t across = ceiling(all_panels, BLOCK_COLUMNS / TILE_COLUMNS);
    const size_t down = ceiling(ceiling(m, TILE_ROWS), BLOCK_ROWS / TILE_ROWS),
                 deep = g->k <= BLOCK_STEPS ? 1 : ceiling(g->k, CUT_STEPS);
    size_t since_look = 0;
    const bool looks = thread == 0 && scratch->meanwhile;
    float *const own = scratch->own + thread * scratch->own_stride;
    struct block b = {
        .g = g, .left = own, .partial = own + LEFT_SIZE, .right = own + LEFT_SIZE + PARTIAL_SIZE
    };
    for (size_t x = 0; x < across; x++) {
        const size_t panel = part->panel + part_begin(all_panels, across, x),
                     end = part->panel + part_begin(all_panels, across, x + 1);
        b.panels = end - panel;
        b.column = panel * TILE_COLUMNS;
        b.columns = least(end * TILE_COLUMNS, g->n) - b.column;
        for (size_t y = 0; y < down; y++) {
            b.row = part->row + part_begin(m, down, y);
            b.rows = part->row + part_begin(m, down, y + 1) - b.row;
            b.tiles = ceiling(b.rows, TILE_ROWS);
            b.height = b.rows / b.tiles;
            b.taller = b.rows % b.tiles;
            for (size_t z = 0; z < deep; z++) {
                b.step = part_begin(g->k, deep, z);
                b.steps = part_begin(g->k, deep, z + 1) - b.step;
                b.first = z == 0;
                b.last = z + 1 == deep;
                multiply_block(&b, scratch, looks ? &since_look : NULL);
            }
        }
    }
}

static void multiply_share(
    const struct gemm *g, const struct host_scratch *scratch, size_t thread, size_t team)
{
    const struct part part = part_of_thread(g, best_groups(g, team), thread, team);
    multiply_part(g, scratch, &part, thread);
}

void KERNEL(gemm)(const struct gemm *g, const struct host_scratch *scratch)
{
    assert(g->m > 0 && g->n > 0 && g->k > 0);
    if (scratch->threads == 1 || (double)g->m * (double)g->n * (double)g->k < WORTH_THREADS) {
        multiply_share(g, scratch, 0, 1);
        return;
    }
#pragma omp parallel num_threads(scratch->threads)
    multiply_share(g, scratch, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
}
