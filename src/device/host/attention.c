/* Causal self-attention as products of tiles. A thread takes a block of queries (or, in half of backward, of
   keys) of one head and goes over the other side in chunks: scores by tiles, a pass along each row, then the
   products with the values. Only a block's rows are kept, never sequence^2. Chains run in the definition's
   order: over keys or queries ascending, chunk after chunk, through the result's memory. */
#include "device/host/exponentials.h"
#include "device/host/kernels.h"
#include "device/host/tile_attention.h"
#include <omp.h>

/* Multiply-adds below which one thread is sooner done than several have met. */
static const double worth_threads = 50000;

static struct head head_of(const struct attention *a, size_t index)
{
    const size_t size = a->hidden / a->heads, batch = index / a->heads, column = index % a->heads * size;
    const size_t qkv = batch * a->sequence * 3 * a->hidden + column,
                 out = batch * a->sequence * a->hidden + column;
    struct head h = {
        .sequence = a->sequence, .size = size, .qkv_stride = 3 * a->hidden, .stride = a->hidden
    };
    h.q = a->qkv + qkv, h.k = h.q + a->hidden, h.v = h.k + a->hidden;
    h.out = a->out + out;
    h.maximum = a->maximum + index * a->sequence, h.inverse = a->inverse + index * a->sequence;
    if (a->dout) {
        h.dout = a->dout + out, h.row_dot = a->row_dot + index * a->sequence;
        h.dq = a->dqkv + qkv, h.dk = h.dq + a->hidden, h.dv = h.dk + a->hidden;
    }
    h.scale = attention_scale(size);
    return h;
}

/* A thread's memory. turned: a side's rows as right operand of products over the head's columns, [panels of
   rows][size]; straight: as right operand of products over the rows, [panels of the head's columns][rows];
   left: the block's rows as left operand, [tiles][size]; scores: [chunks][BLOCK][CHUNK_STRIDE]. Two of each,
   for backward needs two. */
struct workspace {
    float *turned[2], *straight[2], *left[2], *scores[2];
};

static size_t chunks_of(size_t sequence)
{
    const size_t chunks = rounded(sequence, CHUNK) / CHUNK;
    return chunks < 2 ? 2 : chunks;
}

static size_t workspace_size(size_t sequence, size_t size)
{
    return 2 * (rounded(rounded(sequence, TILE_COLUMNS) * size, 16) + sequence * rounded(size, TILE_COLUMNS) +
                   BLOCK * size) +
           chunks_of(sequence) * PANEL;
}

static struct workspace workspace_of(
    const struct host_scratch *scratch, size_t thread, size_t sequence, size_t size)
{
    assert(scratch->own_stride >= workspace_size(sequence, size));
    struct workspace w;
    float *at = scratch->own + thread * scratch->own_stride;
    for (int i = 0; i < 2; i++, at += sequence * rounded(size, TILE_COLUMNS)) w.straight[i] = at;
    for (int i = 0; i < 2; i++, at += rounded(rounded(sequence, TILE_COLUMNS) * size, 16)) w.turned[i] = at;
    for (int i = 0; i < 2; i++, at += PANEL)
        w.scores[i] = at; /* forward, which needs one, goes on into the second */
    at += (chunks_of(sequence) - 2) * PANEL;
    for (int i = 0; i < 2; i++, at += BLOCK * size) w.left[i] = at;
    return w;
}

size_t KERNEL(attention_own_size)(const struct device_request *request)
{
    return workspace_size((size_t)request->sequence, (size_t)(request->hidden / request->heads));
}

static void pack_side_turned(const struct head *h, const float *rows, size_t stride, float *to)
{
    for (size_t i = 0; i < h->sequence; i += TILE_COLUMNS)
        pack_turned(to + i * h->size, TILE_COLUMNS, least(TILE_COLUMNS, h->sequence - i), h->size,
            rows + i * stride, stride);
}

