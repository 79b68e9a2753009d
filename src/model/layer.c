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

static struct layer_kept kept_pieces(const struct model *model, struct piece *piece)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    struct layer_kept k;
    k.dout = take(piece, n * h);
    k.du = take(piece, n * f);
    k.dnormed_y = take(piece, n * h);
    k.dy = take(piece, n * h);
    k.dqkv = take(piece, n * 3 * h);
    k.dnormed_x = take(piece, n * h);
    return k;
}

size_t layer_kept_size(const struct model *model)
{
    struct piece piece = { 0 };
    kept_pieces(model, &piece);
    return piece.used;
}

struct layer_kept layer_kept_view(const struct model *model, float *memory)
{
    struct piece piece = { memory, 0 };
    return kept_pieces(model, &piece);
}

static struct layer_work work_pieces(const struct model *model, bool splits, struct piece *piece)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    struct layer_work w = { 0 };
    w.normed = take(piece, n * h);
    w.g = take(piece, n * f);
    w.row_dot = take(piece, n * (size_t)model->heads);
    if (splits) return w;
    w.kept.du = take(piece, n * f);
    w.kept.dnormed_x = w.kept.dnormed_y = take(piece, n * h);
    w.kept.dy = take(piece, n * h);
    w.kept.dqkv = take(piece, n * 3 * h);
    return w;
}

size_t layer_work_size(const struct model *model, bool splits)
{
    struct piece piece = { 0 };
    work_pieces(model, splits, &piece);
    return piece.used;
}

struct layer_work layer_work_view(const struct model *model, bool splits, float *memory)
{
    struct piece piece = { memory, 0 };
    return work_pieces(model, splits, &piece);
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

void layer_parameters(
    struct device *device, const struct model *model, int layer, const struct layer_weights *weights)
{
    for (int p = 0; p < PARAMETERS; p++) {
        const struct extent extent = parameter_extent(model, (enum parameter)p);
        struct random key = {
            .seed = model->seed, .purpose = RANDOM_PARAMETER + (uint32_t)p, .layer = (uint32_t)layer
        };
        parameter_law(model, (enum parameter)p, &key.centre, &key.deviation);
        device->random(device, &key, extent.rows * extent.columns,
            weights->values + parameter_offset(model, (enum parameter)p));
    }
    if (weights->operands)
        device->operand_make(device, parameters_size(model), weights->values, weights->operands);
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
    if (purpose == RANDOM_INPUT) device->round_boundary(device, count, x);
}

float loss_scale(const struct model *model)
{
    return 1.0f / (float)loss_elements(model);
}

void model_loss(struct device *device, const struct model *model, const float *out, const float *target,
    float *dout, float *loss, bool accumulate)
{
    device->loss(device, model_tokens(model), (size_t)model->hidden, out, target, loss_scale(model), dout,
        loss, accumulate);
    device->round_boundary(device, boundary_size(model), dout);
}

static struct attention attention_of(const struct model *model, const struct layer_saved *saved)
{
    return (struct attention){ .batch = (size_t)model->microbatch_size,
        .sequence = (size_t)model->sequence,
        .hidden = (size_t)model->hidden,
        .heads = (size_t)model->heads,
        .qkv = saved->qkv,
        .out = saved->attention,
        .maximum = saved->maximum,
        .inverse = saved->inverse };
}

/* One layer's parameters, and what products read of each, by enum parameter. */
struct parameter_views {
    const float *value[PARAMETERS];
    const void *operand[PARAMETERS];
};

static struct parameter_views views_of(const struct model *model, const struct layer_weights *weights)
{
    struct parameter_views views;
    const size_t element = operands_bytes(model) / parameters_size(model);
    for (int p = 0; p < PARAMETERS; p++) {
        const size_t offset = parameter_offset(model, (enum parameter)p);
        views.value[p] = weights->values + offset;
        views.operand[p] = weights->operands ? (const char *)weights->operands + offset * element : NULL;
    }
    return views;
}

/* c [m, n] = residual + (a [m, k] w [k, n] + bias) */
static void linear(struct device *device, size_t m, size_t n, size_t k, const float *a,
    const struct parameter_views *views, enum parameter weight, enum parameter bias, const float *residual,
    float *c)
{
    device->gemm(device, &(struct gemm){ .form = GEMM_NN,
                             .m = m,
                             .n = n,
                             .k = k,
                             .a = a,
                             .b = views->value[weight],
                             .c = c,
                             .bias = views->value[bias],
                             .residual = residual,
                             .b_operand = views->operand[weight] });
}

void layer_forward(struct device *device, const struct model *model, const struct layer_weights *weights,
    const struct layer_saved *s, const struct layer_work *work, float *out)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    const struct parameter_views w = views_of(model, weights);

