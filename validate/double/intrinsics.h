/* Part of double.h: CUDA's intrinsics for one thread. Rounding is to nearest even, as the suffix _rn says. */
#pragma once

static inline float __fmaf_rn(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
static inline float __fadd_rn(float a, float b)
{
    return a + b;
}
static inline float __fsub_rn(float a, float b)
{
    return a - b;
}
static inline float __fmul_rn(float a, float b)
{
    return a * b;
}
static inline float __fdiv_rn(float a, float b)
{
    return a / b;
}
static inline float __fsqrt_rn(float a)
{
    return __builtin_sqrtf(a);
}
static inline float __frcp_rn(float a)
{
    return 1.0f / a;
}

template <class To, class From> static inline To double_same_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "a change of type alone");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline int __float_as_int(float x)
{
    return double_same_bits<int>(x);
}
static inline unsigned __float_as_uint(float x)
{
    return double_same_bits<unsigned>(x);
}
static inline float __int_as_float(int x)
{
    return double_same_bits<float>(x);
}
static inline float __uint_as_float(unsigned x)
{
    return double_same_bits<float>(x);
}

static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline int __popcll(unsigned long long x)
{
    return __builtin_popcountll(x);
}
static inline int __clz(int x)
{
    return x ? __builtin_clz((unsigned)x) : 32;
}
static inline int __ffs(int x)
{
    return __builtin_ffs(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline int min(int a, int b)
{
    return a < b ? a : b;
}
static inline int max(int a, int b)
{
    return a > b ? a : b;
}
static inline unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}
static inline unsigned max(unsigned a, unsigned b)
{
    return a > b ? a : b;
}
static inline unsigned long min(unsigned long a, unsigned long b)
{
    return a < b ? a : b;
}
static inline unsigned long max(unsigned long a, unsigned long b)
{
    return a > b ? a : b;
}
static inline unsigned long long min(unsigned long long a, unsigned long long b)
{
    return a < b ? a : b;
}
static inline unsigned long long max(unsigned long long a, unsigned long long b)
{
    return a > b ? a : b;
}

/* Loads and stores with a hint for the caches: plain ones. */
template <class T> static inline T __ldg(const T *from)
{
    return *from;
}
template <class T> static inline T __ldcs(const T *from)
{
    return *from;
}
template <class T> static inline T __ldcg(const T *from)
{
    return *from;
}
template <class T> static inline void __stcs(T *to, T value)
{
    *to = value;
}
template <class T> static inline void __stcg(T *to, T value)
{
    *to = value;
}

/* Atomic operations on integers only, relaxed as CUDA's are; each returns the value before. Those on floats
   are left out on purpose: their order would be the scheduler's. */
#define DOUBLE_ATOMICS(type)                                                                                 \
    static inline type atomicAdd(type *at, type value)                                                       \
    {                                                                                                        \
        return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);                                              \
    }                                                                                                        \
    static inline type atomicExch(type *at, type value)                                                      \
    {                                                                                                        \
        return __atomic_exchange_n(at, value, __ATOMIC_RELAXED);                                             \
    }                                                                                                        \
    static inline type atomicCAS(type *at, type compare, type value)                                         \
    {                                                                                                        \
        __atomic_compare_exchange_n(at, &compare, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);         \
        return compare;                                                                                      \
    }                                                                                                        \
    static inline type atomicMax(type *at, type value)                                                       \
    {                                                                                                        \
        type old = __atomic_load_n(at, __ATOMIC_RELAXED);                                                    \
        while (old < value &&                                                                                \
               !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {    \
        }                                                                                                    \
        return old;                                                                                          \
    }                                                                                                        \
    static inline type atomicMin(type *at, type value)                                                       \
    {                                                                                                        \
        type old = __atomic_load_n(at, __ATOMIC_RELAXED);                                                    \
        while (value < old &&                                                                                \
               !__atomic_compare_exchange_n(at, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {    \
        }                                                                                                    \
        return old;                                                                                          \
    }                                                                                                        \
    static inline type atomicOr(type *at, type value)                                                        \
    {                                                                                                        \
        return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);                                               \
    }                                                                                                        \
    static inline type atomicAnd(type *at, type value)                                                       \
    {                                                                                                        \
        return __atomic_fetch_and(at, value, __ATOMIC_RELAXED);                                              \
    }                                                                                                        \
    static inline type atomicXor(type *at, type value)                                                       \
    {                                                                                                        \
        return __atomic_fetch_xor(at, value, __ATOMIC_RELAXED);                                              \
    }
DOUBLE_ATOMICS(int)
DOUBLE_ATOMICS(unsigned)
DOUBLE_ATOMICS(unsigned long long)
#undef DOUBLE_ATOMICS
