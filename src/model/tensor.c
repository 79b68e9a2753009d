#include "model/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const tensor_class_name[TENSOR_CLASSES] = {
    [TENSOR_ACTIVATION] = "activations",
    [TENSOR_LOSS] = "loss",
    [TENSOR_GRADIENT] = "gradients",
    [TENSOR_ACTIVATION_GRADIENT] = "activation_gradients",
    [TENSOR_PARAMETER] = "parameters",
    [TENSOR_INPUT] = "inputs",
    [TENSOR_TARGET] = "targets",
};

/* How a class is named, what its index counts, and where it comes in the flow of data. */
static const struct {
    bool in_layer;     /* the name begins with layers/LLLL/ */
    bool of_parameter; /* the index is an enum parameter; else a microbatch, or nothing for the loss */
    int phase;
    int layer_order, index_order; /* +1: ascending; -1: descending */
} class_rule[TENSOR_CLASSES] = {
    [TENSOR_INPUT] = { false, false, 0, 1, 1 },
    [TENSOR_TARGET] = { false, false, 1, 1, 1 },
    [TENSOR_PARAMETER] = { true, true, 2, 1, 1 },
    [TENSOR_ACTIVATION] = { true, false, 3, 1, 1 },
    [TENSOR_LOSS] = { false, false, 4, 1, 1 },
    /* Backward: both classes share a phase, since they alternate from layer to layer. */
    [TENSOR_GRADIENT] = { true, true, 5, -1, -1 },
    [TENSOR_ACTIVATION_GRADIENT] = { true, false, 5, -1, 1 },
};

const char *tensor_name(struct tensor tensor, char name[TENSOR_NAME])
{
    const char *class = tensor_class_name[tensor.class];
    if (tensor.class == TENSOR_LOSS)
        snprintf(name, TENSOR_NAME, "%s", class);
    else if (!class_rule[tensor.class].in_layer)
        snprintf(name, TENSOR_NAME, "%s/%04d", class, tensor.index);
    else if (class_rule[tensor.class].of_parameter)
        snprintf(name, TENSOR_NAME, "layers/%04d/%s/%s", tensor.layer, class, parameter_name[tensor.index]);
    else
        snprintf(name, TENSOR_NAME, "layers/%04d/%s/%04d", tensor.layer, class, tensor.index);
    return name;
}

/* Digits at *text, which moves past them; false where there are none or more than an int holds. */
static bool read_number(const char **text, int *number)
{
    if (**text < '0' || **text > '9') return false;
    char *end;
    const long value = strtol(*text, &end, 10);
    if (end - *text > 9) return false;
    *number = (int)value;
    *text = end;
    return true;
}

static bool read_index(const char *text, enum tensor_class class, int *index)
{
    if (!class_rule[class].of_parameter) return read_number(&text, index);
    for (int i = 0; i < PARAMETERS; i++)
        if (!strcmp(text, parameter_name[i])) {
            *index = i;
            return true;
        }
    return false;
}

bool tensor_parse(const char *name, struct tensor *tensor)
{
    static const char prefix[] = "layers/";
    struct tensor found = { TENSOR_LOSS, 0, 0 };
    const char *at = name;
    const bool in_layer = !strncmp(at, prefix, sizeof prefix - 1);
    if (in_layer) {
        at += sizeof prefix - 1;
        if (!read_number(&at, &found.layer) || *at++ != '/') return false;
    }
    for (int c = 0; c < TENSOR_CLASSES; c++) {
        const size_t length = strlen(tensor_class_name[c]);
        if (class_rule[c].in_layer != in_layer || strncmp(at, tensor_class_name[c], length)) continue;
        found.class = (enum tensor_class)c;
        if (c != TENSOR_LOSS &&
            (at[length] != '/' || !read_index(at + length + 1, found.class, &found.index)))
            continue;
        /* Whatever was left unread, and any other spelling of the numbers, shows here. */
        char again[TENSOR_NAME];
        if (strcmp(tensor_name(found, again), name)) continue;
        *tensor = found;
        return true;
    }
    return false;
}

bool tensor_exists(const struct model *model, struct tensor tensor)
{
    if (tensor.class == TENSOR_LOSS) return tensor.layer == 0 && tensor.index == 0;
    const int indices = class_rule[tensor.class].of_parameter ? PARAMETERS : model->microbatches;
    const int layers = class_rule[tensor.class].in_layer ? model->layers : 1;
    return tensor.layer >= 0 && tensor.layer < layers && tensor.index >= 0 && tensor.index < indices;
}

int tensor_extents(const struct model *model, struct tensor tensor, size_t extents[3])
{
    if (tensor.class == TENSOR_LOSS) {
        extents[0] = 1;
        return 1;
    }
    if (class_rule[tensor.class].of_parameter) {
        /* A weight is a matrix even where it has one row: the name tells. */
        const char *name = parameter_name[tensor.index];
        const bool weight = !strcmp(name + strlen(name) - strlen("weight"), "weight");
        const struct extent extent = parameter_extent(model, (enum parameter)tensor.index);
        extents[0] = weight ? extent.rows : extent.columns;
        extents[1] = extent.columns;
        return weight ? 2 : 1;
    }
    extents[0] = (size_t)model->microbatch_size;
    extents[1] = (size_t)model->sequence;
    extents[2] = (size_t)model->hidden;
    return 3;
}

size_t tensor_elements(const struct model *model, struct tensor tensor)
{
    size_t extents[3], elements = 1;
    const int rank = tensor_extents(model, tensor, extents);
    for (int i = 0; i < rank; i++) elements = checked_product(elements, extents[i], "elements of a tensor");
    return elements;
}

uint64_t tensor_first_index(const struct model *model, struct tensor tensor)
{
    if (tensor.class == TENSOR_LOSS || class_rule[tensor.class].of_parameter) return 0;
    return (uint64_t)tensor.index * boundary_size(model);
}

static int ordered(int a, int b, int order)
{
    return a == b ? 0 : (a < b) == (order > 0) ? -1 : 1;
}

int tensor_compare(struct tensor a, struct tensor b)
{
    int difference = ordered(class_rule[a.class].phase, class_rule[b.class].phase, 1);
    if (!difference) difference = ordered(a.layer, b.layer, class_rule[a.class].layer_order);
    if (!difference)
        difference = ordered((int)a.class, (int)b.class, 1); /* gradients before activation gradients */
    if (!difference) difference = ordered(a.index, b.index, class_rule[a.class].index_order);
    return difference;
}
