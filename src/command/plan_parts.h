/* The parts of `pipeleaf plan`: what actions cost, what comes of it, tables, pictures. */
#pragma once
#include "command/costs.h"

/* All that one plan is about. */
struct plan {
    const char *deck_path;
    const struct deck *deck;
    const struct model *model;
    const struct partition *partition;
    const struct program *program;
    const struct measured *measured; /* or NULL */
    struct chosen_costs costs;
    struct prediction with_messages, with_free_messages;
    bool all_channels; /* every channel in the table, however many */
};

void plan_print_memory(struct listing *out, const struct plan *plan);
void plan_print_time(struct listing *out, const struct plan *plan);
void plan_print_channels(struct listing *out, const struct plan *plan);
/* Every schedule with every number of chunks a rank that the layers allow. */
void plan_print_comparison(struct listing *out, const struct plan *plan);
/* Predicted against the run's steps, where it was a run of this schedule; else why not. */
void plan_print_measured(struct listing *out, const struct plan *plan);

/* The picture with free messages: one row a rank, time to the right. */
struct drawing {
    const struct program *program;
    const struct prediction *prediction;
    double unit; /* seconds of one column: the shortest action that takes time at all */
    int columns; /* of the whole step */
    int *local;  /* [chunks] 0, 1, ...: which of its rank's chunks it is, owned */
    int locals;  /* the most chunks of a rank */
    int label;   /* characters of the longest label */
    size_t boxes;
};
void drawing_make(
    struct drawing *drawing, const struct program *program, const struct prediction *prediction);
void drawing_free(struct drawing *drawing);
/* "F3b": kind, microbatch, and of several chunks a rank which one, a being the first. */
enum { DRAWING_LABEL = 32 };
void drawing_label(const struct drawing *drawing, struct compute compute, char label[DRAWING_LABEL]);
/* Red, green, blue (0 to 255): one colour a kind, lighter from chunk to chunk. */
struct colour {
    int red, green, blue;
};
struct colour drawing_colour(const struct drawing *drawing, enum compute_kind kind, int local);

/* Characters of a line of the picture in text. */
enum { DRAWING_WIDTH = 160 };
int drawing_text_width(const struct drawing *drawing);
void drawing_text(const struct drawing *drawing, bool coloured, struct text *out);
/* False with one line in *error where there are more boxes than a viewer can show. */
bool drawing_svg(const struct drawing *drawing, const char *title, struct text *out, struct text *error);
