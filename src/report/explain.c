#include "report/explain.h"
#include "device/arithmetic.h"
#include <inttypes.h>

void explain_place(struct text *out, const struct item *item)
{
    char name[TENSOR_NAME];
    text_add(out, "step %d, %s", item->step, tensor_name(item->tensor, name));
    if (item->count > 1) text_add(out, " and its other microbatches");
}

static void add_index(struct text *out, const size_t *extents, int rank, uint64_t index)
{
    uint64_t left = index, position[3];
    for (int i = rank - 1; i >= 0; i--) {
        position[i] = left % extents[i];
        left /= extents[i];
    }
    text_add(out, "index %" PRIu64 " = [", index);
    for (int i = 0; i < rank; i++) text_add(out, "%s%" PRIu64, i ? "," : "", position[i]);
    text_add(out, "] of [");
    for (int i = 0; i < rank; i++) text_add(out, "%s%zu", i ? "," : "", extents[i]);
    text_add(out, "]");
}

/* The float's place in the order of all floats, so that neighbours are 1 apart and both zeros are 0. */
static int64_t place_in_order(float x)
{
    const uint32_t bits = pl_bits(x);
    const int64_t magnitude = bits & 0x7fffffffu;
    return bits >> 31 ? -magnitude : magnitude;
}

static int bit_of_power(uint32_t x)
{
    int bit = 0;
    while (!(x >> bit & 1)) bit++;
    return bit;
}

static void explain_elements(
    struct text *out, const struct examined side[2], const struct item *run, const struct comparison *c)
{
    size_t extents[3];
    const int rank = tensor_extents(&side[0].side->model, run->tensor, extents);
    text_add(
        out, "  elements that differ: %" PRIu64 " of %" PRIu64 ", the first at ", c->differing, c->elements);
    add_index(out, extents, rank, c->first);
    for (int i = 0; i < 2; i++)
        text_add(out, "\n    %-9s 0x%08" PRIx32 "  %a  %.9g", side[i].role, pl_bits(c->value[i]),
            (double)c->value[i], (double)c->value[i]);
    const uint32_t flipped = pl_bits(c->value[0]) ^ pl_bits(c->value[1]);
    text_add(out, "\n    XOR       0x%08" PRIx32, flipped);
    if ((flipped & (flipped - 1)) == 0) text_add(out, " (bit %d)", bit_of_power(flipped));
    const int64_t distance = place_in_order(c->value[0]) - place_in_order(c->value[1]);
    if (c->value[0] != c->value[0] || c->value[1] != c->value[1])
        text_add(out, ", no distance: NaN\n");
    else
        text_add(out, ", distance %" PRId64 " ULP\n", distance < 0 ? -distance : distance);
}

static void explain_digests(
    struct text *out, const struct examined side[2], const struct item *run, const struct comparison *c)
{
    for (int i = 0; i < 2; i++)
        text_add(out, "    %-9s %016" PRIx64 " %016" PRIx64 " nan=%" PRIu64 " absmax=%a\n", side[i].role,
            c->digest[i].sum, c->digest[i].weighted, c->digest[i].nan, (double)c->digest[i].absmax);
    const struct model *model = &side[0].side->model;
    const uint64_t first = tensor_first_index(model, run->tensor);
    uint64_t index;
    if (!find_single_change(c->digest[0], c->digest[1], first, c->elements, &index)) {
        text_add(out,
            "    no change of one element alone makes digests differ like this: more than one differs\n");
        return;
    }
    size_t extents[3];
    const int rank = tensor_extents(model, run->tensor, extents);
    if (run->count > 1) extents[0] *= run->count; /* the whole batch, whatever its split */
    text_add(out, "    one changed element explains it: ");
    add_index(out, extents, rank, index - first);
    const uint64_t change = c->digest[0].sum - c->digest[1].sum;
    const uint32_t size = (uint32_t)(change >> 63 ? 0 - change : change);
    text_add(out, ", whose bits, as a number, are 0x%" PRIx32 " %s in the %s", size,
        change >> 63 ? "less" : "more", side[0].role);
    if ((size & (size - 1)) == 0) text_add(out, ": bit %d, if one bit flipped", bit_of_power(size));
    text_add(out, "\n");
}

void explain_difference(struct text *out, const struct examined side[2], const struct item *run,
    const struct item *reference, const struct comparison *comparison)
{
    const struct item *item[2] = { run, reference };
    text_add(out, "first difference in dataflow order: ");
    explain_place(out, run);
    for (int i = 0; i < 2; i++) {
        const int rank = side_rank(side[i].side, item[i]->entry);
        if (rank >= 0) text_add(out, ", held by rank %d of the %s", rank, side[i].role);
    }
    text_add(out, comparison->in_full ? "\n" : " (by digest)\n");
    explain_bits(out, side, run, comparison);
}

void explain_bits(struct text *out, const struct examined side[2], const struct item *run,
    const struct comparison *comparison)
{
    if (comparison->in_full)
        explain_elements(out, side, run, comparison);
    else
        explain_digests(out, side, run, comparison);
}
