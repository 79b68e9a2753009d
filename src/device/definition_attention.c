/* Causal self-attention, forward and backward, as plain loops. Scores and probabilities are computed afresh
   wherever they are needed: the same operations on the same numbers give the same bits, so nothing of size
   sequence^2 is ever kept. Terms with key > query are skipped, never multiplied by zero (that would flip -0
   and spread NaN). */
#include "device/definition.h"
#include "device/arithmetic.h"

/* One sequence and one head of the tensors: rows are `sequence` tokens. */
struct head {
    size_t size, qkv_stride,
        stride; /* columns of a head; floats from token to token in qkv and dqkv, in out and dout */
    const float *q, *k, *v, *out, *dout;
    float *dq, *dk, *dv, *out_written;
    float *maximum, *inverse, *row_dot;
    float scale;
};

static struct head head_of(const struct attention *a, size_t batch, size_t index)
{
    const size_t size = a->hidden / a->heads;
    const size_t qkv = batch * a->sequence * 3 * a->hidden + index * size;
    const size_t out = batch * a->sequence * a->hidden + index * size;
    const size_t row = (batch * a->heads + index) * a->sequence;
    struct head head = { .size = size, .qkv_stride = 3 * a->hidden, .stride = a->hidden };
    head.q = a->qkv + qkv, head.k = head.q + a->hidden, head.v = head.k + a->hidden;
    head.out = head.out_written = a->out + out;
    head.maximum = a->maximum + row, head.inverse = a->inverse + row;
    if (a->dout) {
        head.dout = a->dout + out, head.row_dot = a->row_dot + row;
        head.dq = a->dqkv + qkv, head.dk = head.dq + a->hidden, head.dv = head.dk + a->hidden;
    }
    head.scale = attention_scale(size);
    return head;
}

static float chain(size_t count, const float *a, const float *b)
{
    float sum = 0.0f;
    for (size_t c = 0; c < count; c++) sum = pl_fma(a[c], b[c], sum);
    return sum;
}

/* The scaled score of query i and key j: the chain over the head's columns, then one product. */
static float score(const struct head *head, size_t i, size_t j)
{
    return chain(head->size, head->q + i * head->qkv_stride, head->k + j * head->qkv_stride) * head->scale;
}

static float probability(const struct head *head, size_t i, size_t j)
{
    return pl_softmax_exponential(score(head, i, j) - head->maximum[i]) * head->inverse[i];
}

void definition_attention_forward(const struct attention *a)
{
    for (size_t batch = 0; batch < a->batch; batch++) {
        for (size_t index = 0; index < a->heads; index++) {
            const struct head head = head_of(a, batch, index);
            for (size_t i = 0; i < a->sequence; i++) {
                /* From -infinity, a NaN score is passed over (it reaches the row through the denominator),
                   and adding +0 makes a maximum of -0 be +0: so the maximum does not depend on the order it
                   is taken in. */
                float maximum = -INFINITY;
                for (size_t j = 0; j <= i; j++) maximum = pl_max(score(&head, i, j), maximum);
                maximum += 0.0f;
                float lane[PL_LANES] = { 0 };
                for (size_t j = 0; j <= i; j++)
                    lane[j % PL_LANES] += pl_softmax_exponential(score(&head, i, j) - maximum);
                head.maximum[i] = maximum;
                head.inverse[i] = 1.0f / pl_lane_sum(lane);
                float *out = head.out_written + i * head.stride;
                for (size_t c = 0; c < head.size; c++) out[c] = 0.0f;
                for (size_t j = 0; j <= i; j++) {
                    const float p = probability(&head, i, j);
                    const float *v = head.v + j * head.qkv_stride;
                    for (size_t c = 0; c < head.size; c++) out[c] = pl_fma(p, v[c], out[c]);
                }
            }
        }
    }
}

/* The gradient of score (i, j) before scaling: p (dP - D), D the row's sum of dout * out. */
static float score_gradient(const struct head *head, size_t i, size_t j, float p)
{
    const float dp = chain(head->size, head->dout + i * head->stride, head->v + j * head->qkv_stride);
    return p * (dp - head->row_dot[i]);
}

static void backward_by_queries(const struct head *head, size_t sequence)
{
    for (size_t i = 0; i < sequence; i++) {
        const float *out = head->out + i * head->stride, *dout = head->dout + i * head->stride;
        float lane[PL_LANES] = { 0 };
        for (size_t c = 0; c < head->size; c++) lane[c % PL_LANES] += dout[c] * out[c];
        head->row_dot[i] = pl_lane_sum(lane);
        float *dq = head->dq + i * head->qkv_stride;
        for (size_t c = 0; c < head->size; c++) dq[c] = 0.0f;
        for (size_t j = 0; j <= i; j++) {
            const float ds = score_gradient(head, i, j, probability(head, i, j));
            const float *k = head->k + j * head->qkv_stride;
            for (size_t c = 0; c < head->size; c++) dq[c] = pl_fma(ds, k[c], dq[c]);
        }
        for (size_t c = 0; c < head->size; c++) dq[c] *= head->scale;
    }
}

static void backward_by_keys(const struct head *head, size_t sequence)
{
    for (size_t j = 0; j < sequence; j++) {
        float *dk = head->dk + j * head->qkv_stride, *dv = head->dv + j * head->qkv_stride;
        for (size_t c = 0; c < head->size; c++) dk[c] = dv[c] = 0.0f;
        for (size_t i = j; i < sequence; i++) {
            const float p = probability(head, i, j), ds = score_gradient(head, i, j, p);
            const float *q = head->q + i * head->qkv_stride, *dout = head->dout + i * head->stride;
            for (size_t c = 0; c < head->size; c++) dv[c] = pl_fma(p, dout[c], dv[c]);
            for (size_t c = 0; c < head->size; c++) dk[c] = pl_fma(ds, q[c], dk[c]);
        }
        for (size_t c = 0; c < head->size; c++) dk[c] *= head->scale;
    }
}

void definition_attention_backward(const struct attention *a)
{
    for (size_t batch = 0; batch < a->batch; batch++) {
        for (size_t index = 0; index < a->heads; index++) {
            const struct head head = head_of(a, batch, index);
            backward_by_queries(&head, a->sequence); /* fills row_dot, which the keys read */
            backward_by_keys(&head, a->sequence);
        }
    }
}
