/* A difference told in words: where it is, what the bits are. */
#pragma once
#include "report/compare.h"

/* Appends the lines on the first tensor that differs. */
void explain_difference(struct text *out, const struct examined side[2], const struct item *run,
    const struct item *reference, const struct comparison *comparison);

/* "step 4, layers/0012/gradients/mlp.up.weight": of all microbatches, where the item has more entries than
 * one. */
void explain_place(struct text *out, const struct item *item);
