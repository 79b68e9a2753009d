/* One side of a comparison, whatever it was read from: a sorted list of tensors, each with a digest, data in
 * an HDF5 file, or both. */
#pragma once
#include "report/tensor_file.h"
#include "report/verify.h"

struct entry {
    int step;
    struct tensor tensor;
    bool has_digest;
    struct digest digest;
    int file; /* index of the file that holds the data; -1: none does */
};

struct side {
    char *name;    /* the path, as the user gave it */
    char kind[16]; /* "run" or "reference" */
    char run_id[80], identity[65];
    char arithmetic[256]; /* "": not known */
    int recorded_step;
    struct model model;
    int *rank_of_layer; /* owned; NULL: not known */
    char *deck;         /* the effective deck; NULL: not known */
    bool known;         /* the above were set by a first source */
    bool has_digests;
    struct tensor_file **file;
    int files;
    struct entry *entry; /* [count] sorted by step, then dataflow, each once */
    size_t count;
    bool skims;           /* files are opened for what they say of themselves; their tensors are not listed */
    struct text problems; /* a line each; with any the side never passes */
};

/* What a source of the side says of itself. The first one speaks for the side; where a later one differs that
   is a problem, and false where its tensors cannot be told from those of another computation. */
bool side_adopt(struct side *side, const struct facts *facts, const char *source);
void side_problem(struct side *side, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Add the tensors of a source. False with one line in *error. PATH is read. */
bool side_add_digest_file(struct side *side, const char *path, struct text *error);
bool side_add_hdf5(struct side *side, const char *path, const struct tensor_file **added, struct text *error);

/* A run's directory with its digests and what all its files say of themselves, and all problems of these, but
   without a list of the tensors in the files. False with one line in *error: it holds no run. */
bool side_skim(struct side **side, const char *directory, struct text *error);

/* Adds the files of an output directory, those of a run or those of a reference. */
bool side_add_directory(struct side *side, const char *path, const char *role, struct text *error);

/* The value of a parameter in the side's deck ("activations" -> "full"), into a buffer; false where it is not
 * known. */
bool side_deck_value(const struct side *side, const char *parameter, char *value, size_t size);

/* The rank that held an entry, or -1: not known. */
int side_rank(const struct side *side, const struct entry *entry);
