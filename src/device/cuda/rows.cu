/* Kernels that sum along rows: the norms and the loss. */
#include "device/cuda/kernels.h"
#include "device/cuda/rows.h"

/* Shared memory: the row of x. */
template <int WARPS, bool HELD>
static __global__ void __launch_bounds__(ROW_THREADS) norm_forward(size_t n, size_t h,
    const float *__restrict__ x, const float *__restrict__ gain, const float *__restrict__ bias,
    float *__restrict__ y, float *__restrict__ mean, float *__restrict__ rstd)
{
    DYNAMIC_SHARED(float, shared);
    typedef row_place<WARPS> place;
    const size_t i = place::row();
    if (i >= n) return; /* a whole warp */
    const unsigned t = place::thread();
    float *facts = place::facts(shared);
    const float *row = x + i * h;
    if (HELD) {
        float *held = place::held(shared, h);
        each_element<place::STEP>(
            t, h, [=](size_t j) { return row[j]; }, [=](size_t j, float v) { held[j] = v; });
        place::join();
        row = held;
    }
    if (t < 32) {
        float sum = 0.0f, square = 0.0f;
        const auto element = [=](size_t j) { return row[j]; };
        each_element<32>(t, h, element, [&](size_t, float v) { sum += v; });
        const float m = lane_sum(sum) / (float)h;
        each_element<32>(t, h, element, [&](size_t, float v) {
            const float d = v - m;
            square += d * d;
        });
        const float r = 1.0f / pl_sqrt(lane_sum(square) / (float)h + PL_NORM_EPSILON);
        if (t == 0) {
            facts[0] = mean[i] = m;
            facts[1] = rstd[i] = r;
        }
    }
    place::join();
    const float m = facts[0], r = facts[1];
    struct element {
        float x, gain, bias;
    };
    y += i * h;
    each_element<place::STEP>(
        t, h,
        [=](size_t j) {
            return element{ row[j], gain[j], bias[j] };
        },
        [=](size_t j, element e) { y[j] = pl_fma(pl_normalised(e.x, m, r), e.gain, e.bias); });
}

/* Nothing is summed, so nothing need be held. */
template <int WARPS>
static __global__ void __launch_bounds__(ROW_THREADS) norm_again(size_t n, size_t h,
    const float *__restrict__ x, const float *__restrict__ gain, const float *__restrict__ bias,
    const float *__restrict__ mean, const float *__restrict__ rstd, float *__restrict__ y)
{
    typedef row_place<WARPS> place;
    const size_t i = place::row();
    if (i >= n) return;
    const float m = mean[i], r = rstd[i];
    struct element {
        float x, gain, bias;
    };
    x += i * h, y += i * h;
    each_element<place::STEP>(
        place::thread(), h,
        [=](size_t j) {
            return element{ x[j], gain[j], bias[j] };
        },
        [=](size_t j, element e) { y[j] = pl_fma(pl_normalised(e.x, m, r), e.gain, e.bias); });
}

/* Shared memory: the row's dy * gain and its normalised x. dx may be dy or residual: a thread reads an
   element of them for the last time before it writes it, and no other thread reads it after the row is held
   or summed. */
template <int WARPS, bool HELD>
static __global__ void __launch_bounds__(ROW_THREADS) norm_backward(size_t n, size_t h, const float *dy,
    const float *__restrict__ x, const float *__restrict__ gain, const float *__restrict__ mean,
    const float *__restrict__ rstd, const float *residual, float *dx)
{
    DYNAMIC_SHARED(float, shared);
    typedef row_place<WARPS> place;
    const size_t i = place::row();
    if (i >= n) return;
    const unsigned t = place::thread();
    float *facts = place::facts(shared), *scaled = place::held(shared, 2 * h), *normalised = scaled + h;
    dy += i * h, x += i * h, residual += i * h, dx += i * h;
    const float m = mean[i], r = rstd[i];
    struct element {
        float scaled, normalised;
    };
    const auto made = [=](size_t j) { return element{ dy[j] * gain[j], pl_normalised(x[j], m, r) }; };
    if (HELD) {
        each_element<place::STEP>(t, h, made, [=](size_t j, element e) {
            scaled[j] = e.scaled;
            normalised[j] = e.normalised;
        });
        place::join();
    }
    const auto element_of = [=](size_t j) { return HELD ? element{ scaled[j], normalised[j] } : made(j); };
    if (t < 32) {
        float plain = 0.0f, weighted = 0.0f;
        each_element<32>(t, h, element_of, [&](size_t, element e) {
            plain += e.scaled;
            weighted += e.scaled * e.normalised;
        });
        plain = lane_sum(plain) / (float)h;
        weighted = lane_sum(weighted) / (float)h;
        if (t == 0) {
            facts[0] = plain;
            facts[1] = weighted;
        }
    }
    place::join();
    const float c1 = facts[0], c2 = facts[1];
    struct last {
        element e;
        float residual;
    };
    each_element<place::STEP>(
        t, h,
        [=](size_t j) {
            return last{ element_of(j), residual[j] };
        },
        [=](size_t j, last l) {
            dx[j] = pl_norm_gradient(l.e.scaled, l.e.normalised, c1, c2, r, l.residual);
        });
}

