#include "report/side.h"
#include "report/library.h"
#include "report/names.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void side_problem(struct side *side, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_add_list(&side->problems, format, arguments);
    va_end(arguments);
    text_add(&side->problems, "\n");
}

static bool is_same_model(const struct model *a, const struct model *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->heads == b->heads && a->ffn == b->ffn &&
           a->sequence == b->sequence && a->microbatches == b->microbatches &&
           a->microbatch_size == b->microbatch_size && a->seed == b->seed;
}

bool side_adopt(struct side *side, const struct facts *facts, const char *source)
{
    if (!side->known) {
        side->known = true;
        snprintf(side->kind, sizeof side->kind, "%s", facts->kind);
        snprintf(side->run_id, sizeof side->run_id, "%s", facts->run_id);
        snprintf(side->identity, sizeof side->identity, "%s", facts->identity);
        side->recorded_step = facts->recorded_step;
        side->model = facts->model;
    }
    const char *arithmetic = facts->arithmetic ? facts->arithmetic : "";
    if (!side->arithmetic[0]) snprintf(side->arithmetic, sizeof side->arithmetic, "%s", arithmetic);
    if (arithmetic[0] && strcmp(side->arithmetic, arithmetic))
        side_problem(side, "files of different arithmetic: %s is of '%s', the others are of '%s'", source,
            arithmetic, side->arithmetic);
    if (!side->deck && facts->deck) side->deck = copy_text(facts->deck);
    if (!side->rank_of_layer && facts->rank_of_layer && is_same_model(&side->model, &facts->model)) {
        const size_t layers = (size_t)side->model.layers;
        side->rank_of_layer = allocate(layers, sizeof(int));
        memcpy(side->rank_of_layer, facts->rank_of_layer, layers * sizeof(int));
    }
    if (strcmp(side->run_id, facts->run_id))
        side_problem(side, "files of different runs: %s is of run %s, the others are of run %s", source,
            facts->run_id, side->run_id);
    if (strcmp(side->kind, facts->kind))
        side_problem(side, "files of different kinds: %s is of a %s, the others are of a %s", source,
            facts->kind, side->kind);
    const bool same = !strcmp(side->identity, facts->identity) &&
                      side->recorded_step == facts->recorded_step &&
                      is_same_model(&side->model, &facts->model);
    if (!same)
        side_problem(side,
            "files of different computations: %s is not of the same model and steps as the others", source);
    return same;
}

static struct entry *add_entries(struct side *side, size_t more)
{
    side->entry = realloc(side->entry, (side->count + more + 1) * sizeof *side->entry);
    if (!side->entry) fail("out of memory: %zu tensors", side->count + more);
    struct entry *first = side->entry + side->count;
    side->count += more;
    return first;
}

static void add_lines(struct side *side, const struct tensor_digest *line, size_t count)
{
    struct entry *entry = add_entries(side, count);
    for (size_t i = 0; i < count; i++)
        entry[i] = (struct entry){ line[i].step, line[i].tensor, true, line[i].digest, -1 };
    side->has_digests = true;
}

bool side_add_digest_file(struct side *side, const char *path, struct text *error)
{
    struct digest_file file;
    if (!digest_file_read(path, &file, error)) return false;
    const struct facts facts = { .kind = file.kind,
        .run_id = file.run_id,
        .identity = file.identity,
        .arithmetic = file.arithmetic,
        .recorded_step = file.recorded_step,
        .model = file.model,
        .rank_of_layer = file.rank_of_layer };
    if (side_adopt(side, &facts, path)) add_lines(side, file.line, file.count);
    digest_file_free(&file);
    return true;
}

/* Adds the file's own tensors, not those it links to. */
static bool add_file(
    struct side *side, const char *path, const struct tensor_file **added, struct text *error)
{
    struct tensor_file *file;
    if (!(side->skims ? tensor_file_open_unlisted : tensor_file_open)(&file, path, error)) return false;
    side->file = realloc(side->file, ((size_t)side->files + 1) * sizeof(struct tensor_file *));
    if (!side->file) fail("out of memory: %d files", side->files + 1);
    side->file[side->files++] = file;
    for (size_t i = 0; i < file->strangers; i++)
        side_problem(side, "'%s' holds '%s', which is no tensor of this model", path, file->stranger[i]);
    if (side_adopt(side, &file->facts, path)) {
        struct entry *entry = add_entries(side, file->count);
        for (size_t i = 0; i < file->count; i++)
            entry[i] = (struct entry){
                .step = side->recorded_step, .tensor = file->tensor[i], .file = side->files - 1
            };
    }
    if (added) *added = file;
    return true;
}

