/* PyTorch's pipelining CSV, for the three files that read and write it. */
#pragma once
#include "schedule/schedule.h"

/* The first four are compute kinds, by the same numbers. */
enum csv_code {
    CSV_F = COMPUTE_F,
    CSV_B = COMPUTE_B,
    CSV_I = COMPUTE_I,
    CSV_W = COMPUTE_W,
    CSV_SEND_F,
    CSV_RECV_F,
    CSV_SEND_B,
    CSV_RECV_B,
    CSV_UNSHARD,
    CSV_RESHARD,
    CSV_REDUCE_GRAD,
    CSV_CODES
};

/* The name of a code in a dialect, or NULL where the dialect has none. */
const char *csv_name(enum csv_code code, enum csv_dialect dialect);

struct csv_action {
    enum csv_code code;
    int stage, microbatch; /* microbatch -1: UNSHARD, RESHARD and REDUCE_GRAD have none */
    int row, column;       /* of its cell, from 0 */
};

/* All actions of a file in the order in which they stand there, row by row. */
struct csv_file {
    const char *path;
    enum csv_dialect dialect;
    struct csv_action *actions; /* owned */
    size_t count, capacity;
    int *cells; /* [rows] of each row; owned */
    int rows;
    bool communicates;           /* it has more than computes */
    int empty_row, empty_column; /* the first empty cell; -1: none */
};

/* Splits the text into actions. False with "PATH:ROW:COLUMN: ..." in *error, rows and columns of cells
   counted from 1. Free with csv_free in either case. */
bool csv_parse(struct csv_file *file, const char *path, const char *text, size_t length,
    enum csv_dialect dialect, int microbatches, struct text *error);
void csv_free(struct csv_file *file);

/* Appends "PATH:ROW:COLUMN: ", row and column from 0 here. */
void csv_place(const struct csv_file *file, int row, int column, struct text *out);

/* Appends the action as a cell of this dialect. */
void csv_add(struct text *out, enum csv_code code, int stage, int microbatch, enum csv_dialect dialect);