/* dout, and the row's sum of (out - target)^2 / 2. Each element is read once, by its lane. */
static __global__ void __launch_bounds__(ROW_THREADS)
    loss_rows(size_t n, size_t h, const float *__restrict__ out, const float *__restrict__ target,
        float inverse_count, float *__restrict__ dout, float *__restrict__ row_loss)
{
    typedef row_place<1> place;
    const size_t i = place::row();
    if (i >= n) return;
    struct element {
        float out, target;
    };
    out += i * h, target += i * h, dout += i * h;
    float sum = 0.0f;
    each_element<32>(
        place::thread(), h,
        [=](size_t j) {
            return element{ out[j], target[j] };
        },
        [&](size_t j, element e) {
            const float d = e.out - e.target;
            sum += d * d * 0.5f;
            dout[j] = d * inverse_count;
        });
    sum = lane_sum(sum);
    if (place::thread() == 0) row_loss[i] = sum;
}

/* The chain over tokens: one thread adds them up from shared memory, while all of the block fetch the next
 * ones. */
static __global__ void __launch_bounds__(ROW_THREADS)
    loss_chain(size_t n, const float *__restrict__ row_loss, float *loss, bool accumulate)
{
    __shared__ float tile[ROW_THREADS];
    const unsigned t = threadIdx.x;
    float next = t < n ? row_loss[t] : 0.0f, chain = 0.0f;
    if (t == 0 && accumulate) chain = *loss;
    for (size_t first = 0; first < n; first += ROW_THREADS) {
        const size_t after = first + ROW_THREADS;
        tile[t] = next;
        __syncthreads();
        if (after + t < n) next = row_loss[after + t];
        if (t == 0) {
            const unsigned count = n < after ? (unsigned)(n - first) : (unsigned)ROW_THREADS;
#pragma unroll 16
            for (unsigned i = 0; i < count; i++) chain = chain + tile[i];
        }
        __syncthreads();
    }
    if (t == 0) *loss = chain;
}

void cuda_norm_forward(cudaStream_t stream, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, float *y, float *mean, float *rstd)
{
    LAUNCH_ROWS(norm_forward, stream, n, h, h, n, h, x, gain, bias, y, mean, rstd);
}

void cuda_norm_again(cudaStream_t stream, size_t n, size_t h, const float *x, const float *gain,
    const float *bias, const float *mean, const float *rstd, float *y)
{
    if (n == 0) return;
    if (h <= SHORT_ROW)
        LAUNCH(norm_again<1>, row_blocks(n, ROW_WARPS), ROW_THREADS, 0, stream, n, h, x, gain, bias, mean,
            rstd, y);
    else
        LAUNCH(norm_again<ROW_WARPS>, row_blocks(n, 1), ROW_THREADS, 0, stream, n, h, x, gain, bias, mean,
            rstd, y);
    cuda_launched("norm_again");
}

void cuda_norm_backward(cudaStream_t stream, size_t n, size_t h, const float *dy, const float *x,
    const float *gain, const float *mean, const float *rstd, const float *residual, float *dx)
{
    LAUNCH_ROWS(norm_backward, stream, n, h, 2 * h, n, h, dy, x, gain, mean, rstd, residual, dx);
}

void cuda_loss(cudaStream_t stream, size_t n, size_t h, const float *out, const float *target,
    float inverse_count, float *dout, float *row_loss, float *loss, bool accumulate)
{
    if (n > 0) {
        LAUNCH(loss_rows, row_blocks(n, ROW_WARPS), ROW_THREADS, 0, stream, n, h, out, target, inverse_count,
            dout, row_loss);
        cuda_launched("loss_rows");
    }
    LAUNCH(loss_chain, 1, ROW_THREADS, 0, stream, n, row_loss, loss, accumulate);
    cuda_launched("loss_chain");
}
