#include "device/definition.h"
#include "device/arithmetic.h"
#include <Random123/philox.h>

/* Each form differs in where a(i, p) and b(p, j) lie; p runs over k in ascending order. */
void definition_gemm(const struct gemm *g)
{
    for (size_t i = 0; i < g->m; i++) {
        for (size_t j = 0; j < g->n; j++) {
            float sum = g->accumulate ? g->c[i * g->n + j] : 0.0f;
            for (size_t p = 0; p < g->k; p++) {
                const float a = g->form == GEMM_TN ? g->a[p * g->m + i] : g->a[i * g->k + p];
                const float b = g->form == GEMM_NT ? g->b[j * g->k + p] : g->b[p * g->n + j];
                sum = pl_fma(a, b, sum);
            }
            if (g->bias) sum = sum + g->bias[j];
            if (g->residual) sum = g->residual[i * g->n + j] + sum;
            g->c[i * g->n + j] = sum;
        }
    }
}

/* A term is added to lane (its column mod 32); pl_lane_sum ends the sum. */
void definition_norm_forward(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    float *y, float *mean, float *rstd)
{
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * h;
        float lane[PL_LANES] = { 0 };
        for (size_t j = 0; j < h; j++) lane[j % PL_LANES] += row[j];
        mean[i] = pl_lane_sum(lane) / (float)h;

        float square[PL_LANES] = { 0 };
        for (size_t j = 0; j < h; j++) {
            const float d = row[j] - mean[i];
            square[j % PL_LANES] += d * d;
        }
        const float variance = pl_lane_sum(square) / (float)h; /* biased */
        rstd[i] = 1.0f / pl_sqrt(variance + PL_NORM_EPSILON);
    }
    definition_norm_again(n, h, x, gain, bias, mean, rstd, y);
}

void definition_norm_again(size_t n, size_t h, const float *x, const float *gain, const float *bias,
    const float *mean, const float *rstd, float *y)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < h; j++)
            y[i * h + j] = pl_fma(pl_normalised(x[i * h + j], mean[i], rstd[i]), gain[j], bias[j]);
}

void definition_norm_backward(size_t n, size_t h, const float *dy, const float *x, const float *gain,
    const float *mean, const float *rstd, const float *residual, float *dx)
{
    for (size_t i = 0; i < n; i++) {
        float plain[PL_LANES] = { 0 }, weighted[PL_LANES] = { 0 };
        for (size_t j = 0; j < h; j++) {
            const float scaled = dy[i * h + j] * gain[j];
            plain[j % PL_LANES] += scaled;
            weighted[j % PL_LANES] += scaled * pl_normalised(x[i * h + j], mean[i], rstd[i]);
        }
        const float c1 = pl_lane_sum(plain) / (float)h, c2 = pl_lane_sum(weighted) / (float)h;
        for (size_t j = 0; j < h; j++) {
            const size_t at = i * h + j;
            dx[at] = pl_norm_gradient(
                dy[at] * gain[j], pl_normalised(x[at], mean[i], rstd[i]), c1, c2, rstd[i], residual[at]);
        }
    }
}

void definition_norm_columns(size_t n, size_t h, const float *dy, const float *x, const float *mean,
    const float *rstd, float *dgain, float *dbias, bool accumulate)
{
    for (size_t j = 0; j < h; j++) {
        float gain = accumulate ? dgain[j] : 0.0f, bias = accumulate ? dbias[j] : 0.0f;
        for (size_t i = 0; i < n; i++) {
            const size_t at = i * h + j;
            gain = pl_fma(dy[at], pl_normalised(x[at], mean[i], rstd[i]), gain);
            bias = bias + dy[at];
        }
        dgain[j] = gain;
        dbias[j] = bias;
    }
}

void definition_column_sum(size_t n, size_t columns, const float *x, float *sum, bool accumulate)
{
    for (size_t j = 0; j < columns; j++) {
        float chain = accumulate ? sum[j] : 0.0f;
        for (size_t i = 0; i < n; i++) chain = chain + x[i * columns + j];
        sum[j] = chain;
    }
}

void definition_gelu_forward(size_t count, const float *u, float *g)
{
    for (size_t i = 0; i < count; i++) g[i] = pl_gelu(u[i], pl_gelu_exponential(u[i]));
}

void definition_gelu_backward(size_t count, const float *u, const float *dg, float *g, float *du)
{
    for (size_t i = 0; i < count; i++) {
        const float e = pl_gelu_exponential(u[i]);
        g[i] = pl_gelu(u[i], e);
        du[i] = dg[i] * pl_gelu_derivative(u[i], e);
    }
}

void definition_loss(size_t n, size_t h, const float *out, const float *target, float inverse_count,
    float *dout, float *loss, bool accumulate)
{
    float chain = accumulate ? *loss : 0.0f;
    for (size_t i = 0; i < n; i++) {
        float lane[PL_LANES] = { 0 };
        for (size_t j = 0; j < h; j++) {
            const float d = out[i * h + j] - target[i * h + j];
            lane[j % PL_LANES] += d * d * 0.5f;
            dout[i * h + j] = d * inverse_count;
        }
        chain = chain + pl_lane_sum(lane);
    }
    *loss = chain;
}

/* Four elements to a block. The key is the seed; the counter holds the block's index (48 bits of it), the
   purpose, the layer and the step: no two elements of a run share a counter, and none knows of ranks or
   chunks. */
void definition_random(const struct random *key, size_t count, float *x)
{
    const float width = pl_uniform_width(key->deviation);
    const philox4x32_key_t seed = { { (uint32_t)key->seed, (uint32_t)(key->seed >> 32) } };
    for (size_t i = 0; i < count; i++) {
        const uint64_t index = key->first_index + i, block = index / 4;
        const philox4x32_ctr_t counter = { { (uint32_t)block, (uint32_t)(block >> 32) | key->purpose << 16,
            key->layer, key->step } };
        const philox4x32_ctr_t words = philox4x32_R(10, counter, seed);
        x[i] = pl_fma(width, pl_uniform(words.v[index % 4]), key->centre);
    }
}

void definition_digest(size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    struct digest digest = { 0 };
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = pl_canonical_bits(x[i]);
        const float magnitude = pl_float(bits & 0x7fffffffu);
        digest.sum += bits;
        digest.weighted += pl_digest_term(bits, pl_index_word(first_index + i));
        digest.nan += x[i] != x[i];
        digest.absmax = magnitude > digest.absmax ? magnitude : digest.absmax; /* false for a NaN */
    }
    *result = digest;
}
