/* HDF5 files: what is written is what is read; what is not whole never bears a final name. Leaves its outputs
   in DIRECTORY (the argument) for other programs to read. */
#include "../check.h"
#include "made.h"
#include "report/tensor_file.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static void tensors_read_back(const struct making *m)
{
    const struct facts written = facts_of(m, 1);
    struct tensor_file *file = NULL;
    struct text error = { 0 };
    CHECK(tensor_file_open(&file, in(m->directory, "rank00001.h5"), &error), "%s", error.data);
    if (!file) return;
    CHECK(!strcmp(file->facts.run_id, written.run_id) && !strcmp(file->facts.deck, written.deck), "strings");
    CHECK(file->facts.rank == 1 && file->facts.ranks == 2 && file->facts.recorded_step == 3, "numbers");
    CHECK(!memcmp(&file->facts.model, &written.model, sizeof written.model), "the model");
    CHECK(file->facts.rank_of_layer &&
              !memcmp(file->facts.rank_of_layer, written.rank_of_layer, 4 * sizeof(int)),
        "ranks of layers");
    CHECK(file->count == 2 * (2 * PARAMETERS + 2 * 4) && file->strangers == 0, "%zu tensors, %zu others",
        file->count, file->strangers);
    for (size_t t = 0; t < file->count; t++) {
        char name[TENSOR_NAME];
        float data[512];
        const size_t count = tensor_elements(&m->model, file->tensor[t]);
        size_t there = 0;
        for (size_t n; (n = tensor_block(&m->model, file->tensor[t], there)); there += n)
            CHECK(there + n <= 512 && tensor_file_read(file, file->tensor[t], there, n, data + there, &error),
                "%s", error.data);
        CHECK(there == count, "blocks cover %s", tensor_name(file->tensor[t], name));
        const uint64_t first = tensor_first_index(&m->model, file->tensor[t]);
        size_t same = 0;
        for (size_t i = 0; i < count; i++)
            same += data[i] == made_value(m->steps, file->tensor[t], first + i);
        CHECK(same == count, "%s: %zu of %zu elements", tensor_name(file->tensor[t], name), same, count);
    }
    tensor_file_close(file);
}

/* In the C library's place: how often the disk is asked to begin. */
static int asked;

int sync_file_range(int file, off64_t from, off64_t bytes, unsigned flags)
{
    asked++;
    return (int)syscall(SYS_sync_file_range, file, from, bytes, flags);
}

/* What is discarded in the end is not sent to the disk. */
static void scratch_reads_back(const char *directory, const struct facts *facts, struct tensor tensor)
{
    const size_t count = tensor_elements(&facts->model, tensor);
    float *data = allocate(count, sizeof *data), *again = allocate(count, sizeof *again);
    for (size_t i = 0; i < count; i++) data[i] = made_value(1, tensor, i);
    struct output *scratch = output_create_scratch(in(directory, "scratch.h5"), facts);
    const int before = asked;
    output_tensor(scratch, tensor, data);
    output_read_tensor(scratch, tensor, again);
    CHECK(!memcmp(data, again, count * sizeof *data), "scratch reads back");
    CHECK(asked == before, "the disk was asked for scratch");
    output_discard(scratch);
    CHECK(access(in(directory, "scratch.h5"), F_OK) && access(in(directory, "scratch.h5.part"), F_OK),
        "discarded is gone");
    free(data);
    free(again);
}

/* Tensors larger than a block, whose rows are no power of two. */
static void blocks_read_back(const char *directory)
{
    struct making m = usual(directory, "run");
    m.model = (struct model){ .layers = 1,
        .hidden = 1100,
        .heads = 1,
        .ffn = 7,
        .sequence = 2000, /* a microbatch of an activation is 8.8 MB */
        .microbatches = 1,
        .microbatch_size = 2,
        .seed = 1 };
    const struct facts facts = facts_of(&m, 0);
    const struct tensor tensors[] = { { TENSOR_ACTIVATION, 0, 0 },
        { TENSOR_GRADIENT, 0, ATTENTION_QKV_WEIGHT } };
    struct output *output = output_create(in(directory, "large.h5"), &facts);
    for (int t = 0; t < 2; t++) {
        const size_t count = tensor_elements(&m.model, tensors[t]);
        const int before = asked;
        float *data = allocate(count, sizeof *data), *again = allocate(count, sizeof *again);
        for (size_t i = 0; i < count; i++) data[i] = made_value(1, tensors[t], i);
        output_tensor(output, tensors[t], data);
        output_read_tensor(output, tensors[t], again);
        CHECK(!memcmp(data, again, count * sizeof *data), "the open output reads back");
        CHECK(asked > before, "the disk begins before the file is whole");
        free(data);
        free(again);
    }
    CHECK(access(in(directory, "large.h5"), F_OK) != 0, "no final name before it is whole");
    output_finish(output);
    CHECK(access(in(directory, "large.h5.part"), F_OK) != 0, "no temporary name after");
    struct tensor_file *file;
    struct text error = { 0 };
    CHECK(tensor_file_open(&file, in(directory, "large.h5"), &error), "%s", error.data);
    for (int t = 0; t < 2; t++) {
        float *data = allocate(tensor_block_limit(&m.model, tensors[t]), sizeof *data);
        size_t first = 0, same = 0, blocks = 0;
        for (size_t n; (n = tensor_block(&m.model, tensors[t], first)); first += n, blocks++) {
            CHECK(n <= tensor_block_limit(&m.model, tensors[t]), "a block within its limit");
            CHECK(tensor_file_read(file, tensors[t], first, n, data, &error), "%s", error.data);
            for (size_t i = 0; i < n; i++) same += data[i] == made_value(1, tensors[t], first + i);
        }
        CHECK(blocks > 1 && same == tensor_elements(&m.model, tensors[t]), "%zu blocks, %zu elements", blocks,
            same);
        free(data);
    }
    tensor_file_close(file);
    struct output *unwanted = output_create(in(directory, "unwanted.h5"), &facts);
    output_discard(unwanted);
    CHECK(access(in(directory, "unwanted.h5"), F_OK) && access(in(directory, "unwanted.h5.part"), F_OK),
        "discarded is gone");
    unlink(in(directory, "large.h5"));
    scratch_reads_back(directory, &facts, tensors[0]);
}

