/* A difference told in words: where it is, what the bits are. */
#pragma once
#include "report/compare.h"

/* What one tensor of each class is called: "activation gradient". */
extern const char *const tensor_class_word[TENSOR_CLASSES];

/* Appends the lines on the first tensor that differs. */
void explain_difference(struct text *out, const struct examined side[2], const struct item *run,
    const struct item *reference, const struct comparison *comparison);

/* The lines below the place: the elements or the digests of both, whose names are the sides' roles. */
void explain_bits(struct text *out, const struct examined side[2], const struct item *run,
    const struct comparison *comparison);

/* "step 4, layers/0012/gradients/mlp.up.weight": of all microbatches, where the item has more entries than
 * one. */
void explain_place(struct text *out, const struct item *item);
