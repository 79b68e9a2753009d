/* exp for all 2^32 inputs: at most 1 ulp from the correctly rounded value, which is the double result of the
   C library (good to far below half a float's ulp) rounded to float. This file is built for a CPU with FMA
   where there is a choice; that the other variants have the same bits is what test_rows shows. */
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

/* The inputs with bits first .. end-1, in which exp must be `expected` exactly. */
static uint64_t not_exactly(float expected, uint64_t first, uint64_t end)
{
    const uint32_t bits = pl_bits(expected);
    uint64_t wrong = 0;
#pragma omp parallel for schedule(static) reduction(+ : wrong)
    for (uint64_t block = first >> 16; block < (end + 65535) >> 16; block++) {
        uint32_t here = 0;
        for (uint32_t i = 0; i < 65536; i++) {
            const uint32_t input = (uint32_t)(block << 16) + i;
            const bool asked = input >= first && input < end;
            here += asked & (pl_canonical_bits(pl_exp(pl_float(input))) != bits);
        }
        wrong += here;
    }
    return wrong;
}

/* The largest distance in ulp from the correctly rounded exp over the inputs with bits first .. end-1. */
static int64_t largest_distance(uint32_t first, uint32_t end)
{
    int64_t largest = 0;
#pragma omp parallel for schedule(static) reduction(max : largest)
    for (uint32_t input = first; input < end; input++) {
        const float x = pl_float(input);
        const int64_t distance = order(pl_exp(x)) - order((float)exp((double)x));
        const int64_t size = distance < 0 ? -distance : distance;
        largest = size > largest ? size : largest;
    }
    return largest;
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
    CHECK(not_exactly(1.0f, 0, tiny) == 0, "tiny positive numbers");
    CHECK(not_exactly(INFINITY, large, infinity + 1ull) == 0, "large positive numbers");
    CHECK(not_exactly(NAN, infinity + 1ull, sign) == 0, "positive NaN");
    CHECK(not_exactly(1.0f, sign, sign + (uint64_t)tiny) == 0, "tiny negative numbers");
    CHECK(not_exactly(0.0f, sign + (uint64_t)large, sign + (uint64_t)infinity + 1) == 0,
        "large negative numbers");
    CHECK(not_exactly(NAN, sign + (uint64_t)infinity + 1, 1ull << 32) == 0, "negative NaN");
    const int64_t up = largest_distance(tiny, large), down = largest_distance(sign + tiny, sign + large);
    CHECK(up <= 1, "%lld ulp for a positive number", (long long)up);
    CHECK(down <= 1, "%lld ulp for a negative number", (long long)down);
    printf("exp: at most %lld ulp from correctly rounded, over all 2^32 inputs\n",
        (long long)(up > down ? up : down));
    return check_result();
}
