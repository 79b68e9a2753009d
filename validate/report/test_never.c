/* What never passes: a side of which something is missing, mixed, left over, empty or not a number; each is
 * called by its name. */
#include "verdict.h"
#include <math.h>
#include <unistd.h>

static void nothing_is_proved_by_itself(void)
{
    const char *d = made_usual("itself");
    EXPECT(NOT_PERFORMED, in(d, "digest.txt"), in(d, "run.h5"), "both sides are of the same run");
    EXPECT(NOT_PERFORMED, in(d, "reference.h5"), in(d, "reference.h5"), "both sides are of the same run");
}

/* A rank file alone holds half of the layers. */
static void part_of_a_run_never_passes(void)
{
    const char *d = made_usual("part");
    EXPECT(UNSUCCESSFUL, in(d, "rank00001.h5"), d,
        "missing in the run: step 3, layers/0002/gradients/mlp.down.bias");
    unlink(in(d, "rank00001.h5"));
    EXPECT(UNSUCCESSFUL, d, d, "rank00001.h5 is missing: the run had 2 ranks");
    CHECK(says("rank00001.h5 is missing: result.json lists it"), "%s", told.data);
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), d, "rank00001.h5' is missing");
    /* The digests of such a run are whole and right; it still does not pass. */
    CHECK(compare(in(d, "digest.txt"), d) == SUCCESSFUL, "%s", told.data);
}

static bool skip_one_gradient(int step, struct tensor tensor)
{
    return step == 3 && tensor.class == TENSOR_GRADIENT && tensor.layer == 1 &&
           tensor.index == ATTENTION_QKV_BIAS;
}

static bool skip_one_activation(int step, struct tensor tensor)
{
    return step == 2 && tensor.class == TENSOR_ACTIVATION && tensor.layer == 1 && tensor.index == 2;
}

static bool skip_activation_layer(int step, struct tensor tensor)
{
    return step == 3 && tensor.class == TENSOR_ACTIVATION && tensor.layer == 1;
}

static bool skip_everything(int step, struct tensor tensor)
{
    (void)step, (void)tensor;
    return true;
}

static void missing_tensors_are_named(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    run.skip = skip_one_gradient;
    const char *d = made("missing", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, d, "missing in the run: step 3, layers/0001/gradients/attention.qkv.bias\n");
    CHECK(says("compared 47 of 48 gradient tensors"), "%s", told.data);
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.digest"),
        "missing in the run: step 3, layers/0001/gradients/attention.qkv.bias\n");
    EXPECT(UNSUCCESSFUL, in(d, "reference.digest"), in(d, "digest.txt"),
        "missing in the reference: step 3, layers/0001/gradients/attention.qkv.bias\n");
    /* Missing on both sides is missing still. */
    reference.skip = skip_one_gradient;
    d = made("missing", &run, &reference);
    EXPECT(
        UNSUCCESSFUL, d, d, "missing in the reference: step 3, layers/0001/gradients/attention.qkv.bias\n");
    reference.skip = NULL;
    run.skip = skip_one_activation;
    d = made("missing", &run, &reference);
    EXPECT(
        UNSUCCESSFUL, in(d, "digest.txt"), d, "missing in the run: step 2, layers/0001/activations/0002\n");
    run.skip = skip_activation_layer;
    d = made("missing", &run, &reference);
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), d, "missing in the run: step 3, layers/0001/activations/0000; ");
    CHECK(says("and 1 more"), "%s", told.data);
}

static void empty_sides_never_pass(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    run.skip = skip_everything;
    const char *d = made("empty", &run, &reference);
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), d, "missing in the run");
    EXPECT(NOT_PERFORMED, in(d, "digest.txt"), in(d, "reference.digest"), "nothing is proved");
    reference.skip = skip_everything;
    d = made("empty", &run, &reference);
    CHECK(compare(d, d) != SUCCESSFUL, "nothing against nothing: %s", told.data);
    CHECK(compare(in(d, "digest.txt"), in(d, "reference.digest")) == NOT_PERFORMED,
        "nothing against nothing: %s", told.data);
    run = usual("", "run");
    run.gradients = "none";
    reference = usual("", "reference");
    d = made("empty", &run, &reference);
    EXPECT(NOT_PERFORMED, d, d, "not compared: gradients: the run has none");
}

