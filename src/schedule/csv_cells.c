/* PyTorch's pipelining CSV: from text to actions. The grammar, of which every cell must match in full
   (PyTorch itself stops at the first part that matches):

       file    = { row end-of-line }                   row i is rank i; LF or CRLF; the last one may be
   missing row     = cell { "," cell }                     rows may differ in length cell    = [ action ]
   blanks around it allowed; an empty one is an idle step action  = simple | "(" F ";" backward ")OVERLAP_F_B"
       simple  = stage code [ microbatch ]             numbers in decimal
       code    = F B I W SEND_F RECV_F SEND_B RECV_B                                  with a microbatch
               | UNSHARD RESHARD REDUCE_GRAD                                          without

   In older files BW stands for B, and B for I; they have neither REDUCE_GRAD nor OVERLAP_F_B. The stage is
   the one that acts. Source: torch/distributed/pipelining/schedules.py; the dialect changed with PyTorch's
   pull request 138886. */
#include "csv.h"
#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *current, *older;
} names[CSV_CODES] = {
    [CSV_F] = { "F", "F" },
    [CSV_B] = { "B", "BW" },
    [CSV_I] = { "I", "B" },
    [CSV_W] = { "W", "W" },
    [CSV_SEND_F] = { "SEND_F", "SEND_F" },
    [CSV_RECV_F] = { "RECV_F", "RECV_F" },
    [CSV_SEND_B] = { "SEND_B", "SEND_B" },
    [CSV_RECV_B] = { "RECV_B", "RECV_B" },
    [CSV_UNSHARD] = { "UNSHARD", "UNSHARD" },
    [CSV_RESHARD] = { "RESHARD", "RESHARD" },
    [CSV_REDUCE_GRAD] = { "REDUCE_GRAD", NULL },
};

const char *csv_name(enum csv_code code, enum csv_dialect dialect)
{
    return dialect == CSV_OLDER ? names[code].older : names[code].current;
}

static bool has_microbatch(enum csv_code code)
{
    return code < CSV_UNSHARD;
}

void csv_add(struct text *out, enum csv_code code, int stage, int microbatch, enum csv_dialect dialect)
{
    text_add(out, "%d%s", stage, csv_name(code, dialect));
    if (has_microbatch(code)) text_add(out, "%d", microbatch);
}

void csv_place(const struct csv_file *file, int row, int column, struct text *out)
{
    text_add(out, "%s:%d:%d: ", file->path, row + 1, column + 1);
}

/* Part of a line. */
struct span {
    const char *at, *end;
};

static void add_span(struct text *out, struct span span)
{
    const ptrdiff_t most = 60;
    const bool cut = span.end - span.at > most;
    for (const char *c = span.at; c < (cut ? span.at + most : span.end); c++) {
        const unsigned char letter = (unsigned char)*c;
        text_add(out, letter < 32 || letter >= 127 ? "\\x%02x" : "%c", letter);
    }
    if (cut) text_add(out, "...");
}

static bool take_number(struct span *rest, int *number)
{
    long long value = 0;
    const char *start = rest->at;
    for (; rest->at < rest->end && isdigit((unsigned char)*rest->at); rest->at++)
        if (value <= INT_MAX) value = 10 * value + (*rest->at - '0');
    *number = value > INT_MAX ? INT_MAX : (int)value;
    return rest->at > start;
}

static int find_code(struct span word, enum csv_dialect dialect)
{
    for (int code = 0; code < CSV_CODES; code++) {
        const char *name = csv_name(code, dialect);
        if (name && strlen(name) == (size_t)(word.end - word.at) && memcmp(name, word.at, strlen(name)) == 0)
            return code;
    }
    return -1;
}

/* A word that this dialect does not have, and whether the other one does. The other is never tried. */
static void no_such_code(struct span word, enum csv_dialect dialect, struct text *why)
{
    const enum csv_dialect other = dialect == CSV_OLDER ? CSV_CURRENT : CSV_OLDER;
    text_add(why, "'");
    add_span(why, word);
    text_add(why, "' after the stage is no action: must be one of ");
    for (int code = 0; code < CSV_CODES; code++)
        if (csv_name(code, dialect)) text_add(why, "%s%s", code ? " " : "", csv_name(code, dialect));
    if (find_code(word, other) >= 0)
        text_add(why, "; pipeline.schedule_dialect='%s' has it", other == CSV_OLDER ? "older" : "current");
}

/* STAGE CODE MICROBATCH, all of `cell`. False with the reason in *why. */
static bool parse_simple(struct span cell, const struct csv_file *file, int microbatches,
    struct csv_action *action, struct text *why)
{
    struct span rest = cell;
    if (!take_number(&rest, &action->stage)) {
        text_add(why, "must begin with the number of a stage, as 0F0 does");
        return false;
    }
    if (action->stage == INT_MAX) {
        text_add(why, "the number of the stage is too great: stages are numbered from 0 without gaps");
        return false;
    }
    struct span word = { rest.at, rest.at };
    while (word.end < rest.end && !isdigit((unsigned char)*word.end)) word.end++;
    const int code = find_code(word, file->dialect);
    if (code < 0) {
        no_such_code(word, file->dialect, why);
        return false;
    }
    action->code = code;
    rest.at = word.end;
    const bool numbered = take_number(&rest, &action->microbatch);
    const char *name = csv_name(code, file->dialect);
    if (!numbered) action->microbatch = -1;
    if (numbered && !has_microbatch(code)) {
        text_add(why, "%s has no microbatch; nearest %d%s", name, action->stage, name);
    } else if (!numbered && has_microbatch(code)) {
        text_add(why, "%s must have a microbatch after it, as in %d%s0", name, action->stage, name);
    } else if (rest.at < rest.end) {
        text_add(why, "'");
        add_span(why, rest);
        text_add(why, "' after the action: must be a comma or the end of the row");
    } else if (numbered && action->microbatch >= microbatches) {
        text_add(why, "batch.microbatches=%d has the microbatches 0 to %d", microbatches, microbatches - 1);
        if (action->microbatch < INT_MAX)
            text_add(why, "; nearest batch.microbatches=%d", action->microbatch + 1);
    }
    return why->length == 0;
}

