/* The verdict: what is equal passes, in every pairing; one flipped bit is found at the place where it was
 * put. */
#include "device/arithmetic.h"
#include "report/compare.h"
#include "verdict.h"
#include <sys/wait.h>
#include <unistd.h>

static void equal_sides_pass_in_every_pairing(void)
{
    const char *d = made_usual("equal");
    const char *runs[] = { d, in(d, "run.h5"), in(d, "digest.txt") },
               *references[] = { d, in(d, "reference.h5"), in(d, "reference.digest") };
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            const bool digests = a == 2 || b == 2;
            EXPECT(SUCCESSFUL, runs[a], references[b],
                digests
                    ? "compared 48 of 48 gradient tensors of the recorded step 3: 0 in full, 48 by digest"
                    : "compared 48 of 48 gradient tensors of the recorded step 3: 48 in full, 0 by digest");
            CHECK(says("compared 16 of 16 activation tensors"), "%s", told.data);
            CHECK(says("of 2 other steps") == (a != 1 && b != 1),
                "digests of all steps, data of the recorded one: %s", told.data);
        }
    compare(d, in(d, "reference.h5"));
    CHECK(says("not compared: loss: the reference has none"), "%s", told.data);
}

static void flipped_bit_is_found(void)
{
    const char *d = made_usual("flipped");
    flip_bit(in(d, "rank00001.h5"), "layers/0003/gradients/mlp.up.weight", 77, 3);
    flip_bit(in(d, "rank00000.h5"), "layers/0002/gradients/mlp.up.weight", 5, 0);
    /* Against full data: the later layer comes first in backward. */
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"),
        "first difference in dataflow order: step 3, layers/0003/gradients/mlp.up.weight, held by rank 1 of "
        "the run\n");
    CHECK(says("elements that differ: 1 of 128, the first at index 77 = [4,13] of [8,16]"), "%s", told.data);
    CHECK(says("XOR       0x00000008 (bit 3), distance 8 ULP"), "%s", told.data);
    CHECK(says("in all 2 of 136 tensors differ; 2 elements of the 2 compared in full"), "%s", told.data);
    const float right = made_value(3, (struct tensor){ TENSOR_GRADIENT, 3, MLP_UP_WEIGHT }, 77);
    char words[80];
    snprintf(words, sizeof words, "reference 0x%08x  %a  %.9g", (unsigned)pl_bits(right), (double)right,
        (double)right);
    CHECK(says(words), "must say '%s':\n%s", words, told.data);
    snprintf(words, sizeof words, "run       0x%08x", (unsigned)pl_bits(right) ^ 8u);
    CHECK(says(words), "must say '%s':\n%s", words, told.data);
    /* Against digests: the same place. */
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.digest"),
        "layers/0003/gradients/mlp.up.weight, held by rank 1 of the run (by digest)");
    CHECK(says("one changed element explains it: index 77 = [4,13] of [8,16]") &&
              says(": bit 3, if one bit flipped"),
        "%s", told.data);
    /* The directory's own digests are of the data before the flip: that is a fault of its own. */
    EXPECT(UNSUCCESSFUL, d, d,
        "in the run the digest of 2 tensors is not that of the data, the first: step 3, "
        "layers/0003/gradients/mlp.up.weight");
    CHECK(compare(in(d, "digest.txt"), d) == SUCCESSFUL, "the digests alone agree: %s", told.data);
    /* A flipped sign: the distance leads through zero. */
    flip_bit(in(d, "rank00001.h5"), "layers/0003/gradients/mlp.down.bias", 2, 31);
    const unsigned magnitude =
        pl_bits(made_value(3, (struct tensor){ TENSOR_GRADIENT, 3, MLP_DOWN_BIAS }, 2)) & 0x7fffffffu;
    snprintf(words, sizeof words, "XOR       0x80000000 (bit 31), distance %llu ULP", 2ull * magnitude);
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"), words);
}

static void flip_in_step_2(int step, struct tensor tensor, uint64_t first, float *data, size_t count)
{
    const uint64_t element = 161; /* of the batch: in the last microbatch of 4, or of 2 */
    if (step == 2 && tensor.class == TENSOR_ACTIVATION && tensor.layer == 2 && first <= element &&
        element < first + count)
        data[element - first] = pl_float(pl_bits(data[element - first]) ^ 1u << 31);
}

static void differences_of_earlier_steps_are_found_by_digest(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    run.change = flip_in_step_2;
    const char *d = made("earlier", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, d, "step 2, layers/0002/activations/0003, held by rank 0 of the run (by digest)");
    CHECK(says("index 17 = [0,2,1] of [2,3,8]") && says("bit 31, if one bit flipped"), "%s", told.data);
    CHECK(says("in all 1 of 299 tensors differ\n"), "%s", told.data);
}

