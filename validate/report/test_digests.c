/* The digest file: it reads back, and half of one is never taken for one. */
#include "../check.h"
#include "made.h"
#include <stdlib.h>
#include <string.h>

static bool reads(const char *path, struct text *error)
{
    struct digest_file file;
    text_free(error);
    text_add(error, "%s", "");
    const bool good = digest_file_read(path, &file, error);
    if (good) digest_file_free(&file);
    return good;
}

static void it_reads_back(const char *path, const struct making *m)
{
    struct digest_file file;
    struct text error = { 0 };
    const struct facts facts = facts_of(m, -1);
    CHECK(digest_file_read(path, &file, &error), "%s", error.data);
    CHECK(file.count == 3 * (4 * (PARAMETERS + 2 * 4) + 1), "%zu lines", file.count);
    CHECK(!strcmp(file.kind, "run") && !strcmp(file.run_id, m->run_id) && !strcmp(file.identity, m->identity),
        "header");
    CHECK(file.recorded_step == 3 && !memcmp(&file.model, &m->model, sizeof m->model), "the model");
    CHECK(file.rank_of_layer && !memcmp(file.rank_of_layer, facts.rank_of_layer, 4 * sizeof(int)),
        "ranks of layers");
    for (size_t i = 1; i < file.count; i++)
        CHECK(file.line[i - 1].step < file.line[i].step ||
                  (file.line[i - 1].step == file.line[i].step &&
                      tensor_compare(file.line[i - 1].tensor, file.line[i].tensor) < 0),
            "line %zu is in the order of dataflow", i);
    /* Written again, it is the same file. */
    struct text first = { 0 }, second = { 0 };
    digest_file_write(in(m->directory, "again.txt"), &facts, file.line, file.count);
    CHECK(text_read_file(&first, path, &error) &&
              text_read_file(&second, in(m->directory, "again.txt"), &error),
        "%s", error.data);
    CHECK(first.length == second.length && !memcmp(first.data, second.data, first.length),
        "written again the same");
    text_free(&first);
    text_free(&second);
    digest_file_free(&file);
}

static void write_bytes(const char *path, const char *data, size_t length)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, length, file) != length || fclose(file))
        fail("a test cannot write '%s'", path);
}

static void every_truncation_is_refused(const char *directory)
{
    struct making small = usual(directory, "run");
    small.model.layers = 1;
    small.model.microbatches = 1;
    small.ranks = 1;
    small.steps = 1;
    small.data = false;
    make_output(&small);
    struct text whole = { 0 }, error = { 0 };
    const char *cut = in(directory, "cut.txt");
    CHECK(text_read_file(&whole, in(directory, "digest.txt"), &error), "%s", error.data);
    for (size_t length = 0; length < whole.length; length++) {
        write_bytes(cut, whole.data, length);
        CHECK(!reads(cut, &error) && strstr(error.data, "cut.txt:"), "the first %zu of %zu bytes: %s", length,
            whole.length, error.data);
    }
    write_bytes(cut, whole.data, whole.length);
    CHECK(reads(cut, &error), "the whole file: %s", error.data);
    text_free(&whole);
    text_free(&error);
}

/* The file with one text in the place of another must be refused with these words. */
static void refused(const char *directory, const char *from, const char *to, const char *words)
{
    struct text whole = { 0 }, changed = { 0 }, error = { 0 };
    text_read_file(&whole, in(directory, "digest.txt"), &error);
    char *at = strstr(whole.data, from);
    CHECK(at, "the file has '%s'", from);
    if (!at) return;
    text_add(&changed, "%.*s%s%s", (int)(at - whole.data), whole.data, to, at + strlen(from));
    const char *other = in(directory, "changed.txt");
    write_bytes(other, changed.data, changed.length);
    CHECK(!reads(other, &error) && strstr(error.data, words), "'%s' for '%s': must say '%s', says '%s'", to,
        from, words, error.data);
    text_free(&whole);
    text_free(&changed);
    text_free(&error);
}

int main(void)
{
    const char *directory = fresh_directory("digests");
    struct making m = usual(directory, "run");
    m.data = false;
    make_output(&m);
    it_reads_back(in(directory, "digest.txt"), &m);
    refused(directory, "# pipeleaf digests 1", "# pipeleaf digests 2", "must be '# pipeleaf digests 1'");
    refused(directory, "1 layers/0000/activations/0000 ", "1 layers/0000/activations/0001 ", "twice");
    refused(directory, "layers/0002/gradients/mlp.up.weight", "layers/0002/gradients/mlp.up.wait",
        "no tensor of this name");
    refused(directory, "layers/0002/gradients/mlp.up.weight", "layers/0004/gradients/mlp.up.weight",
        "no tensor of this name");
    refused(directory, "[8,16]", "[8,17]", "would be written");
    refused(directory, "f32", "f64", "must be 'STEP NAME f32");
    refused(directory, "# recorded 3", "# recorded x", "at least 1");
    refused(directory, "# ranks 0 1", "# ranks 0", "4 ranks");
    refused(directory, "\n2 loss", "\n2  loss", "would be written");
    refused(directory, "\n2 loss", "\n3 loss", "out of order");
    refused(directory, "\n2 loss", "\n\n2 loss", "must be 'STEP NAME");
    refused(directory, "# end 243\n", "# end 243\n\n", "more after the last line");
    refused(directory, "# end 243\n", "# end 242\n", "243 lines");
    every_truncation_is_refused(directory);
    return check_result();
}