/* (STAGE F MICROBATCH;STAGE B MICROBATCH)OVERLAP_F_B: a forward and a backward that PyTorch may run beside
   each other. One device here computes one action at a time, so they are its two actions in the order
   written. */
static bool parse_overlap(struct span cell, const struct csv_file *file, int microbatches,
    struct csv_action action[2], struct text *why)
{
    static const char end[] = ")OVERLAP_F_B";
    const size_t length = (size_t)(cell.end - cell.at);
    const char *middle = memchr(cell.at, ';', length);
    if (file->dialect == CSV_OLDER) {
        text_add(why, "older files have no OVERLAP_F_B; pipeline.schedule_dialect='current' has it");
        return false;
    }
    if (length < sizeof end || !middle || memcmp(cell.end - (sizeof end - 1), end, sizeof end - 1) != 0) {
        text_add(why, "must be an F and a backward in the form (0F1;1B0)OVERLAP_F_B");
        return false;
    }
    const struct span first = { cell.at + 1, middle }, second = { middle + 1, cell.end - (sizeof end - 1) };
    if (!parse_simple(first, file, microbatches, &action[0], why) ||
        !parse_simple(second, file, microbatches, &action[1], why))
        return false;
    if (action[0].code != CSV_F || (action[1].code != CSV_B && action[1].code != CSV_I))
        text_add(why, "must be an F and then a B or I, as in (0F1;1B0)OVERLAP_F_B");
    return why->length == 0;
}

static void append(struct csv_file *file, struct csv_action action)
{
    if (file->count == file->capacity) {
        file->capacity = file->capacity ? 2 * file->capacity : 256;
        file->actions = realloc(file->actions, file->capacity * sizeof *file->actions);
        if (!file->actions) fail("out of memory: %zu actions of '%s'", file->capacity, file->path);
    }
    if (action.code > CSV_W) file->communicates = true;
    file->actions[file->count++] = action;
}

static bool parse_cell(
    struct csv_file *file, struct span cell, int row, int column, int microbatches, struct text *error)
{
    while (cell.at < cell.end && strchr(" \t", *cell.at) && *cell.at) cell.at++;
    while (cell.at < cell.end && strchr(" \t", cell.end[-1]) && cell.end[-1]) cell.end--;
    if (cell.at == cell.end) {
        if (file->empty_row < 0) {
            file->empty_row = row;
            file->empty_column = column;
        }
        return true;
    }
    const struct csv_action here = { .row = row, .column = column };
    struct csv_action action[2] = { here, here };
    struct text why = { 0 };
    const bool overlap = *cell.at == '(';
    const bool good = overlap ? parse_overlap(cell, file, microbatches, action, &why)
                              : parse_simple(cell, file, microbatches, action, &why);
    if (good) {
        append(file, action[0]);
        if (overlap) append(file, action[1]);
    } else {
        csv_place(file, row, column, error);
        text_add(error, "'");
        add_span(error, cell);
        text_add(error, "': %s", why.data);
    }
    text_free(&why);
    return good;
}

bool csv_parse(struct csv_file *file, const char *path, const char *text, size_t length,
    enum csv_dialect dialect, int microbatches, struct text *error)
{
    *file = (struct csv_file){ .path = path, .dialect = dialect, .empty_row = -1, .empty_column = -1 };
    if (length > INT_MAX / 2) { /* so that every count below fits an int */
        text_add(error, "%s: has %zu bytes: must have at most %d", path, length, INT_MAX / 2);
        return false;
    }
    size_t rows = 1;
    for (size_t i = 0; i < length; i++) rows += text[i] == '\n';
    file->cells = allocate(rows, sizeof *file->cells);
    const struct span all = { text, text + length };
    struct span line = all;
    for (; line.at < all.end; line.at = line.end + 1) {
        const char *next = memchr(line.at, '\n', (size_t)(all.end - line.at));
        line.end = next ? next : all.end;
        const int row = file->rows++;
        struct span rest = { line.at, line.end };
        if (next && rest.end > rest.at && rest.end[-1] == '\r') rest.end--;
        for (bool more = true; more;) {
            const char *comma = memchr(rest.at, ',', (size_t)(rest.end - rest.at));
            const struct span cell = { rest.at, comma ? comma : rest.end };
            if (!parse_cell(file, cell, row, file->cells[row]++, microbatches, error)) return false;
            more = comma != NULL;
            if (more) rest.at = comma + 1;
        }
    }
    return true;
}

void csv_free(struct csv_file *file)
{
    free(file->actions);
    free(file->cells);
    *file = (struct csv_file){ 0 };
}
