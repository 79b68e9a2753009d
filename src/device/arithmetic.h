/* The arithmetic that C and CUDA share: every operation whose bits matter is written once, here or in
   definition.c. fp32 with IEEE-754 rounding to nearest and denormals, fused multiply-add only where pl_fma
   says so, no branches, so that compilers vectorise the loops around these functions; and vectorised or not,
   the bits are the same. */
#pragma once
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__FAST_MATH__)
#error "Pipeleaf's bits are part of its design: build it without -ffast-math and -Ofast"
#endif
#if !defined(__CUDA_ARCH__) && FLT_EVAL_METHOD != 0
#error "float must be computed as float: on 32-bit x86 use -msse2 -mfpmath=sse"
#endif

#if defined(__CUDACC__)
#define PL_DEVICE __host__ __device__ static inline
#else
#define PL_DEVICE static inline
#endif

enum { PL_LANES = 32 }; /* partial sums of a row sum: the threads of a warp, or two AVX-512 registers */

#define PL_NORM_EPSILON 1e-5f

PL_DEVICE float pl_fma(float a, float b, float c)
{
#if defined(__CUDA_ARCH__)
    return __fmaf_rn(a, b, c);
#else
    return __builtin_fmaf(a, b, c);
#endif
}

PL_DEVICE float pl_sqrt(float x)
{
#if defined(__CUDA_ARCH__)
    return __fsqrt_rn(x);
#else
    return __builtin_sqrtf(x);
#endif
}

PL_DEVICE float pl_max(float a, float b)
{
    return a > b ? a : b;
}

PL_DEVICE uint32_t pl_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

PL_DEVICE float pl_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The nearest bf16 value, its upper 16 bits, ties to even; past the largest, infinity. Any NaN becomes
 * 0x7fc0. */
