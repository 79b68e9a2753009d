#include "report/compare.h"
#include "report/explain.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const verdict_text[] = { "SUCCESSFUL", "UNSUCCESSFUL", "NOT PERFORMED" };

enum { RUN, REFERENCE };

const char *const tensor_class_word[TENSOR_CLASSES] = {
    [TENSOR_ACTIVATION] = "activation",
    [TENSOR_LOSS] = "loss",
    [TENSOR_GRADIENT] = "gradient",
    [TENSOR_ACTIVATION_GRADIENT] = "activation gradient",
    [TENSOR_PARAMETER] = "parameter",
    [TENSOR_INPUT] = "input",
    [TENSOR_TARGET] = "target",
};

struct tally {
    uint64_t compared, in_full, there; /* there: on either side */
};

struct verification {
    struct examined side[2];
    struct item *item[2];
    size_t items[2];
    struct tally recorded[TENSOR_CLASSES], other;
    int other_steps;
    bool has[2][TENSOR_CLASSES];  /* the classes that the side has in the step being compared */
    bool said[2][TENSOR_CLASSES]; /* what the side lacks of the class by its deck was said */
    uint64_t missing[2];          /* tensors that the side should have, */
    struct text missing_names[2]; /* the first few of them */
    uint64_t differing, differing_in_full, differing_elements;
    struct item first[2]; /* the first that differs */
    struct comparison first_comparison;
    struct text notes;
};

static bool is_split_over_microbatches(enum tensor_class class)
{
    return class == TENSOR_ACTIVATION || class == TENSOR_ACTIVATION_GRADIENT || class == TENSOR_INPUT ||
           class == TENSOR_TARGET;
}

static void note_missing(struct verification *v, int i, int step, struct tensor tensor)
{
    char name[TENSOR_NAME];
    if (v->missing[i]++ < 3)
        text_add(&v->missing_names[i], "%sstep %d, %s", v->missing[i] > 1 ? "; " : "", step,
            tensor_name(tensor, name));
}

/* The side's entries as items. Of a layer's microbatches all must be there, where any is. */
static void make_items(struct verification *v, int i, bool same_split)
{
    const struct side *side = v->side[i].side;
    v->item[i] = allocate(side->count, sizeof(struct item));
    for (size_t e = 0, group; e < side->count; e += group) {
        struct entry *first = &side->entry[e];
        group = 1;
        if (is_split_over_microbatches(first->tensor.class)) {
            while (e + group < side->count && first[group].step == first->step &&
                   first[group].tensor.class == first->tensor.class &&
                   first[group].tensor.layer == first->tensor.layer)
                group++;
            struct tensor tensor = first->tensor;
            size_t next = 0;
            for (tensor.index = 0; tensor.index < side->model.microbatches; tensor.index++)
                if (next < group && first[next].tensor.index == tensor.index)
                    next++;
                else
                    note_missing(v, i, first->step, tensor);
        }
        if (same_split)
            for (size_t k = 0; k < group; k++)
                v->item[i][v->items[i]++] = (struct item){ first->step, first[k].tensor, first + k, 1 };
        else
            v->item[i][v->items[i]++] = (struct item){ first->step, first->tensor, first, group };
    }
}

