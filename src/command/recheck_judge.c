#include "command/recheck_judge.h"
#include "device/arithmetic.h"
#include "device/definition.h"
#include <stdlib.h>
#include <string.h>

void judge_create(struct judge *j, const struct recorded *run, const struct model *model,
    const struct partition *partition, const int *rank_of, const struct reporting *reporting,
    struct device *device, struct progress *progress, int checker, const char *directory)
{
    *j = (struct judge){ .run = run,
        .model = model,
        .partition = partition,
        .rank_of = rank_of,
        .reporting = *reporting,
        .device = device,
        .progress = progress,
        .checker = checker,
        .files = rank_files_create(directory, &run->facts),
        .on_device = device->allocate(device, judge_memory()),
        .arrival = allocate(2 * (size_t)model->microbatches, sizeof(struct arrival *)) };
    j->capacity = tensor_block_limit(model, (struct tensor){ .class = TENSOR_ACTIVATION });
    for (int p = 0; p < PARAMETERS; p++) {
        const size_t limit = tensor_block_limit(model, (struct tensor){ TENSOR_GRADIENT, 0, p });
        if (limit > j->capacity) j->capacity = limit;
    }
    j->recorded = allocate(j->capacity, sizeof(float));
    j->computed = allocate(j->capacity, sizeof(float));
}

size_t judge_memory(void)
{
    return sizeof(struct digest);
}

void judge_free(struct judge *j)
{
    if (j->on_device) j->device->release(j->device, j->on_device);
    rank_files_free(j->files);
    free(j->arrival);
    free(j->arrivals);
    free(j->recorded);
    free(j->computed);
    free(j->finding);
}

/* --- what is there --- */

static struct tensor_file *file_of(struct judge *j, int rank)
{
    struct text error = { 0 };
    struct tensor_file *file = rank_files_get(j->files, rank, &error);
    if (!file) fail("%s", error.data);
    return file;
}

static bool has_data(struct tensor_file *file, struct tensor tensor)
{
    struct text error = { 0 };
    const bool there = tensor_file_has(file, tensor, &error);
    if (!there && error.length) fail("%s", error.data);
    return there;
}

static void read_block(
    struct tensor_file *file, struct tensor tensor, size_t first, size_t count, float *data)
{
    struct text error = { 0 };
    if (!tensor_file_read(file, tensor, first, count, data, &error)) fail("%s", error.data);
}

/* Whether the run's deck asks for the tensor's data in a file. */
static bool is_written(const struct judge *j, struct tensor tensor)
{
    const bool full = j->reporting.activations == DATA_FULL,
               boundary = j->reporting.activations == DATA_BOUNDARY;
    switch (tensor.class) {
    case TENSOR_ACTIVATION: return full || (boundary && tensor.layer == j->layers.end - 1);
    case TENSOR_ACTIVATION_GRADIENT: return full || (boundary && tensor.layer == j->layers.first);
    case TENSOR_GRADIENT: return j->reporting.gradients;
    case TENSOR_LOSS: return false;
    default: return j->reporting.parameters;
    }
}

static bool is_digested(enum tensor_class class)
{
    return class == TENSOR_ACTIVATION || class == TENSOR_ACTIVATION_GRADIENT || class == TENSOR_GRADIENT ||
           class == TENSOR_LOSS;
}

/* A tensor of one microbatch: which; -1: of all. */
static int microbatch_of(struct tensor tensor)
{
    const bool of_all =
        tensor.class == TENSOR_GRADIENT || tensor.class == TENSOR_PARAMETER || tensor.class == TENSOR_LOSS;
    return of_all ? -1 : tensor.index;
}

static bool is_same(struct digest a, struct digest b)
{
    return a.sum == b.sum && a.weighted == b.weighted && a.nan == b.nan && a.absmax == b.absmax;
}

static struct digest digest_of(struct judge *j, struct tensor tensor, const float *data)
{
    struct digest digest;
    j->device->digest(j->device, tensor_elements(j->model, tensor), data,
        tensor_first_index(j->model, tensor), j->on_device);
    j->device->download(j->device, &digest, j->on_device, sizeof digest);
    return digest;
}

/* --- what is found --- */

static void enter(struct judge *j, int microbatch)
{
    if (microbatch == j->microbatch) return;
    j->microbatch = microbatch;
    j->tainted = false;
}

static void taint(struct judge *j)
{
    j->tainted = j->ever_tainted = true;
}

static bool follows(const struct judge *j, int microbatch)
{
    return j->wholly_tainted || (microbatch < 0 ? j->ever_tainted : j->tainted);
}

