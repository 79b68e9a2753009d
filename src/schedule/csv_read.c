/* PyTorch's pipelining CSV: from its actions to a schedule. What a single row or cell shows to be wrong is
   refused here, with its place; what only all ranks together show (a deadlock, the order of microbatches) is
   left to program_check. Sends and receives are checked and dropped: lowering makes its own. */
#include "csv.h"
#include <stdlib.h>
#include <string.h>

struct reading {
    const struct csv_file *file;
    int stages, microbatches;
    int *rank_of; /* [stages] */
    struct text *error;
};

/* Begins a message with an action's place and the action. */
static void blame(const struct reading *r, const struct csv_action *action)
{
    csv_place(r->file, action->row, action->column, r->error);
    csv_add(r->error, action->code, action->stage, action->microbatch, r->file->dialect);
    text_add(r->error, ": ");
}

/* The same where an action is missing: its place is past the end of the row that should hold it. */
static bool missing(const struct reading *r, enum csv_code code, int stage, int microbatch, const char *why)
{
    const int row = r->rank_of[stage];
    csv_place(r->file, row, r->file->cells[row], r->error);
    text_add(r->error, "the row ends without ");
    csv_add(r->error, code, stage, microbatch, r->file->dialect);
    text_add(r->error, "%s", why);
    return false;
}

static bool check_rows(const struct reading *r, int ranks)
{
    const struct csv_file *file = r->file;
    if (file->rows != ranks) {
        csv_place(file, file->rows > ranks ? ranks : file->rows, 0, r->error);
        text_add(r->error, "the file has %d row%s: must be one for each of pipeline.ranks=%d", file->rows,
            file->rows == 1 ? "" : "s", ranks);
        if (file->rows) text_add(r->error, "; nearest pipeline.ranks=%d", file->rows);
        return false;
    }
    if (file->communicates && file->empty_row >= 0) {
        csv_place(file, file->empty_row, file->empty_column, r->error);
        text_add(r->error, "an empty cell: a file with sends, receives or shards has no idle steps");
        return false;
    }
    return true;
}

/* rank_of, from the row in which each stage is found. */
static bool place_stages(struct reading *r)
{
    const struct csv_file *file = r->file;
    const struct csv_action *highest = NULL;
    /* Stages are numbered without gaps, so none is as great as the number of actions. */
    const struct csv_action **first = allocate(file->count, sizeof *first);
    bool *has_stage = allocate((size_t)file->rows, sizeof *has_stage);
    bool good = true;
    for (size_t i = 0; good && i < file->count; i++) {
        const struct csv_action *a = &file->actions[i];
        if (!highest || a->stage > highest->stage) highest = a;
        if ((size_t)a->stage >= file->count) continue;
        has_stage[a->row] = true;
        if (!first[a->stage]) first[a->stage] = a;
        if (first[a->stage]->row == a->row) continue;
        blame(r, a);
        text_add(r->error, "stage %d is of row %d already, whose cell %d has it; a stage has one row",
            a->stage, first[a->stage]->row + 1, first[a->stage]->column + 1);
        good = false;
    }
    for (size_t stage = 0; good && highest && (int)stage < highest->stage; stage++) {
        if (stage < file->count && first[stage]) continue;
        blame(r, highest);
        text_add(r->error, "no row has stage %zu: stages must be numbered from 0 without gaps", stage);
        good = false;
    }
    for (int row = 0; good && row < file->rows; row++) {
        if (has_stage[row]) continue;
        csv_place(file, row, 0, r->error);
        text_add(r->error, "a row without actions: each rank must hold a stage");
        good = false;
    }
    if (good) {
        r->stages = highest->stage + 1;
        r->rank_of = allocate((size_t)r->stages, sizeof *r->rank_of);
        for (int stage = 0; stage < r->stages; stage++) r->rank_of[stage] = first[stage]->row;
    }
    free(first);
    free(has_stage);
    return good;
}

static int by_pair(const void *x, const void *y)
{
    const struct csv_action *a = *(const struct csv_action *const *)x,
                            *b = *(const struct csv_action *const *)y;
    if (a->stage != b->stage) return a->stage < b->stage ? -1 : 1;
    if (a->microbatch != b->microbatch) return a->microbatch < b->microbatch ? -1 : 1;
    return (a > b) - (a < b);
}

/* Whether the output of `stage` to the next one crosses ranks. */
static bool crosses(const struct reading *r, int stage)
{
    return stage >= 0 && stage + 1 < r->stages && r->rank_of[stage] != r->rank_of[stage + 1];
}

/* A message that this stage does not send or receive: why. */
static bool no_message(const struct reading *r, const struct csv_action *action)
{
    const bool back = action->code == CSV_RECV_F || action->code == CSV_SEND_B; /* with the stage before */
    const int other = action->stage + (back ? -1 : 1);
    blame(r, action);
    if (other < 0 || other >= r->stages)
        text_add(
            r->error, "stage %d is the %s: it has no such message", action->stage, back ? "first" : "last");
    else
        text_add(r->error, "stages %d and %d are both of row %d: what one rank hands to itself is no message",
            action->stage, other, action->row + 1);
    return false;
}

