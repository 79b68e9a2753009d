/* What the matrix kernels are made of: a register of floats on each instruction set, a tile of TILE_ROWS by
   TILE_COLUMNS accumulators kept in registers, and the packing of operands so that a tile reads them in
   order. Every lane is an output of its own, so its chain is the definition's; lanes that stand for no
   element are computed and dropped. */
#pragma once
#include "device/arithmetic.h"
#include <assert.h>
#include <stddef.h>

/* Asks for a cache line; any address may be asked for. */
#define prefetch(address) __builtin_prefetch(address)
#define prefetch_far(address) __builtin_prefetch(address, 0, 2) /* into the second cache, not the first */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* As many accumulators as leave registers for a row of the right operand and one element of the left, in
   panels of which a head or a layer's width is a multiple. */
#if defined(__AVX512F__)
#include <immintrin.h>
#define TILE_ROWS 14
#define TILE_VECTORS 2
enum { LANES = 16 };
typedef __m512 vector;
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define TILE_ROWS 6
#define TILE_VECTORS 2
enum { LANES = 8 };
typedef __m256 vector;
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#define TILE_ROWS 6
#define TILE_VECTORS 4
enum { LANES = 4 };
typedef float32x4_t vector;
#else
#define TILE_ROWS 4
#define TILE_VECTORS 2
enum { LANES = 4 };
typedef struct {
    float lane[4];
} vector;
#endif

enum { TILE_COLUMNS = TILE_VECTORS * LANES };

/* vector_load_first and vector_store_first touch the first `count` floats alone, 0 to LANES; a load gives 0
   beyond. All of them are moved without a mask: some processors take 20 cycles for a masked store. vector_max
   is a > b ? a : b. vector_transpose: lane c of row r becomes lane r of row c. */
#if defined(__AVX512F__)

ALWAYS_INLINE vector vector_all(float x)
{
    return _mm512_set1_ps(x);
}
ALWAYS_INLINE vector vector_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
ALWAYS_INLINE void vector_store(float *p, vector v)
{
    _mm512_storeu_ps(p, v);
}
ALWAYS_INLINE vector vector_load_first(const float *p, size_t count)
{
    return count == LANES ? vector_load(p) : _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
}
ALWAYS_INLINE void vector_store_first(float *p, size_t count, vector v)
{
    if (count == LANES)
        vector_store(p, v);
    else
        _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), v);
}
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector c)
{
    return _mm512_fmadd_ps(a, b, c);
}
ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    return _mm512_add_ps(a, b);
}
ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    return _mm512_sub_ps(a, b);
}
ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    return _mm512_mul_ps(a, b);
}
ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    return _mm512_max_ps(a, b); /* the second where either is NaN or both are zero */
}
ALWAYS_INLINE void vector_transpose(vector v[LANES])
{
    vector t[16], u[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        for (int half = 0; half < 2; half++) {
            const __m512d low = _mm512_castps_pd(t[i + half]), high = _mm512_castps_pd(t[i + 2 + half]);
            u[i + 2 * half] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
            u[i + 2 * half + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
        }
    }
    /* u[4g + c] holds column c + 4q of rows 4g .. 4g+3 in its quarter q. */
    for (int c = 0; c < 4; c++) {
        const vector low02 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
        const vector low13 = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xdd);
        const vector high02 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
        const vector high13 = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xdd);
        v[c] = _mm512_shuffle_f32x4(low02, high02, 0x88);
        v[c + 4] = _mm512_shuffle_f32x4(low13, high13, 0x88);
        v[c + 8] = _mm512_shuffle_f32x4(low02, high02, 0xdd);
        v[c + 12] = _mm512_shuffle_f32x4(low13, high13, 0xdd);
    }
}

#elif defined(__AVX2__) && defined(__FMA__)