static void change_two(int step, struct tensor tensor, uint64_t first, float *data, size_t count)
{
    (void)first, (void)count;
    if (step == 3 && tensor.class == TENSOR_GRADIENT && tensor.layer == 0 && tensor.index == MLP_UP_WEIGHT) {
        data[3] += 1.0f;
        data[100] += 1.0f;
    }
}

static void two_changed_elements_are_not_called_one(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    run.change = change_two;
    const char *d = made("two", &run, &reference);
    EXPECT(UNSUCCESSFUL, in(d, "digest.txt"), in(d, "reference.digest"), "no change of one element alone");
    EXPECT(UNSUCCESSFUL, d, d, "elements that differ: 2 of 128, the first at index 3 = [0,3] of [8,16]");
}

/* Every element of a tensor, every bit. */
static void any_single_change_is_located(void)
{
    enum { COUNT = 48 };
    const uint64_t first_index = 5000000000u;
    for (uint64_t i = 0; i < COUNT; i++)
        for (int bit = 0; bit < 32; bit++) {
            const uint32_t bits = pl_bits(made_value(1, (struct tensor){ TENSOR_INPUT, 0, 0 }, i)),
                           changed = bits ^ 1u << bit;
            struct digest before = { .sum = 12345 + bits,
                .weighted = 678 + pl_digest_term(bits, pl_index_word(first_index + i)) };
            struct digest after = { .sum = 12345 + changed,
                .weighted = 678 + pl_digest_term(changed, pl_index_word(first_index + i)) };
            uint64_t found = 0;
            CHECK(find_single_change(after, before, first_index, COUNT, &found) && found == first_index + i,
                "element %d bit %d", (int)i, bit);
        }
}

static void microbatch_splits_are_summed(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    reference.model.microbatches = 2;
    reference.model.microbatch_size = 4;
    const char *d = made("split", &run, &reference);
    EXPECT(SUCCESSFUL, d, d, "activations are compared as sums");
    CHECK(says("compared 4 of 4 activation tensors of the recorded step 3: 0 in full, 4 by digest"), "%s",
        told.data);
    CHECK(says("compared 48 of 48 gradient tensors of the recorded step 3: 48 in full"), "%s", told.data);
    EXPECT(SUCCESSFUL, in(d, "run.h5"), in(d, "reference.digest"), "compared 48 of 48");
    reference.change = flip_in_step_2;
    d = made("split", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, d, "step 2, layers/0002/activations/0000 and its other microbatches");
    CHECK(says("index 161 = [6,2,1] of [8,3,8]"), "%s", told.data);
    flip_bit(in(d, "rank00000.h5"), "layers/0000/activations/0001", 9, 30);
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"),
        "layers/0000/activations/0000 and its other microbatches");
    CHECK(says("index 57 = [2,1,1] of [8,3,8]"), "%s", told.data);
}

static bool skip_activations(int step, struct tensor tensor)
{
    (void)step;
    return tensor.class == TENSOR_ACTIVATION;
}

