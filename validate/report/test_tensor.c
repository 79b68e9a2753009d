/* Names, extents and order of tensors; parameters; the partition into chunks. */
#include "../check.h"
#include "model/tensor.h"
#include <stdlib.h>
#include <string.h>

static const struct model model = {
    .layers = 12000, .hidden = 6, .heads = 2, .ffn = 1, .sequence = 5, .microbatches = 3, .microbatch_size = 2
};

static void names_read_back(void)
{
    const struct tensor all[] = { { TENSOR_ACTIVATION, 12, 5 }, { TENSOR_LOSS, 0, 0 },
        { TENSOR_GRADIENT, 11999, MLP_DOWN_BIAS }, { TENSOR_ACTIVATION_GRADIENT, 0, 0 },
        { TENSOR_PARAMETER, 3, ATTENTION_QKV_WEIGHT }, { TENSOR_INPUT, 0, 7 }, { TENSOR_TARGET, 0, 123456 } };
    const char *const name[] = { "layers/0012/activations/0005", "loss",
        "layers/11999/gradients/mlp.down.bias", "layers/0000/activation_gradients/0000",
        "layers/0003/parameters/attention.qkv.weight", "inputs/0007", "targets/123456" };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char spelled[TENSOR_NAME];
        struct tensor read;
        CHECK(!strcmp(tensor_name(all[i], spelled), name[i]), "%s", spelled);
        CHECK(tensor_parse(name[i], &read) && !memcmp(&read, &all[i], sizeof read), "%s", name[i]);
    }
}

static void other_names_are_refused(void)
{
    const char *const bad[] = { "", "layers", "layers/0001", "layers/1/activations/0001",
        "layers/00001/activations/0001", "layers/0001/activations/0001x", "layers/0001/activations/1",
        "layers/0001/gradients/mlp.up", "layers/0001/gradients/", "layers/0001/inputs/0001", "inputs/0001/",
        "loss/0000", "losses", "layers/-001/activations/0001", "layers/9999999999999/activations/0001",
        "gradients/mlp.up.weight", "layers/0001/activation/0001", " loss" };
    struct tensor tensor;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!tensor_parse(bad[i], &tensor), "'%s'", bad[i]);
}

static void extents_are_those_of_the_files(void)
{
    size_t e[3];
    CHECK(tensor_extents(&model, (struct tensor){ TENSOR_GRADIENT, 0, ATTENTION_QKV_WEIGHT }, e) == 2 &&
              e[0] == 6 && e[1] == 18,
        "qkv");
    CHECK(tensor_extents(&model, (struct tensor){ TENSOR_GRADIENT, 0, MLP_DOWN_WEIGHT }, e) == 2 &&
              e[0] == 1 && e[1] == 6,
        "down, one row");
    CHECK(tensor_extents(&model, (struct tensor){ TENSOR_GRADIENT, 0, MLP_UP_BIAS }, e) == 1 && e[0] == 1,
        "up.bias");
    CHECK(tensor_extents(&model, (struct tensor){ TENSOR_ACTIVATION, 1, 2 }, e) == 3 && e[0] == 2 &&
              e[1] == 5 && e[2] == 6,
        "activation");
    CHECK(tensor_elements(&model, (struct tensor){ TENSOR_INPUT, 0, 0 }) == 60, "input");
    CHECK(tensor_first_index(&model, (struct tensor){ TENSOR_ACTIVATION, 1, 2 }) == 120,
        "the third microbatch begins at 120");
    CHECK(
        tensor_first_index(&model, (struct tensor){ TENSOR_GRADIENT, 1, 2 }) == 0, "a gradient begins at 0");
    for (int i = 0; i < PARAMETERS; i++)
        CHECK(parameter_offset(&model, (enum parameter)i) % 64 == 0, "%s is aligned", parameter_name[i]);
    CHECK(parameters_size(&model) == 13 * 64,
        "eleven parameters of at most 64 elements and one of 108, so %zu", parameters_size(&model));
    CHECK(loss_elements(&model) == 180.0, "3 microbatches of 60");
    CHECK(tensor_exists(&model, (struct tensor){ TENSOR_ACTIVATION, 0, 2 }) &&
              !tensor_exists(&model, (struct tensor){ TENSOR_ACTIVATION, 0, 3 }),
        "microbatches are 0, 1, 2");
}

static void order_is_that_of_dataflow(void)
{
    const struct tensor ascending[] = { { TENSOR_INPUT, 0, 1 }, { TENSOR_PARAMETER, 0, 0 },
        { TENSOR_ACTIVATION, 0, 0 }, { TENSOR_ACTIVATION, 0, 1 }, { TENSOR_ACTIVATION, 1, 0 },
        { TENSOR_LOSS, 0, 0 }, { TENSOR_GRADIENT, 1, MLP_DOWN_BIAS }, { TENSOR_GRADIENT, 1, MLP_DOWN_WEIGHT },
        { TENSOR_GRADIENT, 1, ATTENTION_NORM_GAIN }, { TENSOR_ACTIVATION_GRADIENT, 1, 0 },
        { TENSOR_ACTIVATION_GRADIENT, 1, 1 }, { TENSOR_GRADIENT, 0, MLP_DOWN_BIAS },
        { TENSOR_ACTIVATION_GRADIENT, 0, 0 } };
    const int count = (int)(sizeof ascending / sizeof ascending[0]);
    for (int a = 0; a < count; a++)
        for (int b = 0; b < count; b++) {
            const int order = tensor_compare(ascending[a], ascending[b]);
            CHECK((order > 0) - (order < 0) == (a > b) - (a < b), "%d against %d", a, b);
        }
}

static void partition_shares_out_all_layers(void)
{
    for (int chunks = 1; chunks <= 9; chunks++)
        for (int layers = 0; layers <= 20; layers++) {
            struct partition p = partition_make(layers, chunks, NULL);
            CHECK(p.first[0] == 0 && p.first[chunks] == layers, "%d layers, %d chunks", layers, chunks);
            for (int s = 0; s < chunks; s++)
                CHECK(partition_layers(&p, s) == layers / chunks + (s < layers % chunks),
                    "%d layers, chunk %d of %d", layers, s, chunks);
            partition_free(&p);
        }
    const int32_t wanted[] = { 0, 3, 1 };
    struct partition p = partition_make(4, 3, wanted);
    for (int s = 0; s < 3; s++) CHECK(partition_layers(&p, s) == wanted[s], "chunk %d", s);
    partition_free(&p);
}

int main(void)
{
    names_read_back();
    other_names_are_refused();
    extents_are_those_of_the_files();
    order_is_that_of_dataflow();
    partition_shares_out_all_layers();
    return check_result();
}
