/* An HDF5 file of tensors, open for reading: what is in it, and its numbers block by block, so that memory
   does not grow with the tensors. */
#pragma once
#include "report/output.h"

struct tensor_file {
    char *path;
    struct facts facts;    /* owned */
    struct tensor *tensor; /* [count] in the order of the names */
    size_t count;
    char *
        *stranger; /* [strangers] names of data sets below layers/, inputs/, targets/ that are no tensor's */
    size_t strangers;
    char **linked; /* [links] paths of the files that external links lead to, each once */
    size_t links;
    int64_t file;    /* HDF5's handles */
    int64_t dataset; /* of `open`; -1: none */
    struct tensor open;
};

/* Opens PATH and lists its tensors. Each has the type and the extents that its name and the model ask for.
   False with one line in *error. */
bool tensor_file_open(struct tensor_file **file, const char *path, struct text *error);
/* The same without the list: for whoever knows what must be there, and asks for it by name. */
bool tensor_file_open_unlisted(struct tensor_file **file, const char *path, struct text *error);
/* Whether the file holds the tensor: false, with one line in *error where what is there has other extents or
   cannot be read, and none where it is missing. */
bool tensor_file_has(struct tensor_file *file, struct tensor tensor, struct text *error);
/* What arrived at the rank's chunks, in the order of its program; owned by the caller. NULL: none is
 * recorded. */
struct arrival *tensor_file_arrivals(struct tensor_file *file, size_t *count);
void tensor_file_close(struct tensor_file *file);

/* How many elements, from element `first` on, make the next block; 0 at the end. At most TENSOR_BLOCK, or one
 * row. */
enum { TENSOR_BLOCK = 1 << 20 };
size_t tensor_block(const struct model *model, struct tensor tensor, size_t first);
/* The most that tensor_block can say of this tensor: the size of the buffer. */
size_t tensor_block_limit(const struct model *model, struct tensor tensor);

/* Reads `count` elements, as tensor_block said for `first`. False with one line in *error. */
bool tensor_file_read(struct tensor_file *file, struct tensor tensor, size_t first, size_t count, float *data,
    struct text *error);
