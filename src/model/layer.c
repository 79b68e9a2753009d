#include "model/layer.h"
#include <math.h>

/* Hands out pieces of one block of memory, each beginning at a multiple of 64 elements (256 bytes). */
struct piece {
    float *memory;
    size_t used;
};

static float *take(struct piece *piece, size_t elements)
{
    float *here = piece->memory ? piece->memory + piece->used : NULL;
    piece->used += (elements + 63) / 64 * 64;
    return here;
}

/* The one list of the saved tensors: walked with NULL it gives the size, with memory the views. */
static struct layer_saved saved_pieces(const struct model *model, struct piece *piece)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    struct layer_saved s;
    s.x = take(piece, n * h);
    s.mean_x = take(piece, n);
    s.rstd_x = take(piece, n);
    s.qkv = take(piece, n * 3 * h);
    s.maximum = take(piece, n * (size_t)model->heads);
    s.inverse = take(piece, n * (size_t)model->heads);
    s.attention = take(piece, n * h);
    s.y = take(piece, n * h);
    s.mean_y = take(piece, n);
    s.rstd_y = take(piece, n);
    s.u = take(piece, n * f);
    return s;
}

size_t layer_saved_size(const struct model *model)
{
    struct piece piece = { 0 };
    saved_pieces(model, &piece);
    return piece.used;
}

struct layer_saved layer_saved_view(const struct model *model, float *memory)
{
    struct piece piece = { memory, 0 };
    return saved_pieces(model, &piece);
}

static struct layer_work work_pieces(const struct model *model, struct piece *piece)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    struct layer_work w;
    w.normed = take(piece, n * h);
    w.g = take(piece, n * f);
    w.du = take(piece, n * f);
    w.dnormed = take(piece, n * h);
    w.dy = take(piece, n * h);
    w.dqkv = take(piece, n * 3 * h);
    w.row_dot = take(piece, n * (size_t)model->heads);
    return w;
}

size_t layer_work_size(const struct model *model)
{
    struct piece piece = { 0 };
    work_pieces(model, &piece);
    return piece.used;
}

struct layer_work layer_work_view(const struct model *model, float *memory)
{
    struct piece piece = { memory, 0 };
    return work_pieces(model, &piece);
}

/* Centre 0, or 1 for a gain; deviation 0.02, and divided by sqrt(2 L) for the two projections back into the
 * residual. */
static void parameter_law(
    const struct model *model, enum parameter parameter, float *centre, float *deviation)
{
    const bool gain = parameter == ATTENTION_NORM_GAIN || parameter == MLP_NORM_GAIN;
    const bool into_residual = parameter == ATTENTION_OUTPUT_WEIGHT || parameter == MLP_DOWN_WEIGHT;
    *centre = gain ? 1.0f : 0.0f;
    *deviation = into_residual ? 0.02f / sqrtf(2.0f * (float)model->layers) : 0.02f;
}

void layer_parameters(struct device *device, const struct model *model, int layer, float *weights)
{
    for (int p = 0; p < PARAMETERS; p++) {
        const struct extent extent = parameter_extent(model, (enum parameter)p);
        struct random key = {
            .seed = model->seed, .purpose = RANDOM_PARAMETER + (uint32_t)p, .layer = (uint32_t)layer
        };
        parameter_law(model, (enum parameter)p, &key.centre, &key.deviation);
        device->random(
            device, &key, extent.rows * extent.columns, weights + parameter_offset(model, (enum parameter)p));
    }
}

void boundary_random(
    struct device *device, const struct model *model, uint32_t purpose, int step, int microbatch, float *x)
{
    const size_t count = boundary_size(model);
    const struct random key = { .seed = model->seed,
        .purpose = purpose,
        .step = (uint32_t)step,
        .first_index = (uint64_t)microbatch * count,
        .deviation = 1.0f };
    device->random(device, &key, count, x);
}

static struct attention attention_of(
    const struct model *model, const struct layer_saved *saved, const struct layer_work *work)
{
    return (struct attention){ .batch = (size_t)model->microbatch_size,
        .sequence = (size_t)model->sequence,
        .hidden = (size_t)model->hidden,
        .heads = (size_t)model->heads,
        .qkv = saved->qkv,
        .out = saved->attention,
        .maximum = saved->maximum,
        .inverse = saved->inverse,
        .row_dot = work->row_dot,
        .dqkv = work->dqkv };
}

/* c [m, n] = residual + (a [m, k] w [k, n] + bias) */
static void linear(struct device *device, size_t m, size_t n, size_t k, const float *a, const float *w,
    const float *bias, const float *residual, float *c)
{
    device->gemm(device, &(struct gemm){ .form = GEMM_NN,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .b = w,
                             .c = c,
                             .bias = bias,
                             .residual = residual });
}

/* Of c = a w + bias: da [m, k] = dc [m, n] w^T, dw [k, n] += a^T dc, dbias [n] += columns of dc. */
static void linear_backward(struct device *device, size_t m, size_t n, size_t k, const float *a,
    const float *w, const float *dc, float *da, float *dw, float *dbias, bool accumulate)
{
    device->column_sum(device, m, n, dc, dbias, accumulate);
    device->gemm(device,
        &(struct gemm){
            .form = GEMM_TN, .m = k, .n = n, .k = m, .a = a, .b = dc, .c = dw, .accumulate = accumulate });
    device->gemm(device, &(struct gemm){ .form = GEMM_NT, .m = m, .n = k, .k = n, .a = dc, .b = w, .c = da });
}