static void pack_side_straight(const struct head *h, const float *rows, size_t stride, float *to)
{
    for (size_t c = 0; c < h->size; c += TILE_COLUMNS)
        pack_straight(to + c * h->sequence, TILE_COLUMNS, least(TILE_COLUMNS, h->size - c), h->sequence,
            rows + c, stride);
}

/* Makes the scaled scores of one query, `count` of them in chunks that lie PANEL apart, into probabilities.
 */
static void softmax_row(float *row, size_t count, float *maximum, float *inverse)
{
    /* Up to whole row sums: -infinity changes no maximum; and +0 then changes no sum, since none is -0. */
    const size_t whole = rounded(count, PL_LANES), last = (count - 1) / CHUNK;
    for (size_t j = count; j < whole; j++) row[last * PANEL + j - last * CHUNK] = -INFINITY;
    vector most = vector_all(-INFINITY);
    for (size_t chunk = 0; chunk < whole; chunk += CHUNK) {
        const float *x = row + chunk / CHUNK * PANEL;
        const size_t length = least(CHUNK, whole - chunk);
        for (size_t j = 0; j < length; j += LANES) most = vector_max(vector_load(x + j), most);
    }
    float lanes[LANES], max = -INFINITY;
    vector_store(lanes, most);
    for (int t = 0; t < LANES; t++) max = pl_max(lanes[t], max);
    max += 0.0f;

    const float lowest = limit(PL_SOFTMAX_LEAST);
    float lane[PL_LANES] = { 0 };
    for (size_t chunk = 0; chunk < count; chunk += CHUNK) {
        float *x = row + chunk / CHUNK * PANEL;
        const size_t length = least(CHUNK, count - chunk);
#pragma omp simd
        for (size_t j = 0; j < length; j++) x[j] = pl_at_least(x[j] - max, lowest);
        exponentials(length, x, PL_EXP_BIAS_DOWN);
        for (size_t j = length; j < rounded(length, PL_LANES); j++) x[j] = 0.0f;
        for (size_t j = 0; j < length; j += PL_LANES)
            for (int t = 0; t < PL_LANES; t++) lane[t] += x[j + (size_t)t];
    }
    const float inv = 1.0f / pl_lane_sum(lane);
    for (size_t chunk = 0; chunk < count; chunk += CHUNK) {
        float *x = row + chunk / CHUNK * PANEL;
        const size_t length = least(CHUNK, count - chunk);
#pragma omp simd
        for (size_t j = 0; j < length; j++) x[j] *= inv;
    }
    *maximum = max;
    *inverse = inv;
}

static void forward_block(const struct head *h, struct workspace *w, size_t index)
{
    const struct block b = block_of(h->sequence, index);
    const size_t keys = b.row + b.rows;
    float *const scores = w->scores[0];
    pack_block(h, &b, h->q, h->qkv_stride, w->left[0]);
    for (size_t chunk = 0; chunk < keys; chunk += CHUNK)
        score_chunk(h, &b, chunk, least(chunk + CHUNK, keys), false, w->left[0], w->turned[0],
            (struct score_tile){ .to = scores + chunk / CHUNK * PANEL });
    for (size_t r = 0; r < b.rows; r++)
        softmax_row(scores + r * CHUNK_STRIDE, b.row + r + 1, h->maximum + b.row + r, h->inverse + b.row + r);
    for (size_t chunk = 0; chunk < keys; chunk += CHUNK)
        result_chunk(h, &b, chunk, least(chunk + CHUNK, keys), false, scores + chunk / CHUNK * PANEL,
            w->straight[0], h->out, h->stride, chunk == 0, 1.0f);
}

/* D of a row: the row sum of dout * out. */
static float row_dot(size_t size, const float *a, const float *b)
{
    float lane[PL_LANES] = { 0 };
    size_t c = 0;
    for (; c + PL_LANES <= size; c += PL_LANES)
        for (size_t t = 0; t < PL_LANES; t++) lane[t] += a[c + t] * b[c + t];
    for (size_t t = 0; c < size; c++, t++) lane[t] += a[c] * b[c];
    return pl_lane_sum(lane);
}

