#include "made.h"
#include "device/arithmetic.h"
#include "device/definition.h"
#include <assert.h>
#include <ftw.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

struct making usual(const char *directory, const char *kind)
{
    const bool run = !strcmp(kind, "run");
    return (struct making){ .directory = directory,
        .kind = kind,
        .run_id = run ? "run-1" : "reference-1",
        .identity = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        .model = { .layers = 4,
            .hidden = 8,
            .heads = 2,
            .ffn = 16,
            .sequence = 3,
            .microbatches = 4,
            .microbatch_size = 2,
            .seed = 7 },
        .ranks = run ? 2 : 1,
        .steps = 3,
        .data = true,
        .digests = true,
        .activations = "full",
        .gradients = "full" };
}

float made_value(int step, struct tensor tensor, uint64_t index)
{
    const uint64_t key =
        (((uint64_t)step * TENSOR_CLASSES + tensor.class) * 64 + (uint64_t)tensor.layer) * 64;
    /* Microbatches are told apart by the index, which counts over the batch. */
    const bool of_parameter = tensor.class == TENSOR_GRADIENT || tensor.class == TENSOR_PARAMETER;
    return pl_uniform(
        pl_mix_word((uint32_t)(index * 1000003 + key + (of_parameter ? (uint64_t)tensor.index : 0))));
}

static int made_rank_of_layer[2][64];

struct facts facts_of(const struct making *m, int rank)
{
    static char deck[256];
    snprintf(
        deck, sizeof deck, "&output activations = '%s' gradients='%s' /\n", m->activations, m->gradients);
    const bool run = !strcmp(m->kind, "run");
    for (int layer = 0; layer < m->model.layers; layer++)
        made_rank_of_layer[run][layer] = run ? layer % m->ranks : 0;
    return (struct facts){ .kind = m->kind,
        .run_id = m->run_id,
        .identity = m->identity,
        .deck = deck,
        .deck_sha256 = "00",
        .host = "node1",
        .device = "host, generic, 1 thread",
        .device_uuid = "",
        .cpus = "2 x made up",
        .compiler = "cc -O0",
        .libraries = output_library(),
        .ranks = m->ranks,
        .chunks_per_rank = m->model.layers / m->ranks,
        .rank = rank,
        .threads = 1,
        .recorded_step = m->steps,
        .model = m->model,
        .rank_of_layer = made_rank_of_layer[run] };
}

/* Every tensor of a layer, or those of no layer (layer -1), one after the other; false after the last. */
static bool next_tensor(const struct model *model, int layer, struct tensor *tensor)
{
    do {
        tensor->index++;
        if (tensor->index >= PARAMETERS && tensor->index >= model->microbatches) {
            tensor->index = 0;
            tensor->class ++;
        }
        if (tensor->class == TENSOR_CLASSES) return false;
        const bool of_layer =
            tensor->class != TENSOR_LOSS && tensor->class != TENSOR_INPUT && tensor->class != TENSOR_TARGET;
        tensor->layer = of_layer ? layer : 0;
        if (of_layer == (layer >= 0) && tensor_exists(model, *tensor)) return true;
    } while (true);
}

static float *made_data(const struct making *m, int step, struct tensor tensor, struct digest *digest)
{
    const size_t count = tensor_elements(&m->model, tensor);
    const uint64_t first = tensor_first_index(&m->model, tensor);
    float *data = allocate(count, sizeof *data);
    for (size_t i = 0; i < count; i++) data[i] = made_value(step, tensor, first + i);
    if (m->change) m->change(step, tensor, first, data, count);
    definition_digest(count, data, first, digest);
    return data;
}

static bool is_digested(const struct making *m, struct tensor tensor)
{
    switch (tensor.class) {
    case TENSOR_ACTIVATION:
    case TENSOR_ACTIVATION_GRADIENT: return strcmp(m->activations, "none") != 0;
    case TENSOR_GRADIENT: return strcmp(m->gradients, "none") != 0;
    case TENSOR_LOSS: return true;
    default: return false;
    }
}

