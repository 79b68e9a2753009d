/* The fingerprint of a tensor. Integer sums and a maximum: the order does not matter, so lanes sum for
   themselves and threads share out blocks. */
#include "device/host/ahead.h"
#include "device/host/kernels.h"
#include "device/host/lanes.h"
#if defined(__AVX2__)
#include <immintrin.h>
#endif

enum { BLOCK = 1024 };

struct part {
    uint64_t sum, weighted, nan;
    uint32_t
        largest; /* bits of the largest magnitude: for numbers >= 0 they are ordered as the numbers are */
};

/* Words of 32 bits in a register, and the same register as half as many words of 64. */
typedef uint32_t words __attribute__((vector_size(4 * LANES_WIDTH)));
typedef uint32_t words_in_memory __attribute__((vector_size(4 * LANES_WIDTH), aligned(4), may_alias));
typedef int32_t signed_words __attribute__((vector_size(4 * LANES_WIDTH)));
typedef uint64_t long_words __attribute__((vector_size(4 * LANES_WIDTH)));

/* The products of the lower halves of a's and b's long words. */
static inline long_words multiply_lower(long_words a, long_words b)
{
#if defined(__AVX512F__)
    return (long_words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (long_words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (a & 0xffffffffu) * (b & 0xffffffffu);
#endif
}

/* The larger word of each pair, below 2^31. */
static inline words larger(words a, words b)
{
#if defined(__AVX512F__)
    return (words)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (words)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    const words first = (words)((signed_words)a > (signed_words)b);
    return (a & first) | (b & ~first);
#endif
}

/* As part_of, of `count` numbers, a multiple of LANES_WIDTH, that hold no NaN. Where .nan, the number of
   those, is not 0, the rest means nothing. A register of words is one of half as many long words: the lower
   halves are multiplied and added where they are, and the upper ones moved down. */
static struct part part_without_nan(uint32_t count, const float *x, uint32_t index_word)
{
    words index, nan = { 0 }, largest = { 0 };
    long_words sum = { 0 }, product = { 0 };
    for (uint32_t t = 0; t < LANES_WIDTH; t++) index[t] = index_word + t;
    for (uint32_t i = 0; i < count; i += LANES_WIDTH) {
        ask_for(LANES_WIDTH, x + i + AHEAD);
        const words bits = *(const words_in_memory *)(x + i), magnitude = bits & 0x7fffffffu;
        const words weight = PL_MIXED(index);
        index += LANES_WIDTH;
        nan -= (words)((signed_words)magnitude > 0x7f800000);
        largest = larger(largest, magnitude);
        const long_words lower = (long_words)bits, upper = lower >> 32;
        product += multiply_lower(lower, (long_words)weight);
        product += multiply_lower(upper, (long_words)weight >> 32);
        sum += (lower & 0xffffffffu) + upper;
    }
    struct part part = { 0 };
    for (int t = 0; t < LANES_WIDTH; t++) {
        part.nan += nan[t];
        part.largest = part.largest > largest[t] ? part.largest : largest[t];
    }
    for (int t = 0; t < LANES_WIDTH / 2; t++) {
        part.sum += sum[t];
        part.weighted += product[t];
    }
    part.weighted = 2 * part.weighted + part.sum; /* pl_digest_term, of all */
    return part;
}

static void add_part(struct part *sum, const struct part *part)
{
    sum->sum += part->sum;
    sum->weighted += part->weighted;
    sum->nan += part->nan;
    sum->largest = part->largest > sum->largest ? part->largest : sum->largest;
}

/* Any numbers, one by one. */
static struct part part_of(uint32_t count, const float *x, uint32_t index_word)
{
    struct part part = { 0 };
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t magnitude = pl_bits(x[i]) & 0x7fffffffu, bits = pl_canonical_bits(x[i]);
        const bool nan = magnitude > 0x7f800000u;
        add_part(
            &part, &(struct part){ bits, pl_digest_term(bits, index_word + i), nan, nan ? 0 : magnitude });
    }
    return part;
}

/* A block whose indices have one upper half: its index words follow one another. */
static struct part block_digest(uint32_t count, const float *x, uint32_t index_word)
{
    const uint32_t whole = count / LANES_WIDTH * LANES_WIDTH;
    struct part part = part_without_nan(whole, x, index_word);
    if (part.nan > 0) part = part_of(whole, x, index_word);
    const struct part rest = part_of(count - whole, x + whole, index_word + whole);
    add_part(&part, &rest);
    return part;
}

void KERNEL(digest)(size_t count, const float *x, uint64_t first_index, struct digest *result)
{
    struct part all = { 0 }; /* of this thread's blocks */
#pragma omp single
    *result = (struct digest){ 0 };
#pragma omp for schedule(static) nowait
    for (size_t first = 0; first < count; first += BLOCK) {
        const size_t end = count - first < BLOCK ? count : first + BLOCK;
        for (size_t begin = first, next; begin < end; begin = next) {
            const uint64_t index = first_index + begin, to_boundary = (1ull << 32) - (uint32_t)index;
            next = end - begin < to_boundary ? end : begin + (size_t)to_boundary;
            const struct part part = block_digest((uint32_t)(next - begin), x + begin, pl_index_word(index));
            add_part(&all, &part);
        }
    }
#pragma omp critical(pipeleaf_digest)
    {
        result->sum += all.sum;
        result->weighted += all.weighted;
        result->nan += all.nan;
        if (all.largest > pl_bits(result->absmax)) result->absmax = pl_float(all.largest);
    }
}
