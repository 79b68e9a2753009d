#include "report/digests.h"
#include "report/digest_order.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char portable[] = "portable"; /* of a file that does not say */
static const char first_line[] = "# pipeleaf digests 1";

int digest_order(const void *a, const void *b)
{
    const struct tensor_digest *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    return tensor_compare(x->tensor, y->tensor);
}

/* "STEP NAME f32 [EXTENTS] SUM WEIGHTED nan=N absmax=A", without the line feed: the one form in which a line
   is written, and so the one that is read. */
static void add_line(struct text *text, const struct model *model, const struct tensor_digest *line)
{
    char name[TENSOR_NAME];
    size_t extents[3];
    const int rank = tensor_extents(model, line->tensor, extents);
    text_add(text, "%d %s f32 [", line->step, tensor_name(line->tensor, name));
    for (int i = 0; i < rank; i++) text_add(text, "%s%zu", i ? "," : "", extents[i]);
    text_add(text, "] %016" PRIx64 " %016" PRIx64 " nan=%" PRIu64 " absmax=%a", line->digest.sum,
        line->digest.weighted, line->digest.nan, (double)line->digest.absmax);
}

void digests_sort(struct tensor_digest *line, size_t count)
{
    qsort(line, count, sizeof *line, digest_order);
}

void digests_fingerprint(
    const struct model *model, const struct tensor_digest *line, size_t count, char hex[17])
{
    struct text text = { 0 };
    char all[65];
    for (size_t i = 0; i < count; i++) {
        add_line(&text, model, &line[i]);
        text_add(&text, "\n");
    }
    sha256_hex(text.data, text.length, all);
    snprintf(hex, 17, "%.16s", all);
    text_free(&text);
}

void digest_file_write(const char *path, const struct facts *facts, struct tensor_digest *line, size_t count)
{
    digests_sort(line, count);
    const struct model *m = &facts->model;
    struct text text = { 0 };
    text_add(&text, "%s\n# kind %s\n# run %s\n# identity %s\n", first_line, facts->kind, facts->run_id,
        facts->identity);
    if (facts->arithmetic && strcmp(facts->arithmetic, portable))
        text_add(&text, "# arithmetic %s\n", facts->arithmetic);
    text_add(&text, "# recorded %d\n", facts->recorded_step);
    text_add(&text,
        "# layers %d hidden %d heads %d ffn %d sequence %d microbatches %d microbatch_size %d seed %" PRIu64
        "\n",
        m->layers, m->hidden, m->heads, m->ffn, m->sequence, m->microbatches, m->microbatch_size, m->seed);
    if (facts->rank_of_layer) {
        text_add(&text, "# ranks");
        for (int layer = 0; layer < m->layers; layer++) text_add(&text, " %d", facts->rank_of_layer[layer]);
        text_add(&text, "\n");
    }
    for (size_t i = 0; i < count; i++) {
        add_line(&text, m, &line[i]);
        text_add(&text, "\n");
    }
    text_add(&text, "# end %zu\n", count);
    write_whole_file(path, text.data, text.length);
    text_free(&text);
}

/* Reading: the text is cut into lines in place. */
struct reader {
    const char *path;
    char *next; /* NULL: no more lines */
    int number;
    struct text *error;
};

/* The next line, or NULL at the end. What has no line feed at its end is no line. */
static char *next_line(struct reader *reader)
{
    char *line = reader->next, *end = strchr(line, '\n');
    if (!end) return NULL;
    *end = 0;
    reader->next = end + 1;
    reader->number++;
    return line;
}

