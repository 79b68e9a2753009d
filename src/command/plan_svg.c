/* The same picture as SVG: one rectangle an action, at its exact time. */
#include "command/plan_parts.h"
#include <stdio.h>
#include <string.h>

enum {
    MOST_BOXES = 100000, /* beyond that no viewer is of use */
    ROW = 30,            /* pixels from row to row */
    TOP = 40,            /* of the first row */
    CHARACTER = 9        /* of a label, wide */
};

static void add_escaped(struct text *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<': text_add(out, "&lt;"); break;
        case '>': text_add(out, "&gt;"); break;
        case '&': text_add(out, "&amp;"); break;
        case '"': text_add(out, "&quot;"); break;
        default:
            if ((unsigned char)*text >= ' ') text_add(out, "%c", *text);
        }
    }
}

static void add_box(
    const struct drawing *drawing, struct compute compute, int rank, double x, double width, struct text *out)
{
    char label[DRAWING_LABEL];
    drawing_label(drawing, compute, label);
    const struct colour c = drawing_colour(drawing, compute.kind, drawing->local[compute.chunk]);
    const bool dark = 3 * c.red + 6 * c.green + c.blue < 10 * 140;
    const int y = TOP + rank * ROW;
    text_add(out,
        "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"#%02x%02x%02x\"><title>%c chunk %d "
        "microbatch %d, rank %d</title></rect>\n",
        x, y, width, ROW - 4, c.red, c.green, c.blue, compute_letter[compute.kind], compute.chunk,
        compute.microbatch, rank);
    text_add(out, "<text x=\"%.2f\" y=\"%d\" fill=\"%s\" text-anchor=\"middle\">%s</text>\n", x + width / 2,
        y + ROW / 2 + 2, dark ? "#fff" : "#000", label);
}

/* One box a kind that the program has, and a shade for each of a rank's chunks. */
static void add_legend(const struct drawing *drawing, const bool *has, int left, int y, struct text *out)
{
    static const char *const meaning[COMPUTE_KINDS] = { "F: forward", "B: backward", "I: input gradient",
        "W: weight gradient" };
    const int shades = drawing->locals < 16 ? drawing->locals : 16;
    int x = left;
    for (enum compute_kind kind = 0; kind < COMPUTE_KINDS; kind++) {
        if (!has[kind]) continue;
        for (int s = 0; s < shades; s++, x += 20) {
            const struct colour c = drawing_colour(drawing, kind, s);
            text_add(out, "<rect x=\"%d\" y=\"%d\" width=\"18\" height=\"18\" fill=\"#%02x%02x%02x\"/>\n", x,
                y, c.red, c.green, c.blue);
        }
        text_add(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 4, y + 14, meaning[kind]);
        x += 24 + CHARACTER * (int)strlen(meaning[kind]);
    }
    text_add(out, "<text x=\"%d\" y=\"%d\">unit of time: %.3E s%s</text>\n", left, y + 36, drawing->unit,
        drawing->locals > 1 ? "; from dark to light: the rank's chunks a, b, ..." : "");
}

bool drawing_svg(const struct drawing *drawing, const char *title, struct text *out, struct text *error)
{
    const struct program *program = drawing->program;
    if (drawing->boxes > MOST_BOXES) {
        text_add(error,
            "--svg: the picture would have %zu boxes: at most %d can be shown; take fewer "
            "pipeline.ranks, batch.microbatches or pipeline.chunks_per_rank",
            drawing->boxes, MOST_BOXES);
        return false;
    }
    const int unit = CHARACTER * drawing->label + 8, left = 20 + CHARACTER * 9;
    const int bottom = TOP + program->ranks * ROW;
    const double chart = unit * drawing->prediction->makespan / drawing->unit;
    const double width = left + (chart > 560 ? chart : 560) + 20;
    bool has[COMPUTE_KINDS] = { false };

    text_add(out,
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" "
        "width=\"%.0f\" height=\"%d\" font-family=\"sans-serif\" font-size=\"13\">\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"20\" y=\"22\" "
        "font-size=\"15\">",
        width, bottom + 92);
    add_escaped(out, title);
    text_add(out, "</text>\n");
    for (int rank = 0; rank < program->ranks; rank++) {
        const int y = TOP + rank * ROW;
        text_add(out, "<text x=\"20\" y=\"%d\">rank %d</text>\n", y + ROW / 2 + 2, rank);
        text_add(out, "<rect x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"#eee\"/>\n", left, y,
            chart, ROW - 4);
        int k = 0;
        for (int i = 0; i < program->rank[rank].count; i++) {
            if (program->rank[rank].operations[i].kind != OPERATION_COMPUTE) continue;
            const struct compute compute = program->rank[rank].operations[i].compute;
            const double start = drawing->prediction->start[rank][k] / drawing->unit,
                         end = drawing->prediction->end[rank][k] / drawing->unit;
            k++;
            has[compute.kind] = true;
            if (end > start)
                add_box(drawing, compute, rank, left + unit * start + 0.5, unit * (end - start) - 1, out);
        }
    }
    for (int column = 0; column <= drawing->columns; column += 5)
        text_add(out,
            "<text x=\"%d\" y=\"%d\" font-size=\"11\" fill=\"#555\" text-anchor=\"middle\">%d</text>\n",
            left + unit * column, bottom + 12, column);
    add_legend(drawing, has, left, bottom + 26, out);
    text_add(out, "</svg>\n");
    return true;
}