static void what_the_deck_left_out_is_said(void)
{
    struct making run = usual("", "run"), reference = usual("", "reference");
    run.activations = "none";
    const char *d = made("levels", &run, &reference);
    EXPECT(SUCCESSFUL, d, d, "not compared: activations: the run has none");
    CHECK(says("not compared: activation_gradients: the run has none"), "%s", told.data);
    EXPECT(SUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"), "not compared: activations: the run has none");
    run.activations = "boundary";
    d = made("levels", &run, &reference);
    EXPECT(SUCCESSFUL, d, d,
        "compared 16 of 16 activation tensors of the recorded step 3: 8 in full, 8 by digest");
    EXPECT(SUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"), "its deck asks for those at chunk boundaries");
    remove_dataset(in(d, "rank00001.h5"), "layers/0001/activations/0002");
    EXPECT(UNSUCCESSFUL, in(d, "run.h5"), in(d, "reference.h5"),
        "missing in the run: step 3, layers/0001/activations/0002");
    run.activations = "digest";
    run.gradients = "digest";
    d = made("levels", &run, &reference);
    EXPECT(SUCCESSFUL, d, d,
        "compared 48 of 48 gradient tensors of the recorded step 3: 0 in full, 48 by digest");
    EXPECT(
        NOT_PERFORMED, in(d, "run.h5"), in(d, "reference.h5"), "not compared: gradients: the run has none");
    /* A deck that asks for them does not explain their absence. */
    remove_dataset(in(d, "reference.h5"), "layers/0002/gradients");
    EXPECT(UNSUCCESSFUL, in(d, "digest.txt"), in(d, "reference.h5"),
        "missing in the reference: step 3, layers/0002/gradients/mlp.down.bias");
    run.skip = skip_activations;
    d = made("levels", &run, &reference);
    EXPECT(UNSUCCESSFUL, d, d, "missing in the run: step 1, layers/0000/activations/0000; ");
}

/* Lines in memory, as a run that has just finished has them. */
static void lines_in_memory_compare(void)
{
    const char *d = made_usual("memory");
    struct digest_file file;
    struct text error = { 0 };
    CHECK(digest_file_read(in(d, "digest.txt"), &file, &error), "%s", error.data);
    const struct making m = usual(d, "run");
    const struct facts facts = facts_of(&m, -1);
    for (int harm = 0; harm < 2; harm++) {
        if (harm) file.line[100].digest.weighted ^= 1;
        struct side *run = side_of_lines(&facts, file.line, file.count, "this run"), *reference;
        CHECK(side_open(&reference, d, "reference", &error), "%s", error.data);
        text_free(&told);
        const enum verdict verdict = verify(run, reference, &told);
        CHECK(verdict == (harm ? UNSUCCESSFUL : SUCCESSFUL), "%s", told.data);
        CHECK(!harm || says("held by rank"), "%s", told.data);
        side_close(run);
        side_close(reference);
    }
    digest_file_free(&file);
}

static void shipped_references_are_found(void)
{
    const char *d = fresh_directory("shipped");
    struct making m = usual(d, "reference");
    m.data = false;
    make_output(&m);
    struct text path = { 0 };
    setenv("PIPELEAF_REFERENCE", d, 1);
    CHECK(!reference_find(m.identity, &path), "found %s", path.data);
    rename(in(d, "reference.digest"), in(d, "tiny.0123456789abcdef.digest"));
    CHECK(reference_find(m.identity, &path) && !strcmp(path.data, in(d, "tiny.0123456789abcdef.digest")),
        "%s", path.data);
    text_free(&path);
    /* The first 16 digits alone do not make it. */
    CHECK(!reference_find("0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdee", &path),
        "found %s", path.data);
    CHECK(!reference_find("1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", &path),
        "found %s", path.data);
    unsetenv("PIPELEAF_REFERENCE");
}

/* The program: its exit code, and its last line. */
static void program(const char *validate, const char *arguments, int code, const char *last_line)
{
    char command[2048], line[1024] = "", last[1024] = "";
    snprintf(command, sizeof command, "%s %s 2>&1", validate, arguments);
    FILE *pipe = popen(command, "r");
    if (!pipe) fail("a test cannot run '%s'", command);
    while (fgets(line, sizeof line, pipe)) strcpy(last, line);
    const int status = pclose(pipe);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code, "'%s' ends with %d, not %d", command,
        WEXITSTATUS(status), code);
    CHECK(!strncmp(last, last_line, strlen(last_line)), "'%s' ends with '%s', not '%s'", command, last,
        last_line);
}

static void program_speaks_by_exit_code(const char *validate)
{
    made_usual("program");
    program(validate, "program", 0, "VERIFICATION = SUCCESSFUL\n");
    program(validate, "program/run.h5 program/reference.digest", 0, "VERIFICATION = SUCCESSFUL\n");
    flip_bit("program/reference.h5", "layers/0000/gradients/mlp.up.bias", 0, 0);
    program(validate, "program", 2, "VERIFICATION = UNSUCCESSFUL\n");
    program(validate, "program/digest.txt program/digest.txt", 3, "VERIFICATION = NOT PERFORMED\n");
    program(validate, "program no_such_file", 1, "VERIFICATION = NOT PERFORMED\n");
    program(validate, "", 1, "pipeleaf: error: 0 arguments: there must be two");
    program(validate, "a b c", 1, "pipeleaf: error: 3 arguments: there must be two");
    program(validate, "--wrong", 1, "pipeleaf: error: option '--wrong'");
    program(validate, "--help", 0, "  pipeleaf(1), pipeleaf-deck(5), README.md\n");
    const struct making alone = usual(fresh_directory("program_alone"), "run");
    make_output(&alone);
    program(validate, "program_alone", 3, "VERIFICATION = NOT PERFORMED\n");
}

int main(int argc, char **argv)
{
    equal_sides_pass_in_every_pairing();
    flipped_bit_is_found();
    differences_of_earlier_steps_are_found_by_digest();
    two_changed_elements_are_not_called_one();
    any_single_change_is_located();
    microbatch_splits_are_summed();
    what_the_deck_left_out_is_said();
    lines_in_memory_compare();
    shipped_references_are_found();
    if (argc > 1) program_speaks_by_exit_code(argv[1]);
    text_free(&told);
    return check_result();
}
