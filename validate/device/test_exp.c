/* exp for all inputs of softmax and of GELU: at most 1 ulp from the correctly rounded value, which is the
   double result of the C library (good to far below half a float's ulp) rounded to float. This file is built
   for a CPU with FMA where there is a choice; that the other variants have the same bits is what test_rows
   shows. */
#include "../check.h"
#include "device/arithmetic.h"
#include <omp.h>
#include <stdbool.h>

/* Floats in their order, as integers: neighbours differ by 1, and both zeros are 0. */
static int64_t order(float x)
{
    const uint32_t bits = pl_bits(x);
    return bits >> 31 ? -(int64_t)(bits & 0x7fffffffu) : (int64_t)bits;
}

/* Softmax's exp is for x <= 0, and good to 42; GELU's is for all x, and exp(-40) below -40. */
enum use { SOFTMAX, GELU };

static inline float exponential(enum use use, float x)
{
    return use == SOFTMAX ? pl_softmax_exponential(x)
                          : pl_exp(pl_at_most(pl_at_least(x, PL_GELU_LEAST), PL_GELU_MOST), PL_EXP_BIAS_UP);
}

enum { BLOCK = 65536 }; /* inputs that one thread takes at a time */

/* In the block of inputs with bits block * BLOCK ..: those of first .. end-1 in which exp is not `bits`.
 * Inlined, for compilers vectorise it where they know the use. */
__attribute__((always_inline)) static inline uint32_t not_exactly_in(
    enum use use, uint32_t bits, uint64_t block, uint64_t first, uint64_t end)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        const uint32_t input = (uint32_t)(block * BLOCK) + i;
        const bool asked = input >= first && input < end;
        wrong += asked & (pl_canonical_bits(exponential(use, pl_float(input))) != bits);
    }
    return wrong;
}

/* The inputs with bits first .. end-1, in which exp must be `expected` exactly. */
static uint64_t not_exactly(enum use use, float expected, uint64_t first, uint64_t end)
{
    const uint32_t bits = pl_bits(expected);
    uint64_t wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (uint64_t block = first / BLOCK; block < (end + BLOCK - 1) / BLOCK; block++)
        wrong += use == SOFTMAX ? not_exactly_in(SOFTMAX, bits, block, first, end)
                                : not_exactly_in(GELU, bits, block, first, end);
    return wrong;
}

/* The largest distance in ulp from the correctly rounded exp over the inputs with bits first .. end-1. */
static int64_t largest_distance(enum use use, uint32_t first, uint32_t end)
{
    int64_t largest = 0;
#pragma omp parallel for schedule(static) reduction(max : largest)
    for (uint32_t input = first; input < end; input++) {
        const float x = pl_float(input);
        const int64_t distance = order(exponential(use, x)) - order((float)exp((double)x));
        const int64_t size = distance < 0 ? -distance : distance;
        largest = size > largest ? size : largest;
    }
    return largest;
}

static uint32_t changed_in(uint64_t block)
{
    uint32_t changed = 0;
    for (uint32_t i = 0; i < BLOCK; i++) {
        const float u = pl_float((uint32_t)(block * BLOCK) + i), of_gelu = pl_gelu_exponential(u),
                    of_softmax = pl_softmax_exponential(pl_gelu_exponent(u));
        changed += (pl_bits(pl_gelu(u, of_gelu)) != pl_bits(pl_gelu(u, of_softmax))) |
                   (pl_bits(pl_gelu_derivative(u, of_gelu)) != pl_bits(pl_gelu_derivative(u, of_softmax)));
    }
    return changed;
}

/* GELU's exponents below -40 are those of some u above 8: the numbers from there up to 1024 of which
 * softmax's exponential, good to -104, would make another GELU or derivative. Above, limits make all alike.
 */
static uint64_t changed_by_limit(void)
{
    uint64_t changed = 0;
#pragma omp parallel for schedule(static) reduction(+ : changed)
    for (uint32_t block = pl_bits(8.0f) / BLOCK; block < pl_bits(1024.0f) / BLOCK; block++)
        changed += changed_in(block);
    return changed;
}

int main(void)
{
#if defined(__x86_64__) && defined(__FMA__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        printf("skipped: this CPU has no FMA\n");
        return 77;
    }
#endif
    /* In order of their bits: positive numbers up to infinity, NaN; then the same for negative numbers. Below
       2^-25 in size, exp rounds to 1; from 110 on it is infinity or 0. */
    const uint32_t tiny = pl_bits(0x1p-25f), large = pl_bits(110.0f), infinity = 0x7f800000u,
                   sign = 0x80000000u;
    int64_t largest = 0;
    for (enum use use = SOFTMAX; use <= GELU; use++) {
        const char *const name = use == SOFTMAX ? "softmax" : "GELU";
        CHECK(not_exactly(use, 1.0f, 0, tiny) == 0, "%s: tiny positive numbers", name);
        CHECK(not_exactly(use, NAN, infinity + 1ull, sign) == 0, "%s: positive NaN", name);
        CHECK(not_exactly(use, 1.0f, sign, sign + (uint64_t)tiny) == 0, "%s: tiny negative numbers", name);
        CHECK(
            not_exactly(use, NAN, sign + (uint64_t)infinity + 1, 1ull << 32) == 0, "%s: negative NaN", name);
        const int64_t up = largest_distance(use, tiny, use == SOFTMAX ? pl_bits(42.0f) : large),
                      down =
                          largest_distance(use, sign + tiny, use == SOFTMAX ? sign + large : pl_bits(-40.0f));
        CHECK(up <= 1, "%s: %lld ulp for a positive number", name, (long long)up);
        CHECK(down <= 1, "%s: %lld ulp for a negative number", name, (long long)down);
        largest = up > largest ? up : largest;
        largest = down > largest ? down : largest;
    }
    CHECK(not_exactly(SOFTMAX, 0.0f, sign + (uint64_t)large, sign + (uint64_t)infinity + 1) == 0,
        "softmax: large negative numbers");
    CHECK(not_exactly(GELU, INFINITY, large, infinity + 1ull) == 0, "GELU: large positive numbers");
    CHECK(not_exactly(GELU, pl_exp(-40.0f, PL_EXP_BIAS_UP), pl_bits(-40.0f), sign + (uint64_t)infinity + 1) ==
              0,
        "GELU: large negative numbers");
    const uint64_t others = changed_by_limit();
    CHECK(others == 0, "GELU: %llu results that its limit changes", (unsigned long long)others);
    printf("exp: at most %lld ulp from correctly rounded, over all inputs of softmax and of GELU\n",
        (long long)largest);
    return check_result();
}
