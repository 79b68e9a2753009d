/* The matrix products that are measured: those of a layer at hidden 256 to 4096 over so many tokens, each in
   the form and with the start of its chains that the layer gives it; and shapes that are hard on a tiled
   product (tall, thin, head-sized, odd), each in every form. */
#pragma once
#include "device/device.h"
#include <stdio.h>

struct gemm_case {
    size_t m, n, k;
    enum gemm_form form;
    bool accumulate; /* continues the chains that are in C */
    bool of_layer;
};

enum { MOST_CASES = 128, TOKENS = 512 /* where nothing else is asked for */ };

/* "m=512 n=3072 k=1024 TN+"; the plus where chains are continued. */
static inline void gemm_case_name(const struct gemm_case *c, char *name, size_t size)
{
    static const char *const forms[] = { "NN", "NT", "TN" };
    snprintf(
        name, size, "m=%zu n=%zu k=%zu %s%s", c->m, c->n, c->k, forms[c->form], c->accumulate ? "+" : "");
}

/* Fills cases and returns how many there are. least, most: the range of hidden sizes; the other shapes come
 * where it holds all of 256 to 4096. */
static inline int gemm_cases(struct gemm_case cases[MOST_CASES], size_t tokens, size_t least, size_t most)
{
    static const size_t hidden[] = { 256, 512, 1024, 2048, 4096 };
    static const size_t others[][3] = {
        { 1024, 2048, 2048 },                                      /* square and large */
        { 8192, 64, 64 }, { 64, 8192, 64 }, { 64, 64, 8192 },      /* tall: one side is long */
        { 16, 4096, 1024 }, { 4096, 16, 1024 }, { 1024, 1024, 8 }, /* thin: one side is short */
        { 512, 512, 64 }, { 512, 64, 512 },                        /* scores and mixing of one head */
        { 509, 1021, 769 }, { 333, 777, 555 }, { 127, 129, 1000 }, /* odd: no side fits a tile */
        { 64, 192, 64 }, { 16, 64, 64 }                            /* a tiny layer's */
    };
    int count = 0;
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
        const size_t h = hidden[i];
        if (h < least || h > most) continue;
        const size_t weights[][2] = { { h, 3 * h }, { h, h }, { h, 4 * h }, { 4 * h, h } }; /* in, out */
        for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
            const size_t in = weights[w][0], out = weights[w][1];
            cases[count++] = (struct gemm_case){ tokens, out, in, GEMM_NN, false, true };
            cases[count++] = (struct gemm_case){ tokens, in, out, GEMM_NT, false, true };
            cases[count++] = (struct gemm_case){ in, out, tokens, GEMM_TN, true, true };
        }
    }
    if (least > 256 || most < 4096) return count;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const size_t m = others[i][0], n = others[i][1], k = others[i][2];
        for (int form = GEMM_NN; form <= GEMM_TN; form++)
            cases[count++] = (struct gemm_case){ m, n, k, (enum gemm_form)form, false, false };
        cases[count++] = (struct gemm_case){ m, n, k, GEMM_NN, true, false };
    }
    return count;
}