ALWAYS_INLINE __m256i vector_first(size_t count)
{
    static const int32_t sliding[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
    return _mm256_loadu_si256((const __m256i *)(sliding + 8 - count));
}
ALWAYS_INLINE vector vector_all(float x)
{
    return _mm256_set1_ps(x);
}
ALWAYS_INLINE vector vector_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
ALWAYS_INLINE void vector_store(float *p, vector v)
{
    _mm256_storeu_ps(p, v);
}
ALWAYS_INLINE vector vector_load_first(const float *p, size_t count)
{
    return count == LANES ? vector_load(p) : _mm256_maskload_ps(p, vector_first(count));
}
ALWAYS_INLINE void vector_store_first(float *p, size_t count, vector v)
{
    if (count == LANES)
        vector_store(p, v);
    else
        _mm256_maskstore_ps(p, vector_first(count), v);
}
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector c)
{
    return _mm256_fmadd_ps(a, b, c);
}
ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    return _mm256_add_ps(a, b);
}
ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    return _mm256_sub_ps(a, b);
}
ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    return _mm256_mul_ps(a, b);
}
ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    return _mm256_max_ps(a, b); /* the second where either is NaN or both are zero */
}
ALWAYS_INLINE void vector_transpose(vector v[LANES])
{
    vector t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        for (int half = 0; half < 2; half++) {
            u[i + 2 * half] = _mm256_shuffle_ps(t[i + half], t[i + 2 + half], 0x44);
            u[i + 2 * half + 1] = _mm256_shuffle_ps(t[i + half], t[i + 2 + half], 0xee);
        }
    }
    for (int c = 0; c < 4; c++) {
        v[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
        v[c + 4] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
}

#else

#if defined(__ARM_NEON) && defined(__aarch64__)
ALWAYS_INLINE vector vector_all(float x)
{
    return vdupq_n_f32(x);
}
ALWAYS_INLINE vector vector_load(const float *p)
{
    return vld1q_f32(p);
}
ALWAYS_INLINE void vector_store(float *p, vector v)
{
    vst1q_f32(p, v);
}
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector c)
{
    return vfmaq_f32(c, a, b);
}
ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    return vaddq_f32(a, b);
}
ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    return vsubq_f32(a, b);
}
ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    return vmulq_f32(a, b);
}
ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
#else
#define EACH_LANE(expression)                                                                                \
    vector r;                                                                                                \
    for (int t = 0; t < LANES; t++) r.lane[t] = (expression);                                                \
    return r
ALWAYS_INLINE vector vector_all(float x)
{
    EACH_LANE(x);
}
ALWAYS_INLINE vector vector_load(const float *p)
{
    EACH_LANE(p[t]);
}
ALWAYS_INLINE void vector_store(float *p, vector v)
{
    for (int t = 0; t < LANES; t++) p[t] = v.lane[t];
}
ALWAYS_INLINE vector vector_fma(vector a, vector b, vector c)
{
    EACH_LANE(pl_fma(a.lane[t], b.lane[t], c.lane[t]));
}
ALWAYS_INLINE vector vector_add(vector a, vector b)
{
    EACH_LANE(a.lane[t] + b.lane[t]);
}
ALWAYS_INLINE vector vector_subtract(vector a, vector b)
{
    EACH_LANE(a.lane[t] - b.lane[t]);
}
ALWAYS_INLINE vector vector_multiply(vector a, vector b)
{
    EACH_LANE(a.lane[t] * b.lane[t]);
}
ALWAYS_INLINE vector vector_max(vector a, vector b)
{
    EACH_LANE(pl_max(a.lane[t], b.lane[t]));
}
#undef EACH_LANE
#endif

ALWAYS_INLINE vector vector_load_first(const float *p, size_t count)
{
    float lane[LANES] = { 0 };
    for (size_t t = 0; t < LANES; t++)
        if (t < count) lane[t] = p[t];
    return vector_load(lane);
}
ALWAYS_INLINE void vector_store_first(float *p, size_t count, vector v)
{
    float lane[LANES];
    vector_store(lane, v);
    for (size_t t = 0; t < LANES; t++)
        if (t < count) p[t] = lane[t];
}
ALWAYS_INLINE void vector_transpose(vector v[LANES])
{
    float from[LANES][LANES], to[LANES][LANES];
    for (int r = 0; r < LANES; r++) vector_store(from[r], v[r]);
    for (int r = 0; r < LANES; r++)
        for (int c = 0; c < LANES; c++) to[c][r] = from[r][c];
    for (int r = 0; r < LANES; r++) v[r] = vector_load(to[r]);
}

#endif