static bool is_stored(const struct making *m, struct tensor tensor)
{
    switch (tensor.class) {
    case TENSOR_ACTIVATION:
    case TENSOR_ACTIVATION_GRADIENT:
        return !strcmp(m->activations, "full") ||
               (!strcmp(m->activations, "boundary") && tensor.layer % 2 == 1);
    case TENSOR_GRADIENT: return !strcmp(m->gradients, "full");
    case TENSOR_LOSS: return false;
    default: return true;
    }
}

static void make_layer(const struct making *m, int step, int layer, struct output *output,
    struct tensor_digest *line, size_t *lines)
{
    struct tensor tensor = { 0, 0, -1 };
    while (next_tensor(&m->model, layer, &tensor)) {
        if (m->skip && m->skip(step, tensor)) continue;
        struct tensor_digest made = { .step = step, .tensor = tensor };
        float *data = made_data(m, step, tensor, &made.digest);
        if (is_digested(m, tensor)) line[(*lines)++] = made;
        if (output && is_stored(m, tensor)) output_tensor(output, tensor, data);
        free(data);
    }
}

static void make_timings(struct output *output, const struct making *m)
{
    const struct action_record actions[] = { { 1, COMPUTE_F, 0, 0, 10.0, 10.5, 0.0 },
        { 1, COMPUTE_B, 0, 0, 10.75, 11.5, 0.25 }, { 2, COMPUTE_I, 1, 3, 12.0, 12.5, 0.5 },
        { 2, COMPUTE_W, 1, 3, 12.5, 13.0, 0.0 } };
    const struct step_record steps[] = { { 1, 0, 10.0, 1.5, 1.25, 0.25, 0.125, 0.75f },
        { m->steps, 1, 12.0, 1.0, 1.0, 0.0, 0.0, 0.5f } };
    output_timings(output, actions, 4, steps, 2);
    const struct planned_record planned[] = { { COMPUTE_F, 1, 3, 0, 0.0, 0.5 },
        { COMPUTE_W, 1, 3, 2, 0.5, 1.25 } };
    const struct clock_record clock[2] = { { 9.0, -0.25 }, { 13.0, 0.5 } };
    const struct memory_record memory = { 1, 2, 3, 4, 5, 6, 7, 28, ((int64_t)1 << 40) + 1, 2, 3 };
    output_planned(output, planned, 2, clock);
    output_memory(output, &memory);
}

static void make_files(const struct making *m, struct tensor_digest *line, size_t *lines)
{
    const bool run = !strcmp(m->kind, "run");
    char file[32];
    for (int rank = 0; rank < m->ranks; rank++) {
        const struct facts facts = facts_of(m, rank);
        snprintf(file, sizeof file, run ? "rank%05d.h5" : "reference.h5", rank);
        struct output *output = m->data ? output_create(in(m->directory, file), &facts) : NULL;
        for (int step = 1; step <= m->steps; step++)
            for (int layer = -1; layer < m->model.layers; layer++)
                if (layer < 0 ? rank == 0 : facts.rank_of_layer[layer] == rank)
                    make_layer(m, step, layer, step == m->steps ? output : NULL, line, lines);
        if (output) {
            make_timings(output, m);
            output_finish(output);
        }
    }
    if (!run || !m->data) return;
    const struct facts facts = facts_of(m, -1);
    char *name[16];
    for (int rank = 0; rank < m->ranks; rank++) {
        name[rank] = allocate(32, 1);
        snprintf(name[rank], 32, "rank%05d.h5", rank);
    }
    const struct links links = { .layers = true, .input_rank = -1, .target_rank = -1 };
    output_write_links(in(m->directory, "run.h5"), &facts, (const char *const *)name, &links);
    for (int rank = 0; rank < m->ranks; rank++) free(name[rank]);
}