static void write_much(void *context)
{
    struct making m = usual(context, "run");
    m.model = (struct model){ .layers = 1,
        .hidden = 512,
        .heads = 1,
        .ffn = 7,
        .sequence = 1024,
        .microbatches = 1,
        .microbatch_size = 1,
        .seed = 1 };
    const struct facts facts = facts_of(&m, 0);
    struct output *output = output_create(in(context, "much.h5"), &facts);
    const struct tensor tensor = { TENSOR_ACTIVATION, 0, 0 };
    float *data = allocate(tensor_elements(&m.model, tensor), sizeof *data);
    output_tensor(output, tensor, data);
    output_finish(output);
}

/* Room for the tensor but not for what closing the file writes. */
static void write_small(void *context)
{
    const struct making m = usual(context, "run");
    const struct facts facts = facts_of(&m, 0);
    struct output *output = output_create(in(context, "much.h5"), &facts);
    output_finish(output);
}

static void limit_and_write_much(void *context)
{
    const struct rlimit limit = { 1 << 20, 1 << 20 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    write_much(context);
}

static void limit_and_write_small(void *context)
{
    const struct rlimit limit = { 512, 512 };
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    write_small(context);
}

static void fails_in_one_line(const char *directory, void (*body)(void *), const char *words)
{
    char place[256];
    snprintf(place, sizeof place, "%s", directory);
    struct ended ended = run_apart(body, place);
    CHECK(ended.code == EXIT_FAILED, "exit %d: %s", ended.code, ended.said);
    const char *end = strchr(ended.said, '\n');
    CHECK(end && end[1] == 0, "one line: %s", ended.said);
    CHECK(strstr(ended.said, words) && strstr(ended.said, "much.h5"), "the line says '%s' and the file: %s",
        words, ended.said);
    CHECK(!strstr(ended.said, "errno"), "the system's words, not HDF5's: %s", ended.said);
    CHECK(access(in(directory, "much.h5"), F_OK) != 0, "no file of the final name");
    CHECK(access(in(directory, "much.h5.part"), F_OK) != 0, "no file of the temporary name");
    free(ended.said);
}

static void full_disk_is_one_line(const char *directory)
{
    fails_in_one_line(directory, limit_and_write_much, "File too large");
    fails_in_one_line(directory, limit_and_write_small, "File too large");
    const char *disk = fresh_directory("full_disk");
    if (mount("tmpfs", disk, "tmpfs", 0, "size=1m")) {
        printf("a small disk cannot be mounted here (not root): only the limit on file size was tried\n");
    } else {
        fails_in_one_line(disk, write_much, "No space left on device");
        umount(disk);
    }
    fails_in_one_line("no_such_directory", write_much, "No such file or directory");
}

static void truncated_file_is_refused(const char *directory)
{
    char copy[600];
    snprintf(copy, sizeof copy, "cp %s %s && truncate -s -4096 %s", in(directory, "rank00000.h5"),
        in(directory, "cut.h5"), in(directory, "cut.h5"));
    CHECK(system(copy) == 0, "%s", copy);
    struct side *side;
    struct text error = { 0 };
    CHECK(!side_open(&side, in(directory, "cut.h5"), "run", &error) && strstr(error.data, "cut.h5"), "%s",
        error.data ? error.data : "opened");
    text_free(&error);
    unlink(in(directory, "cut.h5"));
}

int main(int argc, char **argv)
{
    const char *directory = fresh_directory(argc > 1 ? argv[1] : "outputs");
    blocks_read_back(directory);
    full_disk_is_one_line(directory);
    const struct making run = usual(directory, "run"), reference = usual(directory, "reference");
    make_output(&run);
    make_output(&reference);
    tensors_read_back(&run);
    truncated_file_is_refused(directory);
    CHECK(!strncmp(output_library(), "HDF5 1.", 7) && strchr(output_library(), '('), "%s", output_library());
    return check_result();
}
