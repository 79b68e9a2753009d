/* The random numbers are Random123's, and an element's number depends on nothing but its key and its index.
 */
#include "../check.h"
#include "variants.h"
#include "device/definition.h"
#include <Random123/philox.h>

static const struct device_request request = {
    .microbatch_size = 2, .sequence = 32, .hidden = 64, .heads = 4, .ffn = 256
};

/* The known answers for philox4x32-10 that Random123 ships (kat_vectors). */
static void philox_gives_the_known_answers(void)
{
    static const struct {
        uint32_t counter[4], key[2], answer[4];
    } known[] = {
        { { 0 }, { 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
            { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
            { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        uint32_t words[4];
        memcpy(words, known[i].counter, sizeof words);
        const uint64_t seed = known[i].key[0] | (uint64_t)known[i].key[1] << 32;
        for (int round = 0; round < PL_PHILOX_ROUNDS; round++)
            pl_philox_round(&words[0], &words[1], &words[2], &words[3], pl_philox_key0(seed, round),
                pl_philox_key1(seed, round));
        const philox4x32_ctr_t counter = { { known[i].counter[0], known[i].counter[1], known[i].counter[2],
            known[i].counter[3] } };
        const philox4x32_ctr_t library =
            philox4x32_R(10, counter, (philox4x32_key_t){ { known[i].key[0], known[i].key[1] } });
        for (int w = 0; w < 4; w++) {
            CHECK(words[w] == known[i].answer[w], "vector %zu word %d: %08x", i, w, words[w]);
            CHECK(library.v[w] == known[i].answer[w], "vector %zu word %d of the library: %08x", i, w,
                library.v[w]);
        }
    }
}

static void uniform_numbers_are_exact(void)
{
    CHECK(pl_uniform(0) == -1.0f, "%a", (double)pl_uniform(0));
    CHECK(pl_uniform(0x80000000u) == 0.0f, "%a", (double)pl_uniform(0x80000000u));
    CHECK(pl_uniform(0xffffffffu) == 1.0f - 0x1p-23f, "%a", (double)pl_uniform(0xffffffffu));
    CHECK(pl_uniform(0x80000100u) == 0x1p-23f, "%a", (double)pl_uniform(0x80000100u));
}

static void numbers_do_not_depend_on_shards_or_order(void)
{
    enum { COUNT = 1000 };
    static float whole[COUNT], parts[COUNT];
    struct random key = { .seed = 20250101, .purpose = 4, .layer = 7, .deviation = 0.02f };
    definition_random(&key, COUNT, whole);
    struct devices devices = open_devices(request, (const int[]){ 1, 2, 0 });
    for (int i = 0; i < devices.count; i++) {
        struct device *d = devices.device[i];
        size_t at;
        for (size_t size = 1; size < 200; size += 33) {
            memset(parts, 0, sizeof parts);
            for (size_t end = COUNT; end > 0;) { /* the last part first */
                const size_t count = end < size ? end : size;
                end -= count;
                key.first_index = end;
                d->random(d, &key, count, parts + end);
            }
            CHECK(same_bits(whole, parts, COUNT, &at), "parts of %zu on %s: element %zu", size, d->name, at);
        }
    }
    close_devices(&devices);
}

/* Another seed, purpose, layer or step: other numbers; and the same mean and deviation. */
static void every_part_of_the_key_counts(void)
{
    enum { COUNT = 20000 };
    static float base[COUNT], other[COUNT];
    const struct random key = {
        .seed = 9, .purpose = 2, .layer = 3, .step = 4, .centre = 1.0f, .deviation = 0.5f
    };
    struct random changed[5] = { key, key, key, key, key };
    changed[0].seed += 1;
    changed[1].seed += 1ull << 32;
    changed[2].purpose += 1;
    changed[3].layer += 1;
    changed[4].step += 1;
    definition_random(&key, COUNT, base);
    for (int c = 0; c < 5; c++) {
        definition_random(&changed[c], COUNT, other);
        double sum = 0.0, squares = 0.0;
        size_t same = 0;
        for (size_t i = 0; i < COUNT; i++) {
            same += base[i] == other[i];
            sum += other[i];
            squares += (other[i] - 1.0) * (other[i] - 1.0);
        }
        CHECK(same < 10, "change %d leaves %zu numbers as they are", c, same);
        CHECK(fabs(sum / COUNT - 1.0) < 0.02, "mean %g", sum / COUNT);
        CHECK(fabs(sqrt(squares / COUNT) - 0.5) < 0.01, "deviation %g", sqrt(squares / COUNT));
    }
}

int main(void)
{
    philox_gives_the_known_answers();
    uniform_numbers_are_exact();
    numbers_do_not_depend_on_shards_or_order();
    every_part_of_the_key_counts();
    return check_result();
}