static void backward_query_block(const struct head *h, struct workspace *w, size_t index)
{
    const struct block b = block_of(h->sequence, index);
    const size_t keys = b.row + b.rows;
    float *const scores = w->scores[0];
    for (size_t i = b.row; i < keys; i++)
        h->row_dot[i] = row_dot(h->size, h->dout + i * h->stride, h->out + i * h->stride);
    pack_block(h, &b, h->q, h->qkv_stride, w->left[0]);
    pack_block(h, &b, h->dout, h->stride, w->left[1]);
    for (size_t chunk = 0; chunk < keys; chunk += CHUNK) {
        const size_t end = least(chunk + CHUNK, keys);
        score_chunk(h, &b, chunk, end, false, w->left[0], w->turned[0], (struct score_tile){ .to = scores });
        for (size_t i = b.row; i < keys; i++) {
            float *x = scores + (i - b.row) * CHUNK_STRIDE;
            const float maximum = h->maximum[i], inverse = h->inverse[i], lowest = limit(PL_SOFTMAX_LEAST);
            const size_t length = least(end, i + 1) - chunk;
#pragma omp simd
            for (size_t j = 0; j < length; j++) x[j] = pl_at_least(x[j] - maximum, lowest);
            exponentials(length, x, PL_EXP_BIAS_DOWN);
#pragma omp simd
            for (size_t j = 0; j < length; j++) x[j] *= inverse;
        }
        score_chunk(h, &b, chunk, end, false, w->left[1], w->turned[1],
            (struct score_tile){ .to = scores, .probability = scores, .dot = h->row_dot });
        result_chunk(h, &b, chunk, end, false, scores, w->straight[0], h->dq, h->qkv_stride, chunk == 0,
            end == keys ? h->scale : 1.0f);
    }
}

static void backward_key_block(const struct head *h, struct workspace *w, size_t index)
{
    const struct block b = block_of(h->sequence, index);
    const size_t first = b.row / CHUNK * CHUNK;
    float *const probability = w->scores[0], *const gradient = w->scores[1];
    pack_block(h, &b, h->k, h->qkv_stride, w->left[0]);
    pack_block(h, &b, h->v, h->qkv_stride, w->left[1]);
    for (size_t chunk = first; chunk < h->sequence; chunk += CHUNK) {
        const size_t end = least(chunk + CHUNK, h->sequence);
        score_chunk(
            h, &b, chunk, end, true, w->left[0], w->turned[0], (struct score_tile){ .to = probability });
        for (size_t j = b.row; j < b.row + b.rows; j++) {
            float *x = probability + (j - b.row) * CHUNK_STRIDE;
            const float *maximum = h->maximum + chunk, *inverse = h->inverse + chunk;
            const size_t begin = j > chunk ? j - chunk : 0, length = end - chunk;
            const float lowest = limit(PL_SOFTMAX_LEAST);
#pragma omp simd
            for (size_t i = begin; i < length; i++) x[i] = pl_at_least(x[i] - maximum[i], lowest);
            if (length > begin) exponentials(length - begin, x + begin, PL_EXP_BIAS_DOWN);
#pragma omp simd
            for (size_t i = begin; i < length; i++) x[i] *= inverse[i];
        }
        score_chunk(h, &b, chunk, end, true, w->left[1], w->turned[1],
            (struct score_tile){ .to = gradient, .probability = probability, .dot = h->row_dot });
        result_chunk(
            h, &b, chunk, end, true, probability, w->straight[1], h->dv, h->qkv_stride, chunk == first, 1.0f);
        result_chunk(h, &b, chunk, end, true, gradient, w->straight[0], h->dk, h->qkv_stride, chunk == first,
            end == h->sequence ? h->scale : 1.0f);
    }
}