    device->norm_forward(device, n, h, s->x, w.value[ATTENTION_NORM_GAIN], w.value[ATTENTION_NORM_BIAS],
        work->normed, s->mean_x, s->rstd_x);
    linear(device, n, 3 * h, h, work->normed, &w, ATTENTION_QKV_WEIGHT, ATTENTION_QKV_BIAS, NULL, s->qkv);
    const struct attention attention = attention_of(model, s);
    device->attention_forward(device, &attention);
    linear(device, n, h, h, s->attention, &w, ATTENTION_OUTPUT_WEIGHT, ATTENTION_OUTPUT_BIAS, s->x, s->y);

    device->norm_forward(device, n, h, s->y, w.value[MLP_NORM_GAIN], w.value[MLP_NORM_BIAS], work->normed,
        s->mean_y, s->rstd_y);
    linear(device, n, f, h, work->normed, &w, MLP_UP_WEIGHT, MLP_UP_BIAS, NULL, s->u);
    if (!out) return;
    device->gelu_forward(device, n * f, s->u, work->g);
    linear(device, n, h, f, work->g, &w, MLP_DOWN_WEIGHT, MLP_DOWN_BIAS, s->y, out);
    device->round_boundary(device, n * h, out);
}

enum { INPUTS = 1, WEIGHTS = 2 }; /* the halves of backward */

/* Of c [m, n] = a [m, k] w + bias: dw [k, n] += a^T dc, dbias [n] += columns of dc */
static void parameters_backward(struct device *device, size_t m, size_t n, size_t k, const float *a,
    const float *dc, float *dw, float *dbias, bool accumulate)
{
    device->column_sum(device, m, n, dc, dbias, accumulate);
    device->gemm(device,
        &(struct gemm){
            .form = GEMM_TN, .m = k, .n = n, .k = m, .a = a, .b = dc, .c = dw, .accumulate = accumulate });
}

/* and da [m, k] = dc [m, n] w^T */
static void input_backward(struct device *device, size_t m, size_t n, size_t k, const float *dc,
    const struct parameter_views *views, enum parameter weight, float *da)
{
    device->gemm(device, &(struct gemm){ .form = GEMM_NT,
                             .m = m,
                             .n = k,
                             .k = n,
                             .a = dc,
                             .b = views->value[weight],
                             .c = da,
                             .b_operand = views->operand[weight] });
}

/* One half of backward, or both: every call belongs to one, so that the bits are the same either way. In the
   order that suits both at once: what was just written is read. dnormed_y may lie where dnormed_x does, and
   dx where dout: the one is done with before the other is written. */