static bool wrong(const struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(const struct reader *reader, const char *format, ...)
{
    text_add(reader->error, "%s:%d: ", reader->path, reader->number);
    va_list arguments;
    va_start(arguments, format);
    text_add_list(reader->error, format, arguments);
    va_end(arguments);
    return false;
}

static bool cut_short(struct reader *reader)
{
    reader->number++;
    return wrong(reader, "the file ends before its last line, '# end COUNT'");
}

/* A line "# KEY VALUE" whose value is one word shorter than `size`. */
static bool read_word(struct reader *reader, const char *key, char *value, size_t size)
{
    const char *line = next_line(reader);
    if (!line) return cut_short(reader);
    const size_t length = strlen(key);
    if (strncmp(line, "# ", 2) || strncmp(line + 2, key, length) || line[2 + length] != ' ')
        return wrong(reader, "'%.60s': must be '# %s ...'", line, key);
    const char *word = line + 3 + length;
    if (!*word || strlen(word) >= size || strchr(word, ' '))
        return wrong(reader, "'%.100s': must be one word", line);
    snprintf(value, size, "%s", word);
    return true;
}

static bool read_model(struct reader *reader, struct model *m)
{
    const char *line = next_line(reader);
    if (!line) return cut_short(reader);
    int used = 0;
    const int found = sscanf(line,
        "# layers %d hidden %d heads %d ffn %d sequence %d microbatches %d microbatch_size %d seed %" SCNu64
        "%n",
        &m->layers, &m->hidden, &m->heads, &m->ffn, &m->sequence, &m->microbatches, &m->microbatch_size,
        &m->seed, &used);
    if (found != 8 || line[used] || m->layers < 1 || m->hidden < 1 || m->heads < 1 || m->ffn < 1 ||
        m->sequence < 1 || m->microbatches < 1 || m->microbatch_size < 1)
        return wrong(reader, "'%.60s': must be '# layers ... seed ...'", line);
    return true;
}

static bool read_ranks(struct reader *reader, struct digest_file *file)
{
    if (strncmp(reader->next, "# ranks ", 8)) return true; /* not known */
    char *line = next_line(reader);
    if (!line) return cut_short(reader);
    file->rank_of_layer = allocate((size_t)file->model.layers, sizeof *file->rank_of_layer);
    char *at = line + strlen("# ranks");
    for (int layer = 0; layer < file->model.layers; layer++) {
        char *end;
        file->rank_of_layer[layer] = (int)strtol(at, &end, 10);
        if (end == at)
            return wrong(reader, "%d layers must have %d ranks", file->model.layers, file->model.layers);
        at = end;
    }
    return *at ? wrong(reader, "more ranks than the %d layers", file->model.layers) : true;
}

/* The rest of its line; a file without one is of portable arithmetic. */
static bool read_arithmetic(struct reader *reader, char *arithmetic, size_t size)
{
    static const char start[] = "# arithmetic ";
    snprintf(arithmetic, size, "%s", portable);
    if (strncmp(reader->next, start, sizeof start - 1)) return true;
    const char *line = next_line(reader);
    if (!line) return cut_short(reader);
    const int length = snprintf(arithmetic, size, "%s", line + sizeof start - 1);
    return (size_t)length < size ? true : wrong(reader, "'%.60s...' is too long", line);
}

static bool read_header(struct reader *reader, struct digest_file *file)
{
    const char *line = next_line(reader);
    if (!line) return cut_short(reader);
    if (strcmp(line, first_line)) return wrong(reader, "'%.60s': must be '%s'", line, first_line);
    char recorded[16];
    if (!read_word(reader, "kind", file->kind, sizeof file->kind) ||
        !read_word(reader, "run", file->run_id, sizeof file->run_id) ||
        !read_word(reader, "identity", file->identity, sizeof file->identity) ||
        !read_arithmetic(reader, file->arithmetic, sizeof file->arithmetic) ||
        !read_word(reader, "recorded", recorded, sizeof recorded))
        return false;
    file->recorded_step = atoi(recorded);
    if (file->recorded_step < 1) return wrong(reader, "recorded step '%s': must be at least 1", recorded);
    return read_model(reader, &file->model) && read_ranks(reader, file);
}

static bool read_digest(
    struct reader *reader, const char *line, const struct model *model, struct tensor_digest *digest)
{
    char name[TENSOR_NAME], extents[80];
    double absmax;
    *digest = (struct tensor_digest){ 0 };
    const int found = sscanf(line,
        "%" SCNd32 " %95s f32 %79s %16" SCNx64 " %16" SCNx64 " nan=%" SCNu64 " absmax=%lf", &digest->step,
        name, extents, &digest->digest.sum, &digest->digest.weighted, &digest->digest.nan, &absmax);
    if (found != 7)
        return wrong(reader, "'%.60s': must be 'STEP NAME f32 [EXTENTS] SUM WEIGHTED nan=N absmax=A'", line);
    if (digest->step < 1) return wrong(reader, "step %d: steps count from 1", digest->step);
    if (!tensor_parse(name, &digest->tensor) || !tensor_exists(model, digest->tensor))
        return wrong(reader, "'%s': this model has no tensor of this name", name);
    digest->digest.absmax = (float)absmax;
    /* Written again, it must be the same line: this finds wrong extents and every other spelling. */
    struct text again = { 0 };
    add_line(&again, model, digest);
    const bool same = !strcmp(again.data, line);
    if (!same) wrong(reader, "'%.200s': would be written '%s'", line, again.data);
    text_free(&again);
    return same;
}

static bool read_lines(struct reader *reader, struct digest_file *file)
{
    size_t capacity = 0;
    for (const char *line; (line = next_line(reader));) {
        if (line[0] == '#') {
            char end[40];
            snprintf(end, sizeof end, "# end %zu", file->count);
            if (strcmp(line, end))
                return wrong(reader, "'%.60s': %zu lines of digests end with '%s'", line, file->count, end);
            return *reader->next ? wrong(reader, "there is more after the last line") : true;
        }
        if (file->count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            file->line = realloc(file->line, capacity * sizeof *file->line);
            if (!file->line) fail("out of memory: %zu digests", capacity);
        }
        struct tensor_digest *digest = &file->line[file->count];
        if (!read_digest(reader, line, &file->model, digest)) return false;
        const int order = file->count ? digest_order(digest - 1, digest) : -1;
        if (order == 0) return wrong(reader, "the same tensor of the same step twice");
        if (order > 0) return wrong(reader, "out of order: the line before comes later in dataflow");
        file->count++;
    }
    return cut_short(reader);
}

bool digest_file_read(const char *path, struct digest_file *file, struct text *error)
{
    struct text text = { 0 };
    *file = (struct digest_file){ 0 };
    bool good = text_read_file(&text, path, error);
    if (good) {
        struct reader reader = { .path = path, .next = text.data, .error = error };
        good = strlen(text.data) == text.length || wrong(&reader, "a zero byte: this is no digest file");
        good = good && read_header(&reader, file) && read_lines(&reader, file);
        if (!good) digest_file_free(file);
    }
    text_free(&text);
    return good;
}

void digest_file_free(struct digest_file *file)
{
    free(file->line);
    free(file->rank_of_layer);
    *file = (struct digest_file){ 0 };
}
