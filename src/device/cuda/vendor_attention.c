/* Attention in mode 'vendor': batched products over blocks of queries, the rows between them by kernels of
   this project. The scores of a block against all keys up to its end are kept in scratch memory of a fixed
   size; keys beyond its end are never computed, and what lies above the diagonal within it is zeroed by the
   row kernels. The heads of a sequence are the batch. dK and dV add up over the blocks in ascending order. */
#include "device/arithmetic.h"
#include "device/cuda/kernels.h"
#include "device/cuda/vendor.h"
#include <assert.h>

enum {
    QUERIES = 512
}; /* of a block: large products, and at most a quarter of their work beyond the diagonal in 2048 */

static size_t ceiling(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

struct attention_block attention_block(size_t heads, size_t sequence, size_t most)
{
    struct attention_block block = { heads, sequence < QUERIES ? sequence : QUERIES };
    while (block.queries > 1 && block.queries * sequence > most) block.queries = ceiling(block.queries, 2);
    size_t fit = most / (block.queries * sequence);
    if (fit < 1) fit = 1;
    block.heads = ceiling(heads, ceiling(heads, fit)); /* groups of nearly one size */
    return block;
}

/* Some heads of one sequence: the tensors at their first column of token 0, and their rows of the statistics.
 */
struct group {
    struct vendor *vendor;
    size_t heads, sequence, hidden, size; /* size: columns of a head */
    size_t element;                       /* bytes of what products read */
    const char *q, *k, *v, *dout;         /* as products read them */
    float *out, *dq, *dk, *dv;
    float *maximum, *inverse;
    const float *row_dot;
    float scale;
};

/* A block of queries of a group: rows first .. first + queries - 1 against keys 0 .. keys - 1. */
struct rows {
    size_t first, queries, keys;
};

/* The largest power of two up to 256 that divides the bytes: what every address is a multiple of where bases
   and distances are multiples of them. */
static size_t alignment_of(size_t bytes)
{
    size_t alignment = 1;
    while (alignment < VENDOR_ALIGNMENT && bytes % (2 * alignment) == 0) alignment *= 2;
    return alignment;
}

/* A batch of matrices, one a head: of tokens (columns of a wider tensor), or of a block's scores. */
struct matrices {
    size_t row, next, align;
};

static struct matrices of_tokens(const struct group *g, size_t row, size_t element)
{
    return (struct matrices){ row, g->size, alignment_of(g->size * element) };
}

static struct matrices of_scores(const struct rows *r, size_t element)
{
    return (struct matrices){ r->keys, r->queries * r->keys, alignment_of(r->queries * r->keys * element) };
}

static void product(const struct group *g, enum gemm_form form, size_t m, size_t n, size_t k,
    struct matrices a, const void *a_first, struct matrices b, const void *b_first, struct matrices c,
    float *c_first, bool add)
{
    const struct product shape = { .form = form,
        .half = g->element == sizeof(uint16_t),
        .m = m,
        .n = n,
        .k = k,
        .a_row = a.row,
        .b_row = b.row,
        .c_row = c.row,
        .batch = g->heads,
        .a_next = a.next,
        .b_next = b.next,
        .c_next = c.next,
        .a_align = a.align,
        .b_align = b.align,
        .c_align = c.align,
        .add = add };
    vendor_product(g->vendor, &shape, a_first, b_first, NULL, add ? c_first : NULL, c_first);
}

/* scores [queries, keys] = x rows of the block, times y's rows up to the block's end, transposed: of q and k;
   of dout and v. */
static void scores(
    const struct group *g, const struct rows *r, const char *x, size_t x_row, const char *y, float *to)
{
    product(g, GEMM_NT, r->queries, r->keys, g->size, of_tokens(g, x_row, g->element),
        x + r->first * x_row * g->element, of_tokens(g, 3 * g->hidden, g->element), y,
        of_scores(r, sizeof(float)), to, false);
}

/* to [queries, size] = p [queries, keys] y, y's rows up to the block's end. */
static void times_keys(
    const struct group *g, const struct rows *r, const void *p, const char *y, float *to, size_t row)
{
    product(g, GEMM_NN, r->queries, g->size, r->keys, of_scores(r, g->element), p,
        of_tokens(g, 3 * g->hidden, g->element), y, of_tokens(g, row, sizeof(float)), to + r->first * row,
        false);
}

/* to [keys, size] += p^T x, x's rows of the block. */
static void add_to_keys(
    const struct group *g, const struct rows *r, const void *p, const char *x, size_t x_row, float *to)
{
    product(g, GEMM_TN, r->keys, g->size, r->queries, of_scores(r, g->element), p,
        of_tokens(g, x_row, g->element), x + r->first * x_row * g->element,
        of_tokens(g, 3 * g->hidden, sizeof(float)), to, true);
}

static void forward_block(const struct group *g, const struct rows *r)
{
    struct vendor *vendor = g->vendor;
    scores(g, r, g->q, 3 * g->hidden, g->k, vendor->s);
    cuda_softmax_rows(vendor->device->compute, g->heads, g->sequence, r->first, r->queries, r->keys, g->scale,
        vendor->s, vendor->p, g->element == sizeof(uint16_t), g->maximum, g->inverse);
    times_keys(g, r, vendor->p, g->v, g->out, g->hidden);
}

static void backward_block(const struct group *g, const struct rows *r)
{
    struct vendor *vendor = g->vendor;
    scores(g, r, g->q, 3 * g->hidden, g->k, vendor->s);
    scores(g, r, g->dout, g->hidden, g->v, vendor->dp);
    cuda_softmax_rows_backward(vendor->device->compute, g->heads, g->sequence, r->first, r->queries, r->keys,
        g->scale, vendor->s, vendor->dp, g->maximum, g->inverse, g->row_dot, vendor->p, vendor->ds,
        g->element == sizeof(uint16_t));
    add_to_keys(g, r, vendor->p, g->dout, g->hidden, g->dv);
    add_to_keys(g, r, vendor->ds, g->q, 3 * g->hidden, g->dk);
    times_keys(g, r, vendor->ds, g->k, g->dq, 3 * g->hidden);
}

/* What products read of the tensors: themselves, or bf16 made of them. */
struct read {
    const void *qkv, *dout;
    size_t element;
};

static struct read operands(struct vendor *vendor, const struct attention *a, bool backward)
{
    const size_t count = a->batch * a->sequence * a->hidden;
    if (!vendor->a_operand) return (struct read){ a->qkv, a->dout, sizeof(float) };
    assert(
        3 * count <= vendor->a_count && count <= vendor->b_count); /* the request's shapes are the largest */
    cuda_to_bf16(vendor->device->compute, 3 * count, a->qkv, vendor->a_operand);
    if (backward) cuda_to_bf16(vendor->device->compute, count, a->dout, vendor->b_operand);
    return (struct read){ vendor->a_operand, vendor->b_operand, sizeof(uint16_t) };
}

static struct group group_of(struct vendor *vendor, const struct attention *a, const struct read *from,
    size_t batch, size_t head, size_t heads)
{
    const size_t size = a->hidden / a->heads;
    const size_t tokens = batch * a->sequence * a->hidden + head * size; /* offset in out and dout */
    const size_t qkv = batch * a->sequence * 3 * a->hidden + head * size;
    const size_t row = (batch * a->heads + head) * a->sequence;
    struct group g = { .vendor = vendor,
        .heads = heads,
        .sequence = a->sequence,
        .hidden = a->hidden,
        .size = size,
        .element = from->element,
        .out = a->out + tokens,
        .maximum = a->maximum + row,
        .inverse = a->inverse + row,
        .scale = attention_scale(size) };
    g.q = (const char *)from->qkv + qkv * g.element;
    g.k = g.q + a->hidden * g.element;
    g.v = g.k + a->hidden * g.element;
    if (!a->dqkv) return g;
    g.dout = (const char *)from->dout + tokens * g.element;
    g.row_dot = a->row_dot + row;
    g.dq = a->dqkv + qkv, g.dk = g.dq + a->hidden, g.dv = g.dk + a->hidden;
    return g;
}

static void for_blocks(struct vendor *vendor, const struct attention *a, bool backward,
    void (*compute)(const struct group *g, const struct rows *r))
{
    const struct read from = operands(vendor, a, backward);
    const struct attention_block cut = attention_block(a->heads, a->sequence, vendor->block_count);
    assert(cut.heads * cut.queries * a->sequence <= vendor->block_count);
    for (size_t batch = 0; batch < a->batch; batch++) {
        for (size_t head = 0; head < a->heads; head += cut.heads) {
            const size_t heads = a->heads - head < cut.heads ? a->heads - head : cut.heads;
            const struct group g = group_of(vendor, a, &from, batch, head, heads);
            for (size_t first = 0; first < a->sequence; first += cut.queries) {
                const size_t left = a->sequence - first, queries = left < cut.queries ? left : cut.queries;
                compute(&g, &(struct rows){ first, queries, first + queries });
            }
        }
    }
}

void vendor_attention_forward(struct vendor *vendor, const struct attention *a)
{
    for_blocks(vendor, a, false, forward_block);
}

/* dK and dV begin at zero, to which each block adds. */
void vendor_attention_backward(struct vendor *vendor, const struct attention *a)
{
    const size_t bytes = a->batch * a->sequence * 3 * a->hidden * sizeof *a->dqkv;
    CUDA_CALL(cudaMemsetAsync(a->dqkv, 0, bytes, vendor->device->compute));
    cuda_row_dot(vendor->device->compute, a);
    for_blocks(vendor, a, true, backward_block);
}
