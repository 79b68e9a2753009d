#include "model/model.h"

const char *const parameter_name[PARAMETERS] = {
    [ATTENTION_NORM_GAIN] = "attention.norm.gain",
    [ATTENTION_NORM_BIAS] = "attention.norm.bias",
    [ATTENTION_QKV_WEIGHT] = "attention.qkv.weight",
    [ATTENTION_QKV_BIAS] = "attention.qkv.bias",
    [ATTENTION_OUTPUT_WEIGHT] = "attention.output.weight",
    [ATTENTION_OUTPUT_BIAS] = "attention.output.bias",
    [MLP_NORM_GAIN] = "mlp.norm.gain",
    [MLP_NORM_BIAS] = "mlp.norm.bias",
    [MLP_UP_WEIGHT] = "mlp.up.weight",
    [MLP_UP_BIAS] = "mlp.up.bias",
    [MLP_DOWN_WEIGHT] = "mlp.down.weight",
    [MLP_DOWN_BIAS] = "mlp.down.bias",
};

struct extent parameter_extent(const struct model *model, enum parameter parameter)
{
    const size_t h = (size_t)model->hidden, f = (size_t)model->ffn;
    const struct extent extent[PARAMETERS] = {
        [ATTENTION_NORM_GAIN] = { 1, h },
        [ATTENTION_NORM_BIAS] = { 1, h },
        [ATTENTION_QKV_WEIGHT] = { h, 3 * h },
        [ATTENTION_QKV_BIAS] = { 1, 3 * h },
        [ATTENTION_OUTPUT_WEIGHT] = { h, h },
        [ATTENTION_OUTPUT_BIAS] = { 1, h },
        [MLP_NORM_GAIN] = { 1, h },
        [MLP_NORM_BIAS] = { 1, h },
        [MLP_UP_WEIGHT] = { h, f },
        [MLP_UP_BIAS] = { 1, f },
        [MLP_DOWN_WEIGHT] = { f, h },
        [MLP_DOWN_BIAS] = { 1, h },
    };
    return extent[parameter];
}

/* Elements up to the next 256-byte boundary. */
static size_t padded(const struct model *model, enum parameter parameter)
{
    const struct extent extent = parameter_extent(model, parameter);
    return (checked_product(extent.rows, extent.columns, parameter_name[parameter]) + 63) / 64 * 64;
}

size_t parameters_size(const struct model *model)
{
    return parameter_offset(model, PARAMETERS);
}

size_t parameter_offset(const struct model *model, enum parameter parameter)
{
    size_t offset = 0;
    for (int i = 0; i < (int)parameter; i++) offset += padded(model, (enum parameter)i);
    return offset;
}

size_t model_tokens(const struct model *model)
{
    return checked_product((size_t)model->microbatch_size, (size_t)model->sequence, "tokens of a microbatch");
}

size_t boundary_size(const struct model *model)
{
    return checked_product(model_tokens(model), (size_t)model->hidden, "elements of a layer's output");
}

double loss_elements(const struct model *model)
{
    return (double)model->microbatches * (double)boundary_size(model);
}

size_t message_bytes(const struct model *model)
{
    const size_t bytes = boundary_size(model) * (model->bf16 ? 2 : sizeof(float));
    return (bytes + 3) / 4 * 4; /* whole 32-bit words: what MPI takes */
}

size_t operands_bytes(const struct model *model)
{
    return model->bf16 ? parameters_size(model) * 2 : 0;
}
