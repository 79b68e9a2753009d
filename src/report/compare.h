/* Two sides' versions of one tensor: their data element by element where both have it, else their digests. */
#pragma once
#include "report/side.h"

/* What is compared: one tensor of one step; or, where the two sides split their sequences differently into
   microbatches, a layer's tensors of all microbatches, whose digests add up. */
struct item {
    int step;
    struct tensor tensor; /* of the first entry */
    struct entry *entry;  /* [count], the side's */
    size_t count;
};

/* A side while it is compared, and what was found wrong with it alone. */
struct examined {
    struct side *side;
    const char *role;   /* what it is called in messages: "run" or "reference" */
    size_t nan_tensors; /* tensors that hold a NaN, and the first of them */
    struct item first_nan;
    size_t stale; /* tensors whose digest is not that of their data, and the first of them */
    struct item first_stale;
    float *buffer; /* one block */
    size_t capacity;
};

struct comparison {
    bool equal, in_full;
    struct digest digest[2]; /* run, reference */
    uint64_t elements;       /* of the tensor */
    uint64_t differing;      /* in full: how many elements differ, */
    uint64_t first;          /* the index of the first within the tensor, */
    float value[2];          /* and its two values */
};

/* Reads and compares. Data that cannot be read fails the job. */
struct comparison compare_items(
    struct examined side[2], const struct item *run, const struct item *reference);

/* Looks for NaN and for a digest that is not that of its data, in an item that has nothing to be compared
 * with. */
void examine_item(struct examined *side, const struct item *item);

/* Looks for the one element whose change alone makes both sums of digest a differ from those of b as they do:
   its index among `count` from first_index on, in *index; false where there is none. */
bool find_single_change(
    struct digest a, struct digest b, uint64_t first_index, uint64_t count, uint64_t *index);