/* All actions of a stage for a microbatch: each that must be, once, in an order that can be run. found: by
   code, NULL where there is none. */
static bool check_pair(
    const struct reading *r, int stage, int microbatch, const struct csv_action *const found[CSV_CODES])
{
    static const enum csv_code before[][2] = { { CSV_RECV_F, CSV_F }, { CSV_F, CSV_SEND_F }, { CSV_F, CSV_B },
        { CSV_F, CSV_I }, { CSV_RECV_B, CSV_B }, { CSV_RECV_B, CSV_I }, { CSV_B, CSV_SEND_B },
        { CSV_I, CSV_SEND_B }, { CSV_I, CSV_W } };
    static const enum csv_code halves[] = { CSV_I, CSV_W };
    const enum csv_dialect dialect = r->file->dialect;
    const bool older = dialect == CSV_OLDER;
    if (!found[CSV_F]) {
        missing(r, CSV_F, stage, microbatch, "");
        text_add(r->error, ": batch.microbatches=%d has the microbatches 0 to %d", r->microbatches,
            r->microbatches - 1);
        return false;
    }
    if (!found[CSV_B] && !found[CSV_I] && !found[CSV_W])
        return missing(r, CSV_B, stage, microbatch, older ? ", or B and W" : ", or I and W");
    for (int i = 0; i < 2 && found[CSV_B]; i++) {
        const struct csv_action *half = found[halves[i]];
        if (!half) continue;
        blame(r, half);
        text_add(r->error, "the %s in column %d is the whole backward, and this would be done twice",
            csv_name(CSV_B, dialect), found[CSV_B]->column + 1);
        if (!older) text_add(r->error, " (to pipeline.schedule_dialect='older' B is a half)");
        return false;
    }
    for (int i = 0; i < 2 && !found[CSV_B]; i++)
        if (!found[halves[i]])
            return missing(r, halves[i], stage, microbatch,
                older && halves[i] == CSV_W ? ", the other half of its backward (to "
                                              "pipeline.schedule_dialect='current' B is the whole)"
                                            : ", the other half of its backward");
    for (enum csv_code code = CSV_SEND_F; code <= CSV_RECV_B; code++) {
        const bool back = code == CSV_RECV_F || code == CSV_SEND_B;
        const bool needed = crosses(r, back ? stage - 1 : stage);
        if (found[code] && !needed) return no_message(r, found[code]);
        if (!found[code] && needed && r->file->communicates)
            return missing(r, code, stage, microbatch, ": a message must be sent and received");
    }
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        const struct csv_action *first = found[before[i][0]], *second = found[before[i][1]];
        if (!first || !second || first < second) continue;
        blame(r, second);
        text_add(r->error, "must come after ");
        csv_add(r->error, first->code, stage, microbatch, dialect);
        text_add(r->error, ", which is in column %d", first->column + 1);
        return false;
    }
    return true;
}

static bool check_pairs(const struct reading *r)
{
    const struct csv_action **sorted = allocate(r->file->count, sizeof *sorted);
    size_t count = 0, next = 0;
    for (size_t i = 0; i < r->file->count; i++)
        if (r->file->actions[i].microbatch >= 0) sorted[count++] = &r->file->actions[i];
    qsort(sorted, count, sizeof *sorted, by_pair);
    bool good = true;
    for (int stage = 0; good && stage < r->stages; stage++)
        for (int m = 0; good && m < r->microbatches; m++) {
            const struct csv_action *found[CSV_CODES] = { 0 };
            for (; good && next < count && sorted[next]->stage == stage && sorted[next]->microbatch == m;
                 next++) {
                const struct csv_action *a = sorted[next];
                if (found[a->code]) {
                    blame(r, a);
                    text_add(r->error, "is in column %d already", found[a->code]->column + 1);
                    good = false;
                }
                found[a->code] = a;
            }
            good = good && check_pair(r, stage, m, found);
        }
    free(sorted);
    return good;
}

/* A message of a channel, as its sender or its receiver names it. */
struct message {
    const struct csv_action *action;
    int kind, from, to;
};

static int by_channel(const void *x, const void *y)
{
    const struct message *a = x, *b = y;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    if (a->to != b->to) return a->to < b->to ? -1 : 1;
    return (a->action > b->action) - (a->action < b->action);
}

/* The messages that are sent, or those that are received, channel by channel; as many as *count says. Each
   stage has its messages by now, so that both lists are equally long and of the same channels. */
static struct message *list_messages(const struct reading *r, bool sent, size_t *count)
{
    struct message *list = allocate(r->file->count, sizeof *list);
    *count = 0;
    for (size_t i = 0; i < r->file->count; i++) {
        const struct csv_action *a = &r->file->actions[i];
        const enum csv_code forward = sent ? CSV_SEND_F : CSV_RECV_F,
                            backward = sent ? CSV_SEND_B : CSV_RECV_B;
        if (a->code != forward && a->code != backward) continue;
        const int onward = a->code == forward ? 1 : -1;
        const int other = r->rank_of[a->stage + (sent ? onward : -onward)];
        list[(*count)++] =
            (struct message){ a, a->code == backward, sent ? a->row : other, sent ? other : a->row };
    }
    qsort(list, *count, sizeof *list, by_channel);
    return list;
}