void layer_forward(struct device *device, const struct model *model, const float *weights,
    const struct layer_saved *s, const struct layer_work *work, float *out)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    const float *w[PARAMETERS];
    for (int p = 0; p < PARAMETERS; p++) w[p] = weights + parameter_offset(model, (enum parameter)p);

    device->norm_forward(device, n, h, s->x, w[ATTENTION_NORM_GAIN], w[ATTENTION_NORM_BIAS], work->normed,
        s->mean_x, s->rstd_x);
    linear(device, n, 3 * h, h, work->normed, w[ATTENTION_QKV_WEIGHT], w[ATTENTION_QKV_BIAS], NULL, s->qkv);
    const struct attention attention = attention_of(model, s, work);
    device->attention_forward(device, &attention);
    linear(device, n, h, h, s->attention, w[ATTENTION_OUTPUT_WEIGHT], w[ATTENTION_OUTPUT_BIAS], s->x, s->y);

    device->norm_forward(
        device, n, h, s->y, w[MLP_NORM_GAIN], w[MLP_NORM_BIAS], work->normed, s->mean_y, s->rstd_y);
    linear(device, n, f, h, work->normed, w[MLP_UP_WEIGHT], w[MLP_UP_BIAS], NULL, s->u);
    if (!out) return;
    device->gelu_forward(device, n * f, s->u, work->g);
    linear(device, n, h, f, work->g, w[MLP_DOWN_WEIGHT], w[MLP_DOWN_BIAS], s->y, out);
}

void layer_backward(struct device *device, const struct model *model, const float *weights, float *gradients,
    const struct layer_saved *s, const struct layer_work *work, const float *dout, float *dx, bool accumulate)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    const float *w[PARAMETERS];
    float *d[PARAMETERS];
    for (int p = 0; p < PARAMETERS; p++) {
        w[p] = weights + parameter_offset(model, (enum parameter)p);
        d[p] = gradients + parameter_offset(model, (enum parameter)p);
    }

    /* The weight gradient of `down` needs gelu(u), which only gelu_backward recomputes, from u and dg: dg
     * comes first. */
    device->gemm(device,
        &(struct gemm){
            .form = GEMM_NT, .m = n, .n = f, .k = h, .a = dout, .b = w[MLP_DOWN_WEIGHT], .c = work->du });
    device->gelu_backward(device, n * f, s->u, work->du, work->g, work->du);
    device->column_sum(device, n, h, dout, d[MLP_DOWN_BIAS], accumulate);
    device->gemm(device, &(struct gemm){ .form = GEMM_TN,
                             .m = f,
                             .n = h,
                             .k = n,
                             .a = work->g,
                             .b = dout,
                             .c = d[MLP_DOWN_WEIGHT],
                             .accumulate = accumulate });

    device->norm_again(
        device, n, h, s->y, w[MLP_NORM_GAIN], w[MLP_NORM_BIAS], s->mean_y, s->rstd_y, work->normed);
    linear_backward(device, n, f, h, work->normed, w[MLP_UP_WEIGHT], work->du, work->dnormed,
        d[MLP_UP_WEIGHT], d[MLP_UP_BIAS], accumulate);
    device->norm_columns(device, n, h, work->dnormed, s->y, s->mean_y, s->rstd_y, d[MLP_NORM_GAIN],
        d[MLP_NORM_BIAS], accumulate);
    device->norm_backward(
        device, n, h, work->dnormed, s->y, w[MLP_NORM_GAIN], s->mean_y, s->rstd_y, dout, work->dy);

    linear_backward(device, n, h, h, s->attention, w[ATTENTION_OUTPUT_WEIGHT], work->dy, work->dnormed,
        d[ATTENTION_OUTPUT_WEIGHT], d[ATTENTION_OUTPUT_BIAS], accumulate);
    struct attention attention = attention_of(model, s, work);
    attention.dout = work->dnormed;
    device->attention_backward(device, &attention);

    device->norm_again(device, n, h, s->x, w[ATTENTION_NORM_GAIN], w[ATTENTION_NORM_BIAS], s->mean_x,
        s->rstd_x, work->normed);
    linear_backward(device, n, 3 * h, h, work->normed, w[ATTENTION_QKV_WEIGHT], work->dqkv, work->dnormed,
        d[ATTENTION_QKV_WEIGHT], d[ATTENTION_QKV_BIAS], accumulate);
    device->norm_columns(device, n, h, work->dnormed, s->x, s->mean_x, s->rstd_x, d[ATTENTION_NORM_GAIN],
        d[ATTENTION_NORM_BIAS], accumulate);
    device->norm_backward(
        device, n, h, work->dnormed, s->x, w[ATTENTION_NORM_GAIN], s->mean_x, s->rstd_x, work->dy, dx);
}

struct layer_flops layer_flops(const struct model *model)
{
    const double n = (double)model_tokens(model), h = model->hidden, f = model->ffn, s = model->sequence;
    const double gemms = 2 * n * (4 * h * h + 2 * h * f);
    const double product = 2 * h * (double)model->microbatch_size * s * (s + 1) / 2;
    return (struct layer_flops){ .forward = gemms + 2 * product, .backward = 2 * gemms + 4 * product };
}