void make_output(const struct making *m)
{
    const bool run = !strcmp(m->kind, "run");
    const char *result_name = run ? "result.json" : "reference.json";
    directory_prepare(m->directory, result_name);
    struct tensor_digest *line = allocate(65536, sizeof *line);
    size_t lines = 0;
    make_files(m, line, &lines);
    assert(lines <= 65536);
    const struct facts facts = facts_of(m, run ? -1 : 0);
    if (m->digests)
        digest_file_write(in(m->directory, run ? "digest.txt" : "reference.digest"), &facts, line, lines);
    free(line);

    const char *files[8];
    int count = 0;
    if (m->data && run) {
        files[count++] = "rank00000.h5";
        if (m->ranks > 1) files[count++] = "rank00001.h5";
        files[count++] = "run.h5";
    }
    if (m->data && !run) files[count++] = "reference.h5";
    if (m->digests) files[count++] = run ? "digest.txt" : "reference.digest";
    files[count++] = run ? "listing.txt" : "reference.txt"; /* never written: it proves nothing */
    files[count++] = result_name;
    const struct figure figures[] = { { "fom_tokens_per_second", 1234.5 },
        { "peak_flops_per_second", (double)NAN } };
    const double seconds[] = { 0.25, 0.125 };
    const float loss[] = { 0.5f, 0.1f, NAN };
    const struct result result = { .facts = &facts,
        .verdict = verdict_text[NOT_PERFORMED],
        .exit_code = 0,
        .figures = figures,
        .figure_count = 2,
        .step_seconds = seconds,
        .steps = 2,
        .loss = loss,
        .losses = 3,
        .files = files,
        .file_count = count };
    result_write(in(m->directory, result_name), &result);
}

static hid_t must(hid_t handle)
{
    if (handle < 0) fail("a test's own call of HDF5 failed");
    return handle;
}

void flip_bit(const char *path, const char *dataset, size_t element, int bit)
{
    const hid_t file = must(H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)),
                set = must(H5Dopen2(file, dataset, H5P_DEFAULT));
    const hid_t space = must(H5Dget_space(set));
    const size_t count = (size_t)H5Sget_simple_extent_npoints(space);
    uint32_t *bits = allocate(count, sizeof *bits);
    assert(element < count);
    must(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, bits));
    bits[element] ^= 1u << bit;
    must(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, bits));
    free(bits);
    H5Sclose(space);
    H5Dclose(set);
    must(H5Fclose(file));
}

void remove_dataset(const char *path, const char *dataset)
{
    const hid_t file = must(H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT));
    must(H5Ldelete(file, dataset, H5P_DEFAULT));
    must(H5Fclose(file));
}

void move_dataset(const char *path, const char *from, const char *to)
{
    const hid_t file = must(H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT));
    must(H5Lmove(file, from, H5L_SAME_LOC, to, H5P_DEFAULT, H5P_DEFAULT));
    must(H5Fclose(file));
}

void replace_dataset(const char *path, const char *dataset)
{
    remove_dataset(path, dataset);
    const hsize_t one = 1;
    const hid_t file = must(H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)),
                space = must(H5Screate_simple(1, &one, NULL)),
                set = must(
                    H5Dcreate2(file, dataset, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    H5Dclose(set);
    H5Sclose(space);
    must(H5Fclose(file));
}

void set_int(const char *path, const char *attribute, int value)
{
    const hid_t file = must(H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)),
                set = must(H5Aopen(file, attribute, H5P_DEFAULT));
    must(H5Awrite(set, H5T_NATIVE_INT, &value));
    H5Aclose(set);
    must(H5Fclose(file));
}

void set_string(const char *path, const char *attribute, const char *value)
{
    const hid_t file = must(H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT)),
                set = must(H5Aopen(file, attribute, H5P_DEFAULT));
    const hid_t type = must(H5Aget_type(set));
    must(H5Awrite(set, type, &value));
    H5Tclose(type);
    H5Aclose(set);
    must(H5Fclose(file));
}

const char *in(const char *directory, const char *name)
{
    static char buffer[32][512];
    static int turn;
    turn = (turn + 1) % 32;
    snprintf(buffer[turn], sizeof buffer[turn], "%s/%s", directory, name);
    return buffer[turn];
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

const char *fresh_directory(const char *name)
{
    nftw(name, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (mkdir(name, 0777)) fail("a test cannot create directory '%s'", name);
    return name;
}

struct ended run_apart(void (*body)(void *context), void *context)
{
    int ends[2];
    if (pipe(ends)) fail("a test cannot make a pipe");
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        body(context);
        _exit(0);
    }
    close(ends[1]);
    struct text said = { 0 };
    char block[512];
    ssize_t got;
    text_add(&said, "%s", "");
    while ((got = read(ends[0], block, sizeof block)) > 0) text_add(&said, "%.*s", (int)got, block);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    return (struct ended){ WIFEXITED(status) ? WEXITSTATUS(status) : -1, said.data };
}
