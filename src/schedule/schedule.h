/* Who computes what, in which order. A generator (one file each) yields each rank's order of compute actions;
   it knows nothing of messages or memory: program.h adds those. Chunks are numbered 0..chunks-1 over the
   whole model. */
#pragma once
#include "base/base.h"

/* Kinds of compute. I and W are the two halves of B: gradient of the input, gradient of the weights. */
enum compute_kind { COMPUTE_F, COMPUTE_B, COMPUTE_I, COMPUTE_W, COMPUTE_KINDS };
extern const char compute_letter[COMPUTE_KINDS + 1]; /* "FBIW" */

struct compute {
    enum compute_kind kind;
    int chunk, microbatch;
};

struct schedule {
    int ranks, chunks, microbatches;
    int group;              /* the group size N that was used (0 where the schedule has none) */
    int *rank_of;           /* [chunks] placement: the rank that holds a chunk */
    struct compute **order; /* [ranks] the rank's actions, count[rank] of them; owned */
    int *count;             /* [ranks] */
};

/* Names of the schedules, in the order in which they are listed, ending with NULL. */
extern const char *const schedule_names[];

/* Makes schedule NAME for `ranks` ranks with chunks_per_rank chunks each and `microbatches` microbatches;
   group 0 lets the schedule choose its group size. False with one line in *error (an unknown name, a case the
   schedule's rule excludes). */
bool schedule_make(struct schedule *schedule, const char *name, int ranks, int chunks_per_rank,
    int microbatches, int group, struct text *error);
void schedule_free(struct schedule *schedule);

/* A schedule from PyTorch's pipelining CSV (csv_cells.c says the grammar): one row a rank. ranks,
   microbatches: what the deck says; the file must agree. Every cell must match in full; duplicates, missing
   actions, a stage in two rows and trailing junk are refused with row and column. Sends and receives, where
   the file has them, must pair up; the lowering then makes its own. */
enum csv_dialect {
    CSV_CURRENT, /* B is the full backward, I the input's gradient, W the weights' */
    CSV_OLDER    /* BW is the full backward, B the input's gradient, W the weights' */
};
bool schedule_read_csv(struct schedule *schedule, const char *path, const char *text, size_t length,
    enum csv_dialect dialect, int ranks, int microbatches, struct text *error);

/* Whether NAME's backward is split into I and W, and the chunks a rank must have (0: any; so too of a name
   that is not in schedule_names). */
struct schedule_traits {
    bool splits_backward;
    int chunks_per_rank;
};
struct schedule_traits schedule_traits(const char *name);

/* The bubble in both usual forms, from the closed form for chunks of equal time and free communication, where
   the backward is split with F, I and W of equal length; NaN where none is known (interleaved-1f1b: p must
   divide m; looped-bfs, zb-h1, interleaved-zb: m >= p; zb-v: m >= 2p-1). */
struct bubble {
    double
        over_ideal; /* idle / ideal compute: (p-1)/(m v), and a third of that where the backward is split */
    double of_step; /* idle / whole step: (p-1)/(m v + p-1), (p-1)/(3 m v + p-1) */
};
struct bubble schedule_bubble(const char *name, int ranks, int chunks_per_rank, int microbatches);
