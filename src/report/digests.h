/* The digest file: one line a step and tensor, text, in order of dataflow.

       # pipeleaf digests 1
       # kind run
       # run ID
       # identity HEX
       # arithmetic vendor, NVIDIA H200, ...            (where it is not portable)
       # recorded 5
       # layers 16 hidden 64 heads 4 ffn 256 sequence 32 microbatches 8 microbatch_size 2 seed 20250101
       # ranks 0 0 1 1 2 2 3 3 0 0 1 1 2 2 3 3          (of each layer, where known)
       4 layers/0012/gradients/attention.qkv.weight f32 [64,192] 91f0c2d4a7b3e816 0d5b... nan=0
   absmax=0x1.8p-3 # end 480

   The last line counts the lines, so that half a file does not look whole. */
#pragma once
#include "report/output.h"

struct digest_file {
    char kind[16], run_id[80], identity[65], arithmetic[256];
    int recorded_step;
    struct model model;
    int *rank_of_layer;         /* [model.layers], owned, or NULL: not known */
    struct tensor_digest *line; /* count of them, sorted by step, then tensor_compare; owned */
    size_t count;
};

/* Sorts in place, by step and then in order of dataflow. */
void digests_sort(struct tensor_digest *line, size_t count);
/* All digests of a step in one word that people can compare by eye: the first 16 digits of the SHA-256 of its
   lines as the digest file has them (grep '^STEP ' digest.txt | sha256sum). line: those of the step, sorted.
 */
void digests_fingerprint(
    const struct model *model, const struct tensor_digest *line, size_t count, char hex[17]);

/* Sorts `line` in place and writes the file (temporary name, then rename). */
void digest_file_write(const char *path, const struct facts *facts, struct tensor_digest *line, size_t count);
/* False with one line in *error: PATH:LINE: what is wrong, or that the end is missing, a line is there twice,
 * ... */
bool digest_file_read(const char *path, struct digest_file *file, struct text *error);
void digest_file_free(struct digest_file *file);