/* Messages have no names on the way: the k-th receive of a channel takes what the k-th send sent. */
static bool check_messages(const struct reading *r)
{
    size_t count, same;
    struct message *sent = list_messages(r, true, &count), *received = list_messages(r, false, &same);
    bool good = true;
    for (size_t i = 0; good && i < count && i < same; i++) {
        const struct csv_action *s = sent[i].action, *t = received[i].action;
        if (t->stage == s->stage + (sent[i].kind ? -1 : 1) && t->microbatch == s->microbatch) continue;
        blame(r, t);
        text_add(r->error, "takes the message of ");
        csv_add(r->error, s->code, s->stage, s->microbatch, r->file->dialect);
        text_add(r->error, " (row %d, column %d), which rank %d sends rank %d at this place", s->row + 1,
            s->column + 1, s->row, t->row);
        good = false;
    }
    free(sent);
    free(received);
    return good;
}

/* Sharded weights and their gradients' reduction mean nothing here, where each rank has its chunks whole;
   they are ignored where PyTorch could run them, and refused elsewhere. */
static bool check_shards(const struct reading *r)
{
    enum { WHOLE, GATHERED, SHARDED };
    struct stage {
        char state;
        bool computed, reduced;
        int backwards;
    } *stages = allocate((size_t)r->stages, sizeof *stages);
    const char *wrong = NULL;
    const struct csv_action *a = r->file->actions;
    for (size_t i = 0; !wrong && i < r->file->count; i++) {
        a = &r->file->actions[i];
        struct stage *stage = &stages[a->stage];
        if (a->code <= CSV_W) {
            if (stage->state == SHARDED)
                wrong = "must come after an UNSHARD of its stage: a RESHARD is before it";
            stage->computed = true;
            stage->backwards += a->code == CSV_B || a->code == CSV_W;
        } else if (a->code == CSV_UNSHARD) {
            if (stage->state == GATHERED) wrong = "its stage is unsharded already";
            if (stage->state == WHOLE && stage->computed)
                wrong = "must come before the first compute of its stage";
            stage->state = GATHERED;
        } else if (a->code == CSV_RESHARD) {
            if (stage->state != GATHERED) wrong = "must come after an UNSHARD of its stage";
            stage->state = SHARDED;
        } else if (a->code == CSV_REDUCE_GRAD) {
            if (stage->backwards < r->microbatches) wrong = "must come after all backwards of its stage";
            if (stage->reduced) wrong = "must be once a stage, and is in its row already";
            stage->reduced = true;
        }
    }
    if (wrong) {
        blame(r, a);
        text_add(r->error, "%s", wrong);
    }
    free(stages);
    return !wrong;
}

static void make_schedule(const struct reading *r, struct schedule *schedule)
{
    const struct csv_file *file = r->file;
    const size_t rows = (size_t)file->rows;
    *schedule = (struct schedule){
        .ranks = file->rows,
        .chunks = r->stages,
        .microbatches = r->microbatches,
        .rank_of = allocate((size_t)r->stages, sizeof *schedule->rank_of),
        .order = allocate(rows, sizeof *schedule->order),
        .count = allocate(rows, sizeof *schedule->count),
    };
    memcpy(schedule->rank_of, r->rank_of, (size_t)r->stages * sizeof *schedule->rank_of);
    for (size_t i = 0; i < file->count; i++)
        if (file->actions[i].code <= CSV_W) schedule->count[file->actions[i].row]++;
    for (int rank = 0; rank < file->rows; rank++) {
        schedule->order[rank] = allocate((size_t)schedule->count[rank], sizeof **schedule->order);
        schedule->count[rank] = 0;
    }
    for (size_t i = 0; i < file->count; i++) {
        const struct csv_action *a = &file->actions[i];
        if (a->code <= CSV_W)
            schedule->order[a->row][schedule->count[a->row]++] =
                (struct compute){ (enum compute_kind)a->code, a->stage, a->microbatch };
    }
}

bool schedule_read_csv(struct schedule *schedule, const char *path, const char *text, size_t length,
    enum csv_dialect dialect, int ranks, int microbatches, struct text *error)
{
    struct csv_file file;
    struct reading reading = { .file = &file, .microbatches = microbatches, .error = error };
    const bool good = csv_parse(&file, path, text, length, dialect, microbatches, error) &&
                      check_rows(&reading, ranks) && place_stages(&reading) && check_pairs(&reading) &&
                      check_messages(&reading) && check_shards(&reading);
    *schedule = (struct schedule){ 0 };
    if (good) make_schedule(&reading, schedule);
    free(reading.rank_of);
    csv_free(&file);
    return good;
}