static void strangers_never_pass(void)
{
    const char *d = made_usual("strangers");
    char extra[600];
    snprintf(extra, sizeof extra, "cp %s %s", in(d, "rank00001.h5"), in(d, "rank00002.h5"));
    CHECK(system(extra) == 0, "%s", extra);
    EXPECT(UNSUCCESSFUL, d, d, "rank00002.h5 says that it is of rank 1 of 2");
    set_int(in(d, "rank00002.h5"), "rank", 2);
    EXPECT(UNSUCCESSFUL, d, d, "rank00002.h5 says that it is of rank 2 of 2");
    unlink(in(d, "rank00002.h5"));
    CHECK(compare(d, d) == SUCCESSFUL, "%s", told.data);
    struct making again = usual(d, "run");
    make_output(&again);
    move_dataset(in(d, "rank00001.h5"), "layers/0001/activations/0003", "layers/0001/activations/0004");
    EXPECT(UNSUCCESSFUL, d, d, "holds 'layers/0001/activations/0004', which is no tensor of this model");
    make_output(&again);
    replace_dataset(in(d, "rank00001.h5"), "layers/0001/gradients");
    EXPECT(UNSUCCESSFUL, d, d, "holds 'layers/0001/gradients', which is no tensor of this model");
    make_output(&again);
    FILE *part = fopen(in(d, "rank00001.h5.part"), "w");
    if (part) fclose(part);
    EXPECT(UNSUCCESSFUL, d, d, "rank00001.h5.part is there");
    unlink(in(d, "rank00001.h5.part"));
    snprintf(extra, sizeof extra, "cp %s %s", in(d, "run.h5"), in(d, "reference.h5.part"));
    CHECK(system(extra) == 0, "%s", extra);
    EXPECT(UNSUCCESSFUL, d, d, "reference: reference.h5.part is there");
}

static void mixed_runs_never_pass(void)
{
    const char *d = made_usual("mixed");
    set_string(in(d, "rank00001.h5"), "run_id", "run-2");
    EXPECT(UNSUCCESSFUL, d, d, "files of different runs");
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), d, "files of different runs");
    d = made_usual("mixed");
    set_string(in(d, "rank00000.h5"), "identity", "another");
    EXPECT(UNSUCCESSFUL, d, d, "files of different computations");
    struct making other = usual(d, "reference");
    other.identity = "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    make_output(&other);
    EXPECT(
        UNSUCCESSFUL, in(d, "digest.txt"), d, "files of different computations: the run's identity is 0123");
    /* result.json of one run, files of another. */
    d = made_usual("mixed");
    struct making again = usual(fresh_directory("mixed_again"), "run");
    again.run_id = "run-2";
    make_output(&again);
    char copy[600];
    snprintf(copy, sizeof copy, "cp mixed_again/result.json %s", in(d, "result.json"));
    CHECK(system(copy) == 0, "%s", copy);
    EXPECT(UNSUCCESSFUL, d, d, "result.json is of run run-2");
}

static void put_nan(int step, struct tensor tensor, uint64_t first, float *data, size_t count)
{
    (void)first, (void)count;
    if (step == 3 && tensor.class == TENSOR_GRADIENT && tensor.layer == 2 && tensor.index == MLP_UP_BIAS)
        data[4] = NAN;
}

static void put_nan_early(int step, struct tensor tensor, uint64_t first, float *data, size_t count)
{
    (void)first, (void)count;
    if (step == 1 && tensor.class == TENSOR_LOSS) data[0] = NAN;
}

static void put_nan_in_parameter(int step, struct tensor tensor, uint64_t first, float *data, size_t count)
{
    (void)first, (void)count;
    if (step == 3 && tensor.class == TENSOR_PARAMETER && tensor.layer == 0 && tensor.index == 0)
        data[0] = -NAN;
}

static void nan_never_passes(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    run.change = reference.change = put_nan;
    const char *d = made("nan", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, d,
        "NaN in 1 tensor of the run, the first: step 3, layers/0002/gradients/mlp.up.bias");
    CHECK(says("NaN in 1 tensor of the reference"), "%s", told.data);
    EXPECT(UNSUCCESSFUL, in(d, "digest.txt"), in(d, "reference.digest"), "NaN in 1 tensor of the run");
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"), "NaN in 1 tensor of the run");
    run.change = reference.change = put_nan_early;
    d = made("nan", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, d, "step 1, loss");
    /* Where nothing is compared with it, too. */
    run.change = put_nan_in_parameter;
    reference.change = NULL;
    d = made("nan", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, in(d, "reference.digest"),
        "NaN in 1 tensor of the run, the first: step 3, layers/0000/parameters/attention.norm.gain");
}

static void bad_files_are_refused(void)
{
    const char *d = made_usual("bad");
    const char *const path[] = { "no_such_file", in(d, "result.json"), fresh_directory("bad_empty") };
    const char *const words[] = { "cannot open 'no_such_file'",
        "is no output directory, HDF5 file or digest file", "holds no output of pipeleaf" };
    for (int i = 0; i < 3; i++) EXPECT(-1, path[i], d, words[i]);
    remove_dataset(in(d, "rank00001.h5"), "timings");
    EXPECT(SUCCESSFUL, d, d, "compared 48 of 48"); /* timings prove nothing */
    replace_dataset(in(d, "rank00001.h5"), "layers/0001/gradients/mlp.up.bias");
    EXPECT(-1, d, d, "layers/0001/gradients/mlp.up.bias must be f32 [16]");
    replace_dataset(in(d, "rank00000.h5"), "layers/0000/gradients/mlp.up.weight");
    EXPECT(-1, d, d, "layers/0000/gradients/mlp.up.weight must be f32 [8,16]");
}

int main(void)
{
    nothing_is_proved_by_itself();
    part_of_a_run_never_passes();
    missing_tensors_are_named();
    empty_sides_never_pass();
    strangers_never_pass();
    mixed_runs_never_pass();
    nan_never_passes();
    bad_files_are_refused();
    text_free(&told);
    return check_result();
}