bool side_add_hdf5(struct side *side, const char *path, const struct tensor_file **added, struct text *error)
{
    const struct tensor_file *file;
    if (!add_file(side, path, &file, error)) return false;
    if (added) *added = file;
    for (size_t i = 0; i < file->links; i++) {
        struct stat status;
        if (stat(file->linked[i], &status))
            side_problem(side, "'%s' is missing: '%s' links to it", file->linked[i], path);
        else if (!add_file(side, file->linked[i], NULL, error))
            return false;
    }
    return true;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return tensor_compare(x->tensor, y->tensor);
}

/* Sorts the entries and makes one of a tensor's digest and its data. */
static void merge_entries(struct side *side)
{
    if (side->count) qsort(side->entry, side->count, sizeof *side->entry, compare_entries);
    size_t kept = 0;
    for (size_t i = 0; i < side->count; i++) {
        const struct entry *new = &side->entry[i];
        struct entry *last = kept ? &side->entry[kept - 1] : NULL;
        if (!last || compare_entries(last, new)) {
            side->entry[kept++] = *new;
            continue;
        }
        char name[TENSOR_NAME];
        if ((new->has_digest && last->has_digest) || (new->file >= 0 && last->file >= 0))
            side_problem(side, "step %d, %s is there twice", new->step, tensor_name(new->tensor, name));
        if (new->has_digest) {
            last->has_digest = true;
            last->digest = new->digest;
        }
        if (new->file >= 0) last->file = new->file;
    }
    side->count = kept;
}

static bool add_any(struct side *side, const char *path, const char *role, struct text *error)
{
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
        return side_add_directory(side, path, role, error);
    FILE *file = fopen(path, "rb");
    const int first = file ? fgetc(file) : '#'; /* a file that is not there: reading it will say so */
    if (file) fclose(file);
    if (first == '#') return side_add_digest_file(side, path, error);
    hdf5_start();
    if (H5Fis_hdf5(path) > 0) return side_add_hdf5(side, path, NULL, error);
    H5Eclear2(H5E_DEFAULT);
    text_add(error, "'%s' is no output directory, HDF5 file or digest file of pipeleaf", path);
    return false;
}

bool side_open(struct side **opened, const char *path, const char *role, struct text *error)
{
    struct side *side = allocate(1, sizeof *side);
    side->name = copy_text(path);
    if (!add_any(side, path, role, error)) {
        side_close(side);
        return false;
    }
    merge_entries(side);
    *opened = side;
    return true;
}

bool side_skim(struct side **opened, const char *directory, struct text *error)
{
    struct side *side = allocate(1, sizeof *side);
    side->name = copy_text(directory);
    side->skims = true;
    bool good = side_add_directory(side, directory, "run", error);
    if (good && strcmp(side->kind, "run")) {
        text_add(error, "'%s' holds a reference and no run", directory);
        good = false;
    }
    if (good) {
        merge_entries(side);
        *opened = side;
    } else {
        side_close(side);
    }
    return good;
}

struct side *side_of_lines(
    const struct facts *facts, const struct tensor_digest *line, size_t count, const char *name)
{
    struct side *side = allocate(1, sizeof *side);
    side->name = copy_text(name);
    side_adopt(side, facts, name);
    add_lines(side, line, count);
    merge_entries(side);
    return side;
}

const char *side_kind(const struct side *side)
{
    return side->kind;
}

void side_close(struct side *side)
{
    if (!side) return;
    for (int i = 0; i < side->files; i++) tensor_file_close(side->file[i]);
    free(side->file);
    free(side->entry);
    free(side->rank_of_layer);
    free(side->deck);
    free(side->name);
    text_free(&side->problems);
    free(side);
}

bool side_deck_value(const struct side *side, const char *parameter, char *value, size_t size)
{
    if (!side->deck) return false;
    const size_t length = strlen(parameter);
    for (const char *at = side->deck; (at = strcasestr(at, parameter)); at += length) {
        const bool whole_word = at == side->deck || !(isalnum((unsigned char)at[-1]) || at[-1] == '_');
        char quote;
        if (!whole_word || sscanf(at + length, " = %c", &quote) != 1 || (quote != '\'' && quote != '"'))
            continue;
        const char *begin = strchr(at + length, quote) + 1, *end = strchr(begin, quote);
        if (!end || (size_t)(end - begin) >= size) return false;
        snprintf(value, size, "%.*s", (int)(end - begin), begin);
        return true;
    }
    return false;
}

int side_rank(const struct side *side, const struct entry *entry)
{
    if (strcmp(side->kind, "run")) return -1;
    if (entry->file >= 0) return side->file[entry->file]->facts.rank;
    switch (entry->tensor.class) {
    case TENSOR_INPUT:
    case TENSOR_TARGET:
    case TENSOR_LOSS: return -1;
    default: return side->rank_of_layer ? side->rank_of_layer[entry->tensor.layer] : -1;
    }
}
