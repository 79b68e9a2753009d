/* What a run left in its directory, for whoever computes it again: first what its files say of themselves,
   its digests, who held what; then its tensors, one at a time, from whichever rank's file holds them. */
#pragma once
#include "report/tensor_file.h"

/* Who computed a rank's chunks, or computes them again. Plain data: can be sent as bytes. */
struct computed_by {
    char host[128], device[160], uuid[48]; /* uuid: of a GPU, else "" */
};

/* Plain data: can be sent as bytes. */
struct recorded_facts {
    char run_id[80], identity[65], arithmetic[256];
    int ranks, chunks_per_rank, recorded_step;
    struct model model;
};

struct recorded {
    struct recorded_facts facts;
    char *deck;                 /* the effective deck */
    struct computed_by *by;     /* [ranks] */
    int *rank_of_layer;         /* [layers] */
    struct tensor_digest *line; /* [lines] of the recorded step, in order of dataflow */
    size_t lines;
    struct text problems; /* a line each: with any the run never passes, and the rest may be unusable */
};

/* False with one line in *error where there is no run that can be read. Free with recorded_free. */
bool recorded_read(struct recorded *recorded, const char *directory, struct text *error);
void recorded_free(struct recorded *recorded);
/* The digest of a tensor of the recorded step; NULL: the run has none. */
const struct digest *recorded_digest(const struct recorded *recorded, struct tensor tensor);
/* The rank of each of `chunks` chunks that has -1, from what the ranks' files say has arrived there. False
   with one line in *error; a chunk that nothing arrived at stays -1. */
bool recorded_place(const char *directory, int ranks, int chunks, int *rank_of, struct text *error);

/* The ranks' files, opened when first asked for. */
struct rank_files;
struct rank_files *rank_files_create(const char *directory, const struct recorded_facts *facts);
/* NULL with one line in *error: it cannot be opened, or is not that run's any more. */
struct tensor_file *rank_files_get(struct rank_files *files, int rank, struct text *error);
/* Closes what is open. */
void rank_files_rest(struct rank_files *files);
void rank_files_free(struct rank_files *files);
