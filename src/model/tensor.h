/* The tensors that a run can report, by name: the one place that spells them. */
#pragma once
#include "device/device.h"
#include "model/model.h"

enum tensor_class {
    TENSOR_ACTIVATION,          /* layers/LLLL/activations/MMMM: the layer's output, one microbatch */
    TENSOR_LOSS,                /* loss: the step's, one number */
    TENSOR_GRADIENT,            /* layers/LLLL/gradients/NAME: of a parameter, all microbatches */
    TENSOR_ACTIVATION_GRADIENT, /* layers/LLLL/activation_gradients/MMMM: of the layer's input */
    TENSOR_PARAMETER,           /* layers/LLLL/parameters/NAME */
    TENSOR_INPUT,               /* inputs/MMMM */
    TENSOR_TARGET,              /* targets/MMMM */
    TENSOR_CLASSES
};
extern const char *const tensor_class_name[TENSOR_CLASSES]; /* "activations", "loss", "gradients", ... */

/* Layer 0..L-1 (0 where the class has none); index: the parameter, or the microbatch (0 for the loss). */
struct tensor {
    enum tensor_class class;
    int layer, index;
};

enum { TENSOR_NAME = 96 };
/* "layers/0012/gradients/attention.qkv.weight": four digits, more where a number needs them. */
const char *tensor_name(struct tensor tensor, char name[TENSOR_NAME]);
/* The reverse; false where the text is no tensor's name (all of it must match). */
bool tensor_parse(const char *name, struct tensor *tensor);

/* Whether this model has such a tensor: its layer, microbatch and parameter are in range. */
bool tensor_exists(const struct model *model, struct tensor tensor);

/* Extents as stored: weights [in, out], vectors [length], boundary tensors [microbatch_size, sequence,
 * hidden], the loss [1]. Returns the rank. */
int tensor_extents(const struct model *model, struct tensor tensor, size_t extents[3]);
size_t tensor_elements(const struct model *model, struct tensor tensor);

/* The index of element 0 in the tensor of the whole batch: boundary tensors count over all microbatches (so
   that digests of any split of the same sequences add up to the same), all others begin at 0. */
uint64_t tensor_first_index(const struct model *model, struct tensor tensor);

/* Order of dataflow: activations by layer and microbatch, the loss, then for each layer from the last to the
   first its parameters' gradients (last parameter first) and then the gradients of its input. <0, 0, >0 as
   for qsort. */
int tensor_compare(struct tensor a, struct tensor b);

/* One tensor of one step, fingerprinted. Plain data: can be gathered as bytes. */
struct tensor_digest {
    int32_t step;
    struct tensor tensor;
    struct digest digest;
};
