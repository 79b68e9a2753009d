/* What is computed: the shape of the model, its parameters, and which layers make a chunk. */
#pragma once
#include "base/base.h"

/* The shape of the computation. Tokens of a microbatch: n = microbatch_size * sequence. */
struct model {
    int layers, hidden, heads, ffn, sequence;
    int microbatches, microbatch_size;
    uint64_t seed;
    bool bf16; /* products read operands of 2 bytes, and an element of a message is 2 bytes and not 4 */
};

/* The parameters of a layer in their order everywhere: in memory, in files, in dataflow. */
enum parameter {
    ATTENTION_NORM_GAIN,
    ATTENTION_NORM_BIAS,
    ATTENTION_QKV_WEIGHT,
    ATTENTION_QKV_BIAS,
    ATTENTION_OUTPUT_WEIGHT,
    ATTENTION_OUTPUT_BIAS,
    MLP_NORM_GAIN,
    MLP_NORM_BIAS,
    MLP_UP_WEIGHT,
    MLP_UP_BIAS,
    MLP_DOWN_WEIGHT,
    MLP_DOWN_BIAS,
    PARAMETERS
};

/* "attention.qkv.weight" and so on. */
extern const char *const parameter_name[PARAMETERS];

/* Rows and columns of a parameter: a weight is [in, out] row-major; a vector is [1, length]. */
struct extent {
    size_t rows, columns;
};
struct extent parameter_extent(const struct model *model, enum parameter parameter);

/* Elements of one layer's parameters (each padded to 64 elements, so that all are 256-byte aligned), and
 * where one begins. */
size_t parameters_size(const struct model *model);
size_t parameter_offset(const struct model *model, enum parameter parameter);

/* Tokens of one microbatch, and elements of one boundary tensor [microbatch_size, sequence, hidden]. */
size_t model_tokens(const struct model *model);
size_t boundary_size(const struct model *model);
/* Bytes of a boundary tensor in a message between ranks. */
size_t message_bytes(const struct model *model);
/* Bytes of what products read of a layer's parameters, beside the parameters: their bf16 copy, or 0. */
size_t operands_bytes(const struct model *model);

/* Elements of the loss's denominator: those of out over all microbatches. */
double loss_elements(const struct model *model);

/* Which layers make which chunk: chunk s holds layers first[s] .. first[s+1]-1, so first has chunks+1
 * entries. */
struct partition {
    int chunks;
    int *first;
};

/* Equal shares; where they do not divide, the first layers mod chunks chunks get one more. Or, where
   layers_per_chunk is not NULL, its `chunks` numbers, whose sum must be `layers` (the deck has checked it).
   Free with partition_free. */
struct partition partition_make(int layers, int chunks, const int32_t *layers_per_chunk);
int partition_layers(const struct partition *partition, int chunk);
void partition_free(struct partition *partition);
