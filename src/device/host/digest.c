/* The fingerprint of a tensor. Integer sums and a maximum: the order does not matter, so compilers may
   vectorise them and threads share out blocks. */
#include "device/host/kernels.h"
#include "device/arithmetic.h"

enum { BLOCK = 1024 };

struct part {
    uint64_t sum, weighted;
    uint32_t nan,
        largest; /* bits of the largest magnitude: for numbers >= 0 they are ordered as the numbers are */
};

/* The largest magnitude among the numbers, by its bits. */
static uint32_t largest_number(uint32_t count, const float *x)
{
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = pl_bits(x[i]) & 0x7fffffffu;
        if (x[i] == x[i] && magnitude > largest) largest = magnitude;
    }
    return largest;
}

/* A block whose indices have one upper half: its index words follow one another. The loop is such that gcc
   and clang vectorise it; hence the largest of all magnitudes, found again without the NaNs in the rare block
   that has any. */
static struct part block_digest(uint32_t count, const float *x, uint32_t index_word)
{
    uint64_t sum = 0, weighted = 0;
    uint32_t nan = 0, largest = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = pl_bits(x[i]) & 0x7fffffffu, bits = pl_canonical_bits(x[i]);
        sum += bits;
        weighted += pl_digest_term(bits, index_word + i);
        nan += magnitude > 0x7f800000u;
        largest = largest > magnitude ? largest : magnitude;
    }
    return (struct part){ sum, weighted, nan, nan ? largest_number(count, x) : largest };
}

void KERNEL(digest)(size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    uint64_t sum = 0, weighted = 0, nan = 0; /* of this thread's blocks */
    uint32_t largest = 0;
#pragma omp single
    *result = (struct digest){ 0 };
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t end = count - first < BLOCK ? count : first + BLOCK;
        for (size_t begin = first, next; begin < end; begin = next) {
            const uint64_t index = first_index + begin, to_boundary = (1ull << 32) - (uint32_t)index;
            next = end - begin < to_boundary ? end : begin + (size_t)to_boundary;
            const struct part part = block_digest((uint32_t)(next - begin), x + begin, pl_index_word(index));
            sum += part.sum;
            weighted += part.weighted;
            nan += part.nan;
            largest = part.largest > largest ? part.largest : largest;
        }
    }
#pragma omp critical(pipeleaf_digest)
    {
        result->sum += sum;
        result->weighted += weighted;
        result->nan += nan;
        if (largest > pl_bits(result->absmax)) result->absmax = pl_float(largest);
    }
}