PL_DEVICE uint16_t pl_to_bf16(float x)
{
    const uint32_t bits = pl_bits(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : (uint16_t)(rounded >> 16);
}

PL_DEVICE float pl_from_bf16(uint16_t upper)
{
    return pl_float((uint32_t)upper << 16);
}

/* `x`, or the limit where x is beyond it. A NaN stays one. */
PL_DEVICE float pl_at_least(float x, float limit)
{
    return x < limit ? limit : x;
}

PL_DEVICE float pl_at_most(float x, float limit)
{
    return x > limit ? limit : x;
}

/* exp, within 1 ulp of the correctly rounded value: x = n ln 2 + r with |r| <= ln 2 / 2, then
   p = 1 + r + r^2 q(r), q fitted to minimise the largest relative error (0.05 ulp), times 2^n. No exponent is
   wide enough for every n, so the result is (p * 2^(n + bias - 127)) * 2^(127 - bias), of which the first is
   exact for n + bias of 1 .. 254 and the second rounds once: to denormals, to infinity. NaN gives NaN. In
   stages, for the host takes many numbers through each (host/exponentials.h). */

enum {
    PL_EXP_BIAS_DOWN = 192, /* for x of -104 .. 42; exp(-104) is rounded to 0 */
    PL_EXP_BIAS_UP = 64     /* for x of -40 .. 89; exp(89) is infinity */
};

/* Adding 1.5 * 2^23 leaves the nearest integer in the low bits: no conversion, so none is ever out of range.
   An even number more changes no rounding. */
#define PL_EXP_MAGIC 12582912.0f

/* n + bias + PL_EXP_MAGIC. */
PL_DEVICE float pl_exp_shifted(float x, int bias)
{
    return pl_fma(x, 0x1.715476p+0f, PL_EXP_MAGIC + (float)bias); /* 1 / ln 2 */
}

/* r. ln 2 in two parts: n times the first is subtracted without error. */
PL_DEVICE float pl_exp_rest(float x, float shifted, int bias)
{
    const float n = shifted - (PL_EXP_MAGIC + (float)bias), r = pl_fma(n, -0x1.62e430p-1f, x);
    return pl_fma(n, 0x1.05c610p-29f, r);
}

/* p = exp(r). */
PL_DEVICE float pl_exp_of_rest(float r)
{
    float q = 0x1.6a2316p-10f;
    q = pl_fma(q, r, 0x1.123a8ep-7f);
    q = pl_fma(q, r, 0x1.5558f6p-5f);
    q = pl_fma(q, r, 0x1.555490p-3f);
    q = pl_fma(q, r, 0x1.fffffcp-2f);
    return pl_fma(r * r, q, r) + 1.0f;
}

/* The low bits of `shifted` as an exponent, and what corrects its bias. */
PL_DEVICE float pl_exp_scaled(float p, float shifted, int bias)
{
    return p * pl_float(pl_bits(shifted) << 23) * pl_float((uint32_t)(254 - bias) << 23);
}

/* exp(x), of x within what the bias is for. */
PL_DEVICE float pl_exp(float x, int bias)
{
    const float shifted = pl_exp_shifted(x, bias);
    return pl_exp_scaled(pl_exp_of_rest(pl_exp_rest(x, shifted, bias)), shifted, bias);
}

/* exp(x) of a score less its row's maximum, so x <= 0. (Kernels that compute scores which the mask hides may
   come with any x: beyond 42 the result means nothing, and is dropped.) */
#define PL_SOFTMAX_LEAST (-104.0f)
PL_DEVICE float pl_softmax_exponential(float x)
{
    return pl_exp(pl_at_least(x, PL_SOFTMAX_LEAST), PL_EXP_BIAS_DOWN);
}

/* -2z, z = sqrt(2/pi) (u + 0.044715 u^3). */
PL_DEVICE float pl_gelu_exponent(float u)
{
    const float cubic = pl_fma(0.044715f * (u * u), u, u);
    return -1.5957691216057308f * cubic; /* 2 sqrt(2/pi) */
}

/* exp(-2z): what gelu and its derivative share. Where it is less than exp(-40) it is that, which changes
   neither: what they add it to is not less than 1. */
#define PL_GELU_LEAST (-40.0f)
#define PL_GELU_MOST 89.0f
PL_DEVICE float pl_gelu_exponential(float u)
{
    return pl_exp(pl_at_most(pl_at_least(pl_gelu_exponent(u), PL_GELU_LEAST), PL_GELU_MOST), PL_EXP_BIAS_UP);
}

/* The tanh form of GELU, u / (1 + exp(-2z)), from e = pl_gelu_exponential(u). (Infinite e: u / inf is the
 * right zero.) */
PL_DEVICE float pl_gelu(float u, float e)
{
    return u / (1.0f + e);
}

/* Its derivative s + u * 2z' * e s^2, with s = 1 / (1 + e) and z' = sqrt(2/pi) (1 + 3 * 0.044715 u^2). Where
   |u| > 12 the second term is exactly 0 or adds nothing to s, so u is limited to keep 2z' finite; and e is,
   to keep e s finite where s is 0: `within` and `finite` are they so limited. */
#define PL_GELU_WITHIN 12.0f
PL_DEVICE float pl_gelu_derivative_within(float within, float e, float finite)
{
    const float s = 1.0f / (1.0f + e);
    const float slope =
        pl_fma(0.21406445f * within, within, 1.5957691216057308f); /* 2z'; 6 sqrt(2/pi) 0.044715 */
    return pl_fma(within * slope, finite * s * s, s);
}

PL_DEVICE float pl_gelu_derivative(float u, float e)
{
    return pl_gelu_derivative_within(
        pl_at_most(pl_at_least(u, -PL_GELU_WITHIN), PL_GELU_WITHIN), e, pl_at_most(e, FLT_MAX));
}

/* The end of a row sum: the tree over 32 partial sums, of which lane t summed elements t, t + 32, ... from
 * +0. */
PL_DEVICE float pl_lane_sum(float lane[PL_LANES])
{
    for (int width = PL_LANES / 2; width > 0; width /= 2)
        for (int t = 0; t < width; t++) lane[t] += lane[t + width];
    return lane[0];
}

/* The factor on attention's scores. */
PL_DEVICE float attention_scale(size_t head_size)
{
    return 1.0f / pl_sqrt((float)head_size);
}

/* One element of a norm, its mean and rstd known. */
PL_DEVICE float pl_normalised(float x, float mean, float rstd)
{
    return (x - mean) * rstd;
}

/* One element of the gradient of a norm's input, added to the residual's: c1 is the row's mean of dy * gain,
   c2 that of (dy * gain) * normalised. */
PL_DEVICE float pl_norm_gradient(
    float scaled_dy, float normalised, float c1, float c2, float rstd, float residual)
{
    return pl_fma(rstd, pl_fma(-normalised, c2, scaled_dy - c1), residual);
}

/* Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers, as easy as 1, 2, 3; SC11): ten rounds
   turn the counter a, b, c, d into four random words. The key, the seed's two halves, moves on with each
   round. */
enum { PL_PHILOX_ROUNDS = 10 };

PL_DEVICE uint32_t pl_philox_key0(uint64_t seed, int round)
{
    return (uint32_t)seed + (uint32_t)round * 0x9E3779B9u;
}

PL_DEVICE uint32_t pl_philox_key1(uint64_t seed, int round)
{
    return (uint32_t)(seed >> 32) + (uint32_t)round * 0xBB67AE85u;
}

PL_DEVICE void pl_philox_round(
    uint32_t *a, uint32_t *b, uint32_t *c, uint32_t *d, uint32_t key0, uint32_t key1)
{
    const uint64_t product0 = (uint64_t)0xD2511F53u * *a;
    const uint64_t product1 = (uint64_t)0xCD9E8D57u * *c;
    *a = (uint32_t)(product1 >> 32) ^ *b ^ key0;
    *b = (uint32_t)product1;
    *c = (uint32_t)(product0 >> 32) ^ *d ^ key1;
    *d = (uint32_t)product0;
}

/* A random word as a number of [-1, 1), exactly: its upper 24 bits, centred, times 2^-23. */
PL_DEVICE float pl_uniform(uint32_t word)
{
    return (float)((int32_t)(word >> 8) - (1 << 23)) * 0x1p-23f;
}

/* Half the width of the uniform distribution that has this standard deviation: sqrt(3) times it. */
PL_DEVICE float pl_uniform_width(float deviation)
{
    return 1.7320508075688772f * deviation;
}

/* The bits that are hashed: all NaNs are one. */
PL_DEVICE uint32_t pl_canonical_bits(float x)
{
    const uint32_t bits = pl_bits(x);
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
}

/* The function of pl_mix_word, of a word or of a vector of words. */
#define PL_MIX_FOLDED(x, shift) ((x) ^ ((x) >> (shift)))
#define PL_MIX_ROUND(x, shift, factor) (PL_MIX_FOLDED(x, shift) * (factor))
#define PL_MIXED(x) PL_MIX_FOLDED(PL_MIX_ROUND(PL_MIX_ROUND(x, 16, 0x7FEB352Du), 15, 0x846CA68Bu), 16)

/* A bijection of 32-bit words: two xorshift-multiply rounds (the constants are those of C. Wellons'
 * lowbias32). */
PL_DEVICE uint32_t pl_mix_word(uint32_t x)
{
    return PL_MIXED(x);
}

/* What is mixed for an index: its lower half, moved on by a distance that its upper half gives. So within
   each 2^32 indices no two weights are the same. */
PL_DEVICE uint32_t pl_index_word(uint64_t index)
{
    return (uint32_t)index + (uint32_t)(index >> 32) * 0x9E3779B9u;
}

/* What an element with these bits adds to the digest's second sum: bits * (2 mix(index) + 1), modulo 2^64. */
PL_DEVICE uint64_t pl_digest_term(uint32_t bits, uint32_t index_word)
{
    return 2 * ((uint64_t)bits * pl_mix_word(index_word)) + bits;
}
