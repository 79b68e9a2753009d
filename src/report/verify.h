/* The verdict: two sides compared bit for bit. A check that was not made is never a pass. */
#pragma once
#include "report/digests.h"

enum verdict { SUCCESSFUL, UNSUCCESSFUL, NOT_PERFORMED };
extern const char *const verdict_text[]; /* "SUCCESSFUL", ... */

/* A side: an output directory, an HDF5 file (rank file, run.h5, reference.h5) or a digest file. */
struct side;
/* role: "run" or "reference": which of the two a directory that holds both stands for. False with one line in
 * *error. */
bool side_open(struct side **side, const char *path, const char *role, struct text *error);
/* A side from lines in memory (the run that has just finished), named `name` in messages. Borrowed, not
 * owned. */
struct side *side_of_lines(
    const struct facts *facts, const struct tensor_digest *line, size_t count, const char *name);
/* "run" or "reference": which of the two made the side's files. */
const char *side_kind(const struct side *side);
void side_close(struct side *side);

/* Compares. Appends the explanation to *out, lines ready to print: what was compared ("compared 96 of 96
   gradient tensors ..."), and on a difference the first tensor in dataflow order, how many tensors and
   elements differ, the first element's index, both words in hexadecimal, their XOR, the distance in ULP. */
enum verdict verify(struct side *run, struct side *reference, struct text *out);
/* The same; *rank: the rank of the run that holds the first tensor that differs, -1 where none does or it is
 * not known. */
enum verdict verify_and_locate(struct side *run, struct side *reference, struct text *out, int *rank);

/* The shipped digest file for this identity in the folder of references (PIPELEAF_REFERENCE, else that of the
   source or installation), or false where there is none. */
bool reference_find(const char *identity, struct text *path);