static void backward(struct device *device, const struct model *model, int halves,
    const struct layer_weights *weights, float *gradients, const struct layer_saved *s,
    const struct layer_kept *kept, const struct layer_work *work, const float *dout, float *dx,
    bool accumulate)
{
    const size_t n = model_tokens(model), h = (size_t)model->hidden, f = (size_t)model->ffn;
    const bool inputs = halves & INPUTS, parameters = halves & WEIGHTS;
    const struct parameter_views w = views_of(model, weights);
    float *d[PARAMETERS];
    for (int p = 0; p < PARAMETERS; p++)
        d[p] = parameters ? gradients + parameter_offset(model, (enum parameter)p) : NULL;

    /* The weight gradient of `down` needs gelu(u), which gelu_backward makes again beside du: du comes first.
     * W alone makes it by itself. */
    if (inputs) {
        input_backward(device, n, h, f, dout, &w, MLP_DOWN_WEIGHT, kept->du);
        device->gelu_backward(device, n * f, s->u, kept->du, work->g, kept->du);
    } else {
        device->gelu_forward(device, n * f, s->u, work->g);
    }
    if (parameters)
        parameters_backward(device, n, h, f, work->g, dout, d[MLP_DOWN_WEIGHT], d[MLP_DOWN_BIAS], accumulate);

    if (parameters) {
        device->norm_again(device, n, h, s->y, w.value[MLP_NORM_GAIN], w.value[MLP_NORM_BIAS], s->mean_y,
            s->rstd_y, work->normed);
        parameters_backward(
            device, n, f, h, work->normed, kept->du, d[MLP_UP_WEIGHT], d[MLP_UP_BIAS], accumulate);
    }
    if (inputs) input_backward(device, n, f, h, kept->du, &w, MLP_UP_WEIGHT, kept->dnormed_y);
    if (parameters)
        device->norm_columns(device, n, h, kept->dnormed_y, s->y, s->mean_y, s->rstd_y, d[MLP_NORM_GAIN],
            d[MLP_NORM_BIAS], accumulate);
    if (inputs)
        device->norm_backward(device, n, h, kept->dnormed_y, s->y, w.value[MLP_NORM_GAIN], s->mean_y,
            s->rstd_y, dout, kept->dy);

    /* In W alone dnormed_x is the gradient of norm(x) from the beginning, and only norm_columns reads it. */
    if (parameters)
        parameters_backward(device, n, h, h, s->attention, kept->dy, d[ATTENTION_OUTPUT_WEIGHT],
            d[ATTENTION_OUTPUT_BIAS], accumulate);
    if (inputs) {
        input_backward(device, n, h, h, kept->dy, &w, ATTENTION_OUTPUT_WEIGHT, kept->dnormed_x);
        struct attention attention = attention_of(model, s);
        attention.dout = kept->dnormed_x;
        attention.dqkv = kept->dqkv;
        attention.row_dot = work->row_dot;
        device->attention_backward(device, &attention);
    }

    if (parameters) {
        device->norm_again(device, n, h, s->x, w.value[ATTENTION_NORM_GAIN], w.value[ATTENTION_NORM_BIAS],
            s->mean_x, s->rstd_x, work->normed);
        parameters_backward(device, n, 3 * h, h, work->normed, kept->dqkv, d[ATTENTION_QKV_WEIGHT],
            d[ATTENTION_QKV_BIAS], accumulate);
    }
    if (inputs) input_backward(device, n, 3 * h, h, kept->dqkv, &w, ATTENTION_QKV_WEIGHT, kept->dnormed_x);
    if (parameters)
        device->norm_columns(device, n, h, kept->dnormed_x, s->x, s->mean_x, s->rstd_x,
            d[ATTENTION_NORM_GAIN], d[ATTENTION_NORM_BIAS], accumulate);
    if (inputs) {
        device->norm_backward(device, n, h, kept->dnormed_x, s->x, w.value[ATTENTION_NORM_GAIN], s->mean_x,
            s->rstd_x, kept->dy, dx);
        device->round_boundary(device, n * h, dx);
    }
}

void layer_backward(struct device *device, const struct model *model, const struct layer_weights *weights,
    float *gradients, const struct layer_saved *saved, const struct layer_kept *kept,
    const struct layer_work *work, const float *dout, float *dx, bool accumulate)
{
    backward(device, model, INPUTS | WEIGHTS, weights, gradients, saved, kept, work, dout, dx, accumulate);
}

void layer_backward_input(struct device *device, const struct model *model,
    const struct layer_weights *weights, const struct layer_saved *saved, const struct layer_kept *kept,
    const struct layer_work *work, float *dx)
{
    backward(device, model, INPUTS, weights, NULL, saved, kept, work, kept->dout, dx, false);
}

void layer_backward_weight(struct device *device, const struct model *model,
    const struct layer_weights *weights, float *gradients, const struct layer_saved *saved,
    const struct layer_kept *kept, const struct layer_work *work, bool accumulate)
{
    backward(device, model, WEIGHTS, weights, gradients, saved, kept, work, kept->dout, NULL, accumulate);
}

struct layer_flops layer_flops(const struct model *model)
{
    const double n = (double)model_tokens(model), h = model->hidden, f = model->ffn, s = model->sequence;
    const double gemms = 2 * n * (4 * h * h + 2 * h * f);
    const double product = 2 * h * (double)model->microbatch_size * s * (s + 1) / 2;
    return (struct layer_flops){ .forward = gemms + 2 * product, .backward = 2 * gemms + 4 * product };
}