static struct finding *add(struct judge *j, enum fault fault, struct tensor tensor)
{
    if (j->count == j->room) {
        j->room = j->room ? 2 * j->room : 64;
        j->finding = realloc(j->finding, j->room * sizeof *j->finding);
        if (!j->finding) fail("out of memory: %zu findings", j->room);
    }
    struct finding *f = &j->finding[j->count++];
    memset(f, 0, sizeof *f); /* padding too: it is sent as bytes */
    f->fault = fault;
    f->tensor = tensor;
    f->chunk = j->chunk;
    f->microbatch = microbatch_of(tensor);
    f->rank = j->rank_of[j->chunk];
    f->checker = j->checker;
    f->follows = follows(j, f->microbatch);
    f->elements = tensor_elements(j->model, tensor);
    return f;
}

static void add_digests(
    struct judge *j, enum fault fault, struct tensor tensor, struct digest found, struct digest expected)
{
    struct finding *f = add(j, fault, tensor);
    f->digest[0] = found;
    f->digest[1] = expected;
}

static void add_missing(struct judge *j, struct tensor tensor, enum missing_from from)
{
    add(j, FAULT_MISSING, tensor)->missing = from;
}

/* --- the judge's four functions --- */

/* A recorded boundary tensor, block by block. That its data has the digest of what was made is said by
   whoever computes it again. */
static bool load(void *context, struct tensor tensor, float *to)
{
    struct judge *j = context;
    enter(j, tensor.index);
    struct tensor_file *file = file_of(j, j->run->rank_of_layer[tensor.layer]);
    if (!has_data(file, tensor)) {
        add_missing(j, tensor, MISSING_DATA);
        return false;
    }
    for (size_t first = 0, count; (count = tensor_block(j->model, tensor, first)); first += count) {
        read_block(file, tensor, first, count, j->recorded);
        j->device->upload(j->device, to + first, j->recorded, count * sizeof(float));
    }
    const struct digest *made = recorded_digest(j->run, tensor);
    j->knows_sent = made != NULL;
    if (made) j->sent = *made;
    if (!made || made->nan || !is_same(digest_of(j, tensor, to), *made)) taint(j);
    atomic_fetch_add(&j->progress->count, 1);
    return true;
}

/* The recorded data against *data, element by element, and its digest. */
static struct finding compare_in_full(struct judge *j, struct tensor_file *file, struct tensor tensor,
    const float *data, struct digest *recorded)
{
    struct finding f = { .in_full = true };
    for (size_t first = 0, count; (count = tensor_block(j->model, tensor, first)); first += count) {
        read_block(file, tensor, first, count, j->recorded);
        j->device->download(j->device, j->computed, data + first, count * sizeof(float));
        struct digest block;
        if (memcmp(j->recorded, j->computed, count * sizeof(float)) != 0)
            for (size_t i = 0; i < count; i++) {
                if (pl_canonical_bits(j->recorded[i]) == pl_canonical_bits(j->computed[i])) continue;
                if (f.differing++) continue;
                f.first = first + i;
                f.value[0] = j->recorded[i];
                f.value[1] = j->computed[i];
            }
        definition_digest(count, j->recorded, tensor_first_index(j->model, tensor) + first, &block);
        *recorded = first == 0 ? block : digest_add(*recorded, block);
    }
    return f;
}

/* What the run had takes the place of what was computed again: so the next tensors are judged by themselves.
 */
static void restore(struct judge *j, struct tensor_file *file, struct tensor tensor, float *data)
{
    for (size_t first = 0, count; (count = tensor_block(j->model, tensor, first)); first += count) {
        read_block(file, tensor, first, count, j->recorded);
        j->device->upload(j->device, data + first, j->recorded, count * sizeof(float));
    }
}

/* Data in a file: against what was computed again (digest `again`), and against the run's digest of it (NULL:
   none is made of its class). Returns whether *data, afterwards, is what the run had. */
static bool compare_data(struct judge *j, struct tensor_file *file, struct tensor tensor, float *data,
    struct digest again, const struct digest *made)
{
    struct digest recorded;
    const struct finding bits = compare_in_full(j, file, tensor, data, &recorded);
    const bool stored_well = !made || is_same(recorded, *made);
    if (recorded.nan || (made && made->nan)) add(j, FAULT_NAN, tensor);
    if (stored_well && !bits.differing) return true;
    if (!stored_well) add_digests(j, FAULT_STORED, tensor, recorded, *made);
    if (stored_well) {
        struct finding *f = add(j, FAULT_COMPUTED, tensor);
        f->in_full = true;
        f->differing = bits.differing;
        f->first = bits.first;
        memcpy(f->value, bits.value, sizeof f->value);
        if (made) restore(j, file, tensor, data);
        return made != NULL;
    }
    if (is_same(again, *made)) return true;
    add_digests(j, FAULT_COMPUTED, tensor, *made, again);
    return false;
}

