/* The effective deck as a deck. */
#include "deck/parameter.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fewest digits that read back to the same double, without an exponent where that can be, with a point so
   that every reader sees a real. */
static void add_real(struct text *out, double value)
{
    char digits[40] = "", trial[40];
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(trial, sizeof trial, "%.*g", precision, value);
        if (strtod(trial, NULL) != value) continue;
        if (!*digits || !strchr(trial, 'e')) strcpy(digits, trial);
        if (!strchr(digits, 'e')) break;
    }
    text_add(out, "%s%s", digits, strpbrk(digits, ".e") ? "" : ".0");
}

/* Fortran doubles a quote within quotes. */
static void add_word(struct text *out, const char *word)
{
    text_add(out, "'");
    for (const char *c = word; *c; c++) text_add(out, *c == '\'' ? "''" : "%c", *c);
    text_add(out, "'");
}

/* Runs of equal numbers as repeat counts, so that thousands of chunks stay readable; a few runs a line. */
static void add_integers(struct text *out, const int32_t *list, int64_t count)
{
    int runs = 0;
    for (int64_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && list[next] == list[i];) next++;
        if (i) text_add(out, runs % 16 ? ", " : ",\n    ");
        runs++;
        if (next - i > 1) text_add(out, "%" PRId64 "*", next - i);
        text_add(out, "%" PRId32, list[i]);
    }
}

void deck_echo(const struct deck *deck, struct text *out)
{
    for (size_t i = 0; i < deck_parameter_count; i++) {
        const struct deck_parameter *p = &deck_parameters[i];
        if (i == 0 || strcmp(p->group, p[-1].group) != 0) text_add(out, "%s&%s\n", i ? "/\n" : "", p->group);
        if (p->type == DECK_INTEGERS && deck->pipeline.layers_per_chunk_count == 0) continue;
        const void *const field = (const char *)deck + p->offset;
        text_add(out, "  %s = ", p->name);
        switch (p->type) {
        case DECK_INTEGER: text_add(out, "%" PRId64, *(const int64_t *)field); break;
        case DECK_REAL: add_real(out, *(const double *)field); break;
        case DECK_LOGICAL: text_add(out, *(const bool *)field ? ".true." : ".false."); break;
        case DECK_WORD: add_word(out, field); break;
        case DECK_INTEGERS:
            add_integers(out, deck->pipeline.layers_per_chunk, deck->pipeline.layers_per_chunk_count);
            break;
        }
        text_add(out, "\n");
    }
    text_add(out, "/\n");
}
