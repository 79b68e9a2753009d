/* A digest changes with any flipped bit and any swap, adds up over shards, and never lets a NaN pass. */
#include "../check.h"
#include "variants.h"
#include "device/definition.h"

enum { COUNT = 300 };

static float x[COUNT];

static struct digest digest_of(const float *values, size_t count, uint64_t first)
{
    struct digest digest;
    definition_digest(count, values, first, &digest);
    return digest;
}

static void any_flipped_bit_and_any_swap_show(void)
{
    const struct digest whole = digest_of(x, COUNT, 0);
    CHECK(digest_equal(whole, whole), "a tensor differs from itself");
    for (size_t i = 0; i < COUNT; i++) {
        for (int bit = 0; bit < 32; bit++) {
            const float kept = x[i];
            x[i] = pl_float(pl_bits(kept) ^ 1u << bit);
            CHECK(!digest_equal(whole, digest_of(x, COUNT, 0)), "bit %d of element %zu", bit, i);
            x[i] = kept;
        }
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            if (pl_bits(x[i]) == pl_bits(x[j])) continue;
            const float kept = x[i];
            x[i] = x[j], x[j] = kept;
            CHECK(!digest_equal(whole, digest_of(x, COUNT, 0)), "elements %zu and %zu swapped", i, j);
            x[j] = x[i], x[i] = kept;
        }
    }
}

static void shards_add_up(void)
{
    for (uint64_t first = 0; first <= 0xffffffffu; first += 0xffffffffu - 100) {
        const struct digest whole = digest_of(x, COUNT, first);
        for (size_t cut = 0; cut <= COUNT; cut++) {
            const struct digest sum =
                digest_add(digest_of(x + cut, COUNT - cut, first + cut), digest_of(x, cut, first));
            CHECK(digest_equal(whole, sum) && memcmp(&whole, &sum, sizeof sum) == 0, "cut at %zu", cut);
        }
    }
}

static void nan_is_counted_and_never_equal(void)
{
    const float kept = x[17];
    x[17] = pl_float(0x7fc00000u);
    const struct digest quiet = digest_of(x, COUNT, 0);
    x[17] = pl_float(0xffc12345u);
    const struct digest other = digest_of(x, COUNT, 0);
    x[17] = kept;
    CHECK(quiet.nan == 1, "%llu NaN", (unsigned long long)quiet.nan);
    CHECK(memcmp(&quiet, &other, sizeof quiet) == 0, "the payload of a NaN shows");
    CHECK(!digest_equal(quiet, other) && !digest_equal(quiet, quiet), "a NaN passes");
    CHECK(quiet.absmax == digest_of(x, COUNT, 0).absmax, "a NaN hides the largest number");
}

/* It has an inverse: the steps backward, with the multipliers' inverses modulo 2^32. So no two indices share
 * a weight. */
static void the_mix_is_a_bijection(void)
{
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 1ull << 32; i += 61) {
        uint32_t word = pl_mix_word((uint32_t)i);
        word = (word ^ word >> 16) * 0x43021123u;
        word = (word ^ word >> 15 ^ word >> 30) * 0x1d69e2a5u;
        word ^= word >> 16;
        wrong += word != i;
    }
    CHECK(wrong == 0, "%llu words do not come back", (unsigned long long)wrong);
}

/* The same numbers have this digest on every machine, so that digest files can be shared. */
static void a_known_tensor_has_its_digest(void)
{
    const struct digest known = digest_of((const float[]){ 1.0f, -2.5f, -0.0f, 1e-45f }, 4, 0);
    CHECK(known.sum == 0x3f800000ull + 0xc0200000ull + 0x80000000ull + 1, "%016llx",
        (unsigned long long)known.sum);
    CHECK(known.weighted == 0x6dfb9d075783d3bb, "%016llx", (unsigned long long)known.weighted);
    CHECK(known.absmax == 2.5f, "%a", (double)known.absmax);
}

int main(void)
{
    uint64_t state = 7;
    fill(x, COUNT, WILD, &state);
    any_flipped_bit_and_any_swap_show();
    shards_add_up();
    nan_is_counted_and_never_equal();
    a_known_tensor_has_its_digest();
    the_mix_is_a_bijection();
    return check_result();
}