/* The first entry of the step that is not before the tensor in dataflow: its place in the side's list. */
static size_t find_place(const struct side *side, int step, struct tensor tensor)
{
    size_t low = 0, high = side->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct entry *entry = &side->entry[middle];
        const bool before =
            entry->step != step ? entry->step < step : tensor_compare(entry->tensor, tensor) < 0;
        if (before)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Whether the side has any tensor of this class and layer in the step. */
static bool has_layer(const struct side *side, int step, enum tensor_class class, int layer)
{
    const size_t at = find_place(side, step, (struct tensor){ class, layer, 0 });
    return at < side->count && side->entry[at].step == step && side->entry[at].tensor.class == class &&
           side->entry[at].tensor.layer == layer;
}

/* The classes of which the side has a tensor in the step; returns whether it has any at all. */
static bool find_classes(const struct side *side, int step, bool has[TENSOR_CLASSES])
{
    bool any = false;
    memset(has, 0, TENSOR_CLASSES * sizeof has[0]);
    for (size_t e = 0; e < side->count; e++)
        if (side->entry[e].step == step) any = has[side->entry[e].tensor.class] = true;
    return any;
}

/* Whether the side's deck explains that it has no tensor of this class (whole), or of this layer of this
 * class. */
static bool is_absence_explained(const struct side *side, enum tensor_class class, bool whole)
{
    const bool activation = class == TENSOR_ACTIVATION || class == TENSOR_ACTIVATION_GRADIENT;
    char level[32];
    if (!activation && class != TENSOR_GRADIENT)
        return whole; /* no digests are made of them, or they need not be kept */
    if (!side_deck_value(side, activation ? "activations" : "gradients", level, sizeof level)) return whole;
    if (!strcmp(level, "none")) return true;
    if (side->has_digests) return false;
    if (!strcmp(level, "digest")) return true;
    return !strcmp(level, "boundary") && !whole;
}

/* An item that side i lacks though it has the step. */
static void note_absence(struct verification *v, int i, const struct item *item)
{
    const struct side *side = v->side[i].side;
    const enum tensor_class class = item->tensor.class;
    if (!v->has[i][class]) {
        if (is_absence_explained(side, class, true)) {
            if (!v->said[i][class])
                text_add(&v->notes, "not compared: %s: the %s has none\n", tensor_class_name[class],
                    v->side[i].role);
            v->said[i][class] = true;
            return;
        }
    } else if (is_split_over_microbatches(class)) {
        if (has_layer(side, item->step, class, item->tensor.layer)) return; /* make_items named it */
        if (is_absence_explained(side, class, false)) {
            if (!v->said[i][class])
                text_add(&v->notes,
                    "not compared: %s of layers of which the %s has none: its deck asks for those at chunk "
                    "boundaries\n",
                    tensor_class_name[class], v->side[i].role);
            v->said[i][class] = true;
            return;
        }
    }
    const bool needed_anyway = class == TENSOR_GRADIENT && item->step == side->recorded_step;
    if (!needed_anyway) note_missing(v, i, item->step, item->tensor);
}

static void compare_pair(struct verification *v, const struct item *run, const struct item *reference)
{
    const struct comparison c = compare_items(v->side, run, reference);
    struct tally *tally =
        run->step == v->side[RUN].side->recorded_step ? &v->recorded[run->tensor.class] : &v->other;
    tally->compared++;
    tally->in_full += c.in_full;
    if (c.equal) return;
    if (v->differing++ == 0) {
        v->first[RUN] = *run;
        v->first[REFERENCE] = *reference;
        v->first_comparison = c;
    }
    v->differing_in_full += c.in_full;
    v->differing_elements += c.differing;
}

/* Both lists are in the same order: one walk over both meets each pair. */
static void compare_all(struct verification *v)
{
    const struct item *at[2] = { v->item[RUN], v->item[REFERENCE] };
    const struct item *end[2] = { at[RUN] + v->items[RUN], at[REFERENCE] + v->items[REFERENCE] };
    const int recorded = v->side[RUN].side->recorded_step;
    int step = 0;
    bool common = false;
    while (at[RUN] < end[RUN] || at[REFERENCE] < end[REFERENCE]) {
        int order = at[RUN] == end[RUN]               ? 1
                    : at[REFERENCE] == end[REFERENCE] ? -1
                                                      : at[RUN]->step - at[REFERENCE]->step;
        if (order == 0) order = tensor_compare(at[RUN]->tensor, at[REFERENCE]->tensor);
        const struct item *item = order <= 0 ? at[RUN] : at[REFERENCE];
        if (item->step != step) {
            step = item->step;
            const bool in_run = find_classes(v->side[RUN].side, step, v->has[RUN]);
            common = find_classes(v->side[REFERENCE].side, step, v->has[REFERENCE]) && in_run;
            v->other_steps += common && step != recorded;
        }
        if (common) (step == recorded ? &v->recorded[item->tensor.class] : &v->other)->there++;
        if (order == 0) {
            compare_pair(v, at[RUN], at[REFERENCE]);
        } else {
            examine_item(&v->side[order > 0], item);
            if (common) note_absence(v, order < 0, item);
        }
        at[RUN] += order <= 0;
        at[REFERENCE] += order >= 0;
    }
}

/* Every parameter of every layer must have its gradient in the recorded step, on either side; a side that has
   none at all was told not to keep any. */
static void need_gradients(struct verification *v, int i)
{
    const struct side *side = v->side[i].side;
    const int step = side->recorded_step;
    bool has[TENSOR_CLASSES];
    find_classes(side, step, has);
    if (!has[TENSOR_GRADIENT] && is_absence_explained(side, TENSOR_GRADIENT, true)) return;
    for (int layer = side->model.layers - 1; layer >= 0; layer--)
        for (int parameter = PARAMETERS - 1; parameter >= 0; parameter--) {
            const struct tensor wanted = { TENSOR_GRADIENT, layer, parameter };
            const size_t at = find_place(side, step, wanted);
            if (at == side->count || side->entry[at].step != step ||
                tensor_compare(side->entry[at].tensor, wanted))
                note_missing(v, i, step, wanted);
        }
}

/* The lines of side->problems, each with the side's name before it. */
static bool print_problems(struct text *out, const struct examined *of)
{
    for (const char *line = of->side->problems.data; line && *line;) {
        const size_t length = strcspn(line, "\n");
        text_add(out, "%s: %.*s\n", of->role, (int)length, line);
        line += length + (line[length] == '\n');
    }
    return of->side->problems.length != 0;
}

/* Whether both sides say that they computed the same thing. */
static bool is_comparable(struct text *out, const struct side *run, const struct side *reference)
{
    if (!run->known || !reference->known) return false; /* it has a problem that says why */
    if (strcmp(run->identity, reference->identity)) {
        text_add(out, "files of different computations: the run's identity is %s, the reference's %s\n",
            run->identity, reference->identity);
        return false;
    }
    if (run->arithmetic[0] && reference->arithmetic[0] && strcmp(run->arithmetic, reference->arithmetic)) {
        text_add(out, "files of different arithmetic: the run's is '%s', the reference's '%s'\n",
            run->arithmetic, reference->arithmetic);
        return false;
    }
    const struct model *a = &run->model, *b = &reference->model;
    const bool same =
        run->recorded_step == reference->recorded_step && a->layers == b->layers && a->hidden == b->hidden &&
        a->heads == b->heads && a->ffn == b->ffn && a->sequence == b->sequence && a->seed == b->seed &&
        (int64_t)a->microbatches * a->microbatch_size == (int64_t)b->microbatches * b->microbatch_size;
    if (!same)
        text_add(out, "files of different computations: one identity, but not one shape of the model and "
                      "number of steps\n");
    return same;
}

static void print_counts(struct text *out, const struct verification *v)
{
    const struct side *run = v->side[RUN].side, *reference = v->side[REFERENCE].side;
    for (int class = 0; class < TENSOR_CLASSES; class ++) {
        const struct tally *t = &v->recorded[class];
        const uint64_t wanted =
            class == TENSOR_GRADIENT ? (uint64_t)run->model.layers * PARAMETERS : t->there;
        if (t->there == 0 && class != TENSOR_GRADIENT) continue;
        text_add(out,
            "compared %" PRIu64 " of %" PRIu64 " %s tensors of the recorded step %d: %" PRIu64
            " in full, %" PRIu64 " by digest\n",
            t->compared, wanted, tensor_class_word[class], run->recorded_step, t->in_full,
            t->compared - t->in_full);
    }
    if (v->other_steps)
        text_add(out, "compared %" PRIu64 " of %" PRIu64 " tensors of %d other step%s: by digest\n",
            v->other.compared, v->other.there, v->other_steps, v->other_steps > 1 ? "s" : "");
    if (run->model.microbatches != reference->model.microbatches)
        text_add(out,
            "microbatches: %d of %d and %d of %d sequences: activations are compared as sums over all of "
            "them\n",
            run->model.microbatches, run->model.microbatch_size, reference->model.microbatches,
            reference->model.microbatch_size);
}

/* What is wrong with the sides, line by line; returns whether anything is. */
static bool print_faults(struct text *out, const struct verification *v)
{
    bool wrong = false;
    for (int i = 0; i < 2; i++) {
        const struct examined *of = &v->side[i];
        if (v->missing[i]) {
            text_add(out, "missing in the %s: %s", of->role, v->missing_names[i].data);
            if (v->missing[i] > 3) text_add(out, "; and %" PRIu64 " more", v->missing[i] - 3);
            text_add(out, "\n");
        }
        if (of->nan_tensors) {
            text_add(out, "NaN in %zu tensor%s of the %s, the first: ", of->nan_tensors,
                of->nan_tensors > 1 ? "s" : "", of->role);
            explain_place(out, &of->first_nan);
            text_add(out, "\n");
        }
        if (of->stale) {
            text_add(out,
                "in the %s the digest of %zu tensor%s is not that of the data, the first: ", of->role,
                of->stale, of->stale > 1 ? "s" : "");
            explain_place(out, &of->first_stale);
            text_add(out, "\n");
        }
        wrong = wrong || v->missing[i] || of->nan_tensors || of->stale;
    }
    if (v->differing) {
        explain_difference(out, v->side, &v->first[RUN], &v->first[REFERENCE], &v->first_comparison);
        uint64_t compared = v->other.compared;
        for (int class = 0; class < TENSOR_CLASSES; class ++) compared += v->recorded[class].compared;
        text_add(out, "in all %" PRIu64 " of %" PRIu64 " tensors differ", v->differing, compared);
        if (v->differing_in_full)
            text_add(out, "; %" PRIu64 " elements of the %" PRIu64 " compared in full", v->differing_elements,
                v->differing_in_full);
        text_add(out, "\n");
    }
    return wrong || v->differing;
}

static void print_side(struct text *out, const struct examined *of)
{
    const struct side *side = of->side;
    text_add(out, "%s: '%s'", of->role, side->name);
    if (side->known) text_add(out, " (%s %s)", side->kind, side->run_id);
    text_add(out, "\n");
}

static enum verdict conclude(struct verification *v, struct text *out, bool problems)
{
    const struct side *run = v->side[RUN].side, *reference = v->side[REFERENCE].side;
    print_counts(out, v);
    if (v->notes.length) text_add(out, "%s", v->notes.data);
    const bool wrong = print_faults(out, v);
    if (problems || wrong) return UNSUCCESSFUL;
    const uint64_t needed = (uint64_t)run->model.layers * PARAMETERS;
    if (v->recorded[TENSOR_GRADIENT].compared != needed) {
        text_add(out, "nothing is proved: not every layer's gradients are on both sides\n");
        return NOT_PERFORMED;
    }
    if (!strcmp(run->run_id, reference->run_id)) {
        text_add(out, "nothing is proved: both sides are of the same run\n");
        return NOT_PERFORMED;
    }
    return SUCCESSFUL;
}

enum verdict verify(struct side *run, struct side *reference, struct text *out)
{
    int rank;
    return verify_and_locate(run, reference, out, &rank);
}

enum verdict verify_and_locate(struct side *run, struct side *reference, struct text *out, int *rank)
{
    *rank = -1;
    struct verification v = { .side = { { .side = run, .role = "run" },
                                  { .side = reference, .role = "reference" } } };
    bool problems = false;
    for (int i = 0; i < 2; i++) {
        print_side(out, &v.side[i]);
        problems = print_problems(out, &v.side[i]) || problems;
    }
    if (!is_comparable(out, run, reference)) return UNSUCCESSFUL;
    const bool same_split = run->model.microbatches == reference->model.microbatches;
    for (int i = 0; i < 2; i++) {
        make_items(&v, i, same_split);
        need_gradients(&v, i);
    }
    compare_all(&v);
    const enum verdict verdict = conclude(&v, out, problems);
    if (v.differing) *rank = side_rank(run, v.first[RUN].entry);
    for (int i = 0; i < 2; i++) {
        free(v.item[i]);
        free(v.side[i].buffer);
        text_free(&v.missing_names[i]);
    }
    text_free(&v.notes);
    return verdict;
}