static void compare(void *context, struct tensor tensor, float *data)
{
    struct judge *j = context;
    const int microbatch = microbatch_of(tensor);
    if (microbatch >= 0) enter(j, microbatch);
    const bool digested = is_digested(tensor.class), written = is_written(j, tensor);
    j->knows_sent = false;
    if (!digested && !written) return;
    const struct digest again = digest_of(j, tensor, data);
    const struct digest *made = digested ? recorded_digest(j->run, tensor) : NULL;
    if (digested && !made) add_missing(j, tensor, MISSING_DIGEST);
    bool is_the_runs = true, compared = made != NULL;
    struct tensor_file *file = written ? file_of(j, j->rank_of[j->chunk]) : NULL;
    if (file && !has_data(file, tensor)) {
        add_missing(j, tensor, MISSING_DATA);
        file = NULL;
    }
    if (file) {
        is_the_runs = compare_data(j, file, tensor, data, again, made);
        compared = true;
        j->tally.in_full[tensor.class]++;
    } else if (made) {
        if (made->nan || again.nan) add(j, FAULT_NAN, tensor);
        is_the_runs = is_same(*made, again);
        if (!is_the_runs) add_digests(j, FAULT_COMPUTED, tensor, *made, again);
    }
    j->tally.compared[tensor.class] += compared;
    const bool nan = again.nan || (made && made->nan);
    if ((!is_the_runs || nan) && microbatch >= 0) taint(j);
    if (!is_the_runs && tensor.class == TENSOR_PARAMETER) j->wholly_tainted = true;
    atomic_fetch_add(&j->progress->count, 1);
}

/* The boundary tensor that arrives at the chunk: as its maker's files name it. */
static struct tensor boundary_of(const struct judge *j, bool is_gradient, int microbatch)
{
    if (is_gradient) return (struct tensor){ TENSOR_ACTIVATION_GRADIENT, j->layers.end, microbatch };
    if (j->layers.first == 0) return (struct tensor){ TENSOR_INPUT, 0, microbatch };
    return (struct tensor){ TENSOR_ACTIVATION, j->layers.first - 1, microbatch };
}

static void arrived(void *context, bool is_gradient, int microbatch, const float *data)
{
    struct judge *j = context;
    enter(j, microbatch);
    const struct tensor tensor = boundary_of(j, is_gradient, microbatch);
    const struct arrival *arrival = j->arrival[2 * microbatch + is_gradient];
    /* What comes from the seed or the loss was made here, and no file has it. */
    const bool made_here = is_gradient ? j->layers.end == j->model->layers : j->layers.first == 0;
    if (!arrival) {
        add_missing(j, tensor, MISSING_ARRIVAL);
        taint(j);
        return;
    }
    if (!made_here && !j->knows_sent) return; /* its digest is missing, which its maker's checker says */
    const struct digest sent = made_here ? digest_of(j, tensor, data) : j->sent;
    j->tally.arrivals++;
    if (arrival->digest.nan) add(j, FAULT_NAN, tensor);
    if (is_same(arrival->digest, sent)) return;
    struct finding *f = add(j, FAULT_ARRIVED, tensor);
    /* Data that is not what its maker made says nothing of what was sent; its digest does. */
    f->follows = made_here && follows(j, microbatch);
    f->sender = j->rank_of[is_gradient ? j->chunk + 1 : j->chunk - 1];
    f->digest[0] = arrival->digest;
    f->digest[1] = sent;
    taint(j);
}

static void loss(void *context, float value)
{
    struct judge *j = context;
    const struct tensor tensor = { TENSOR_LOSS, 0, 0 };
    const struct digest *made = recorded_digest(j->run, tensor);
    struct digest again;
    definition_digest(1, &value, 0, &again);
    if (!made) {
        add_missing(j, tensor, MISSING_DIGEST);
        return;
    }
    j->tally.compared[TENSOR_LOSS]++;
    if (made->nan || again.nan) add(j, FAULT_NAN, tensor);
    if (!is_same(*made, again)) add_digests(j, FAULT_COMPUTED, tensor, *made, again);
}

/* --- a chunk --- */

static void find_arrivals(struct judge *j)
{
    const int microbatches = j->model->microbatches;
    size_t count;
    free(j->arrivals);
    j->arrivals = tensor_file_arrivals(file_of(j, j->rank_of[j->chunk]), &count);
    memset(j->arrival, 0, 2 * (size_t)microbatches * sizeof *j->arrival);
    for (size_t i = 0; i < count; i++) {
        struct arrival *a = &j->arrivals[i];
        if (a->chunk == j->chunk && a->microbatch >= 0 && a->microbatch < microbatches)
            j->arrival[2 * a->microbatch + (a->is_gradient != 0)] = a;
    }
}

void judge_chunk(struct judge *j, struct recheck *recheck, int chunk)
{
    j->chunk = chunk;
    j->layers = (struct recheck_chunk){ .first = j->partition->first[chunk],
        .end = j->partition->first[chunk + 1],
        .is_first = chunk == 0,
        .is_last = chunk == j->partition->chunks - 1 };
    j->microbatch = -1;
    j->tainted = j->ever_tainted = j->wholly_tainted = false;
    find_arrivals(j);
    const struct recheck_judge judge = { load, compare, arrived, loss, j };
    recheck_run(recheck, j->run->facts.recorded_step, &j->layers, &judge);
    rank_files_rest(j->files);
}