/* The three passes: which operands a thread packs when it comes to a head, and what it does for a block. */
static void forward_pack(const struct head *h, struct workspace *w)
{
    pack_side_turned(h, h->k, h->qkv_stride, w->turned[0]);
    pack_side_straight(h, h->v, h->qkv_stride, w->straight[0]);
}

static void backward_query_pack(const struct head *h, struct workspace *w)
{
    pack_side_turned(h, h->k, h->qkv_stride, w->turned[0]);
    pack_side_turned(h, h->v, h->qkv_stride, w->turned[1]);
    pack_side_straight(h, h->k, h->qkv_stride, w->straight[0]);
}

static void backward_key_pack(const struct head *h, struct workspace *w)
{
    pack_side_turned(h, h->q, h->qkv_stride, w->turned[0]);
    pack_side_turned(h, h->dout, h->stride, w->turned[1]);
    pack_side_straight(h, h->q, h->qkv_stride, w->straight[0]);
    pack_side_straight(h, h->dout, h->stride, w->straight[1]);
}

struct pass {
    void (*pack)(const struct head *, struct workspace *);
    void (*block)(const struct head *, struct workspace *, size_t);
    bool by_key; /* early blocks are the long ones */
};
static const struct pass forward = { forward_pack, forward_block, false };
static const struct pass backward_queries = { backward_query_pack, backward_query_block, false };
static const struct pass backward_keys = { backward_key_pack, backward_key_block, true };

/* One thread's share of a pass: of all blocks of all heads in order, a stretch that is its part of the
 * scores. */
static void share_of_pass(const struct pass *pass, const struct attention *a,
    const struct host_scratch *scratch, size_t thread, size_t team)
{
    const size_t blocks = rounded(a->sequence, BLOCK) / BLOCK, heads = a->batch * a->heads;
    struct workspace w = workspace_of(scratch, thread, a->sequence, a->hidden / a->heads);
    const double all = (double)heads * (double)(blocks * (blocks + 1) / 2);
    double before = 0.0;
    for (size_t index = 0; index < heads; index++) {
        const struct head head = head_of(a, index);
        bool packed = false;
        for (size_t i = 0; i < blocks; i++) {
            const double work = (double)(pass->by_key ? blocks - i : i + 1), middle = before + work / 2;
            before += work;
            if ((size_t)(middle * (double)team / all) != thread) continue;
            if (!packed) pass->pack(&head, &w);
            packed = true;
            pass->block(&head, &w, i);
            if (thread == 0 && scratch->meanwhile) scratch->meanwhile(scratch->meanwhile_argument);
        }
    }
}

static bool alone(const struct attention *a, const struct host_scratch *scratch)
{
    return scratch->threads == 1 ||
           (double)a->batch * (double)a->sequence * (double)a->sequence * (double)a->hidden < worth_threads;
}

void KERNEL(attention_forward)(const struct attention *a, const struct host_scratch *scratch)
{
    if (alone(a, scratch)) {
        share_of_pass(&forward, a, scratch, 0, 1);
        return;
    }
#pragma omp parallel num_threads(scratch->threads)
    share_of_pass(&forward, a, scratch, (size_t)omp_get_thread_num(), (size_t)omp_get_num_threads());
}

void KERNEL(attention_backward)(const struct attention *a, const struct host_scratch *scratch)
{
    if (alone(a, scratch)) {
        share_of_pass(&backward_queries, a, scratch, 0, 1);
        share_of_pass(&backward_keys, a, scratch, 0, 1);
        return;
    }
#pragma omp parallel num_threads(scratch->threads)
    {
        const size_t thread = (size_t)omp_get_thread_num(), team = (size_t)omp_get_num_threads();
        share_of_pass(&backward_queries, a, scratch, thread, team);
#pragma omp barrier /* the keys read every query's D */
        share_of_pass(&backward_keys, a, scratch, thread, team);
    }
}
