/* The picture that people draw by hand, in text; and what it shares with the one in SVG. */
#include "command/plan_parts.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void drawing_make(struct drawing *drawing, const struct program *program, const struct prediction *prediction)
{
    *drawing = (struct drawing){ .program = program, .prediction = prediction };
    drawing->local = allocate((size_t)program->chunks, sizeof *drawing->local);
    int *held = allocate((size_t)program->ranks, sizeof *held);
    for (int chunk = 0; chunk < program->chunks; chunk++) {
        drawing->local[chunk] = held[program->rank_of[chunk]]++;
        if (held[program->rank_of[chunk]] > drawing->locals) drawing->locals = held[program->rank_of[chunk]];
    }
    free(held);
    for (int rank = 0; rank < program->ranks; rank++) {
        int computes = 0;
        for (int i = 0; i < program->rank[rank].count; i++) {
            if (program->rank[rank].operations[i].kind != OPERATION_COMPUTE) continue;
            const double takes = prediction->end[rank][computes] - prediction->start[rank][computes];
            if (takes > 0 && (drawing->unit == 0 || takes < drawing->unit)) drawing->unit = takes;
            char label[DRAWING_LABEL];
            drawing_label(drawing, program->rank[rank].operations[i].compute, label);
            if ((int)strlen(label) > drawing->label) drawing->label = (int)strlen(label);
            computes++;
        }
        drawing->boxes += (size_t)computes;
    }
    if (drawing->unit == 0) drawing->unit = 1;
    const double columns = ceil(prediction->makespan / drawing->unit - 1e-6);
    drawing->columns = columns < INT_MAX / 64 ? (int)columns : INT_MAX / 64;
}

void drawing_free(struct drawing *drawing)
{
    free(drawing->local);
    *drawing = (struct drawing){ 0 };
}

void drawing_label(const struct drawing *drawing, struct compute compute, char label[DRAWING_LABEL])
{
    const int local = drawing->local[compute.chunk];
    int length = snprintf(label, DRAWING_LABEL, "%c%d", compute_letter[compute.kind], compute.microbatch);
    if (drawing->locals < 2) return;
    if (drawing->locals <= 26)
        snprintf(label + length, (size_t)(DRAWING_LABEL - length), "%c", 'a' + local);
    else
        snprintf(label + length, (size_t)(DRAWING_LABEL - length), ".%d", local);
}

struct colour drawing_colour(const struct drawing *drawing, enum compute_kind kind, int local)
{
    /* Hues that the colour-blind can tell apart (Okabe and Ito, 2008), darkened to begin with. */
    static const struct colour first[COMPUTE_KINDS] = {
        [COMPUTE_F] = { 0, 114, 178 },
        [COMPUTE_B] = { 213, 94, 0 },
        [COMPUTE_I] = { 190, 80, 150 },
        [COMPUTE_W] = { 0, 140, 100 },
    };
    const double towards_white = drawing->locals > 1 ? 0.6 * local / (drawing->locals - 1) : 0;
    const struct colour c = first[kind];
    return (struct colour){ c.red + (int)((255 - c.red) * towards_white),
        c.green + (int)((255 - c.green) * towards_white), c.blue + (int)((255 - c.blue) * towards_white) };
}

/* "rank 12  " */
static int margin(const struct drawing *drawing)
{
    return snprintf(NULL, 0, "rank %d  ", drawing->program->ranks - 1);
}

int drawing_text_width(const struct drawing *drawing)
{
    const double width = (double)margin(drawing) + (double)drawing->columns * (drawing->label + 1);
    return width < INT_MAX ? (int)width : INT_MAX;
}

/* The column at which a time lies; what takes at least a unit has a column at least, and none overlap. */
static int column_at(const struct drawing *drawing, double seconds)
{
    return (int)floor(seconds / drawing->unit + 0.5 + 1e-6);
}

static void add_filled(struct text *out, const char *label, char fill, int width)
{
    text_add(out, "%s", label);
    for (int i = (int)strlen(label); i < width; i++) text_add(out, "%c", fill);
}

/* A box of `columns` columns; the last character stays free, so that neighbours are told apart. */
static void add_box(
    const struct drawing *drawing, struct compute compute, int columns, bool coloured, struct text *out)
{
    char label[DRAWING_LABEL];
    drawing_label(drawing, compute, label);
    const int width = columns * (drawing->label + 1) - 1;
    if (coloured) {
        const struct colour c = drawing_colour(drawing, compute.kind, drawing->local[compute.chunk]);
        /* The 6 x 6 x 6 cube of terminals with 256 colours. */
        const int index = 16 + 36 * ((c.red + 25) / 51) + 6 * ((c.green + 25) / 51) + (c.blue + 25) / 51;
        const bool dark = 3 * c.red + 6 * c.green + c.blue < 10 * 140;
        text_add(out, "\033[38;5;%d;48;5;%dm", dark ? 231 : 16, index);
    }
    add_filled(out, label, coloured ? ' ' : '-', width);
    text_add(out, "%s ", coloured ? "\033[0m" : "");
}

static void add_row(const struct drawing *drawing, int rank, bool coloured, struct text *out)
{
    const struct rank_program *program = &drawing->program->rank[rank];
    int column = 0, k = 0;
    char name[32];
    snprintf(name, sizeof name, "rank %d", rank);
    add_filled(out, name, ' ', margin(drawing));
    for (int i = 0; i < program->count; i++) {
        if (program->operations[i].kind != OPERATION_COMPUTE) continue;
        const int first = column_at(drawing, drawing->prediction->start[rank][k]),
                  end = column_at(drawing, drawing->prediction->end[rank][k]);
        k++;
        for (; column < first; column++) {
            add_filled(out, "", coloured ? ' ' : '.', drawing->label);
            text_add(out, " ");
        }
        if (end > first) add_box(drawing, program->operations[i].compute, end - first, coloured, out);
        column = end > column ? end : column;
    }
    for (; column < drawing->columns; column++) {
        add_filled(out, "", coloured ? ' ' : '.', drawing->label);
        text_add(out, " ");
    }
    while (out->length && out->data[out->length - 1] == ' ') out->data[--out->length] = 0;
    text_add(out, "\n");
}

void drawing_text(const struct drawing *drawing, bool coloured, struct text *out)
{
    add_filled(out, "time", ' ', margin(drawing));
    for (int column = 0; column < drawing->columns; column += 5) {
        char mark[32];
        const int left = drawing->columns - column;
        snprintf(mark, sizeof mark, "%d", column);
        if (left <= 5)
            text_add(out, "%s", mark);
        else
            add_filled(out, mark, ' ', 5 * (drawing->label + 1));
    }
    text_add(out, "\n");
    for (int rank = 0; rank < drawing->program->ranks; rank++) add_row(drawing, rank, coloured, out);
}
