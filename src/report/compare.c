#include "report/compare.h"
#include "device/arithmetic.h"
#include "device/definition.h"
#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool has_data(const struct item *item)
{
    return item->count == 1 && item->entry->file >= 0;
}

/* A block of the entry's data, and its share of the digest. */
static void read_block(
    struct examined *of, const struct entry *entry, size_t first, size_t count, struct digest *digest)
{
    const struct model *model = &of->side->model;
    const size_t limit = tensor_block_limit(model, entry->tensor);
    if (of->capacity < limit) {
        free(of->buffer);
        of->buffer = allocate(limit, sizeof(float));
        of->capacity = limit;
    }
    struct text error = { 0 };
    if (!tensor_file_read(of->side->file[entry->file], entry->tensor, first, count, of->buffer, &error))
        fail("%s", error.data);
    struct digest block;
    definition_digest(count, of->buffer, tensor_first_index(model, entry->tensor) + first, &block);
    *digest = first == 0 ? block : digest_add(*digest, block);
}

static bool is_same_digest(struct digest a, struct digest b)
{
    return a.sum == b.sum && a.weighted == b.weighted && a.nan == b.nan && a.absmax == b.absmax;
}

/* Remembers what is wrong with the entry alone, now that its data has this digest. */
static void note_faults(
    struct examined *of, const struct item *item, struct entry *entry, struct digest computed)
{
    const struct item here = { item->step, entry->tensor, entry, 1 };
    const bool nan = computed.nan || (entry->has_digest && entry->digest.nan);
    if (nan && of->nan_tensors++ == 0) of->first_nan = here;
    if (entry->has_digest && !is_same_digest(entry->digest, computed) && of->stale++ == 0)
        of->first_stale = here;
}

/* The digest of an entry: of its data, where it has data. */
static struct digest entry_digest(struct examined *of, const struct item *item, struct entry *entry)
{
    struct digest digest = entry->digest;
    if (entry->file >= 0)
        for (size_t first = 0, count; (count = tensor_block(&of->side->model, entry->tensor, first));
             first += count)
            read_block(of, entry, first, count, &digest);
    note_faults(of, item, entry, digest);
    return digest;
}

static struct digest item_digest(struct examined *of, const struct item *item)
{
    struct digest sum = entry_digest(of, item, item->entry);
    for (size_t i = 1; i < item->count; i++) sum = digest_add(sum, entry_digest(of, item, item->entry + i));
    return sum;
}

void examine_item(struct examined *side, const struct item *item)
{
    item_digest(side, item);
}

static void compare_blocks(
    const float *a, const float *b, size_t first, size_t count, struct comparison *result)
{
    if (!memcmp(a, b, count * sizeof *a)) return;
    for (size_t i = 0; i < count; i++) {
        if (pl_canonical_bits(a[i]) == pl_canonical_bits(b[i])) continue;
        if (result->differing++) continue;
        result->first = first + i;
        result->value[0] = a[i];
        result->value[1] = b[i];
    }
}

struct comparison compare_items(struct examined side[2], const struct item *run, const struct item *reference)
{
    const struct model *model = &side[0].side->model;
    struct comparison result = { .elements = run->count * tensor_elements(model, run->tensor) };
    if (has_data(run) && has_data(reference)) {
        struct entry *entry[2] = { run->entry, reference->entry };
        for (size_t first = 0, count; (count = tensor_block(model, run->tensor, first)); first += count) {
            for (int i = 0; i < 2; i++) read_block(&side[i], entry[i], first, count, &result.digest[i]);
            compare_blocks(side[0].buffer, side[1].buffer, first, count, &result);
        }
        note_faults(&side[0], run, entry[0], result.digest[0]);
        note_faults(&side[1], reference, entry[1], result.digest[1]);
        result.in_full = true;
        result.equal = result.differing == 0;
    } else {
        result.digest[0] = item_digest(&side[0], run);
        result.digest[1] = item_digest(&side[1], reference);
        result.equal = is_same_digest(result.digest[0], result.digest[1]);
    }
    return result;
}

bool find_single_change(
    struct digest a, struct digest b, uint64_t first_index, uint64_t count, uint64_t *index)
{
    /* Element i with bits u adds u and u * (2 mix(i) + 1): a change of u by d changes the sums by d and d *
     * (2 mix(i) + 1). */
    const uint64_t change = a.sum - b.sum, weighted = a.weighted - b.weighted;
    const uint64_t size = change >> 63 ? 0 - change : change;
    if (size == 0 || size >> 32) return false;
    for (uint64_t i = first_index; i - first_index < count; i++)
        if (change * (2 * (uint64_t)pl_mix_word(pl_index_word(i)) + 1) == weighted) {
            *index = i;
            return true;
        }
    return false;
}
