#include "report/findings.h"
#include "report/explain.h"
#include <inttypes.h>
#include <stdlib.h>

const char *const fault_name[FAULTS] = { "arrived", "computed", "stored", "nan", "missing" };

/* What is wrong, behind the tensor's name. */
static const char *const fault_text[FAULTS] = {
    [FAULT_ARRIVED] = "what arrived is not what was sent",
    [FAULT_COMPUTED] = "what was recorded does not come out of what was recorded before it",
    [FAULT_STORED] = "what lies in the file does not have the digest that the run made of it",
    [FAULT_NAN] = "holds a NaN",
    [FAULT_MISSING] = "is missing",
};
static const char *const missing_text[] = {
    [MISSING_DATA] = " in the file of its rank",
    [MISSING_DIGEST] = " in digest.txt",
    [MISSING_ARRIVAL] = " among what its rank's file says has arrived",
};

enum { LISTED = 10 }; /* findings that get a line, beside the first */

static int by_cause_and_dataflow(const void *a, const void *b)
{
    const struct finding *x = a, *y = b;
    if (x->follows != y->follows) return x->follows ? 1 : -1;
    const int order = tensor_compare(x->tensor, y->tensor);
    if (order) return order;
    /* Made, then stored, then sent. */
    static const int rank_of_fault[FAULTS] = {
        [FAULT_MISSING] = 0, [FAULT_NAN] = 1, [FAULT_COMPUTED] = 2, [FAULT_STORED] = 3, [FAULT_ARRIVED] = 4
    };
    const int faults = rank_of_fault[x->fault] - rank_of_fault[y->fault];
    return faults ? faults : x->chunk - y->chunk;
}

static void add_name(struct text *out, const struct recheck_subject *subject, const struct finding *f)
{
    char name[TENSOR_NAME];
    struct tensor tensor = f->tensor;
    if (tensor.class == TENSOR_ACTIVATION_GRADIENT && tensor.layer == subject->run->facts.model.layers)
        text_add(out, "gradient of the loss, microbatch %d", tensor.index);
    else
        text_add(out, "%s", tensor_name(tensor, name));
}

static void add_chunk(struct text *out, const struct recheck_subject *subject, int chunk)
{
    const int first = subject->first[chunk], end = subject->first[chunk + 1];
    text_add(out, "chunk %d ", chunk);
    if (first == end)
        text_add(out, "(no layers)");
    else if (first + 1 == end)
        text_add(out, "(layer %d)", first);
    else
        text_add(out, "(layers %d to %d)", first, end - 1);
}

static void add_part(struct text *out, const struct recheck_subject *subject, const struct finding *f)
{
    add_chunk(out, subject, f->chunk);
    if (f->microbatch >= 0) text_add(out, ", microbatch %d", f->microbatch);
}

static void add_place(struct text *out, const struct recheck_subject *subject, const struct finding *f)
{
    add_part(out, subject, f);
    text_add(out, ", %s rank %d on %s", f->fault == FAULT_ARRIVED ? "received by" : "computed by", f->rank,
        subject->run->by[f->rank].host);
    if (f->fault == FAULT_ARRIVED)
        text_add(out, ", sent by rank %d on %s", f->sender, subject->run->by[f->sender].host);
}

static void add_device(struct text *out, const char *what, int rank, const struct computed_by *by)
{
    text_add(out, "    %s rank %d on %s: %s%s%s\n", what, rank, by->host, by->device, by->uuid[0] ? ", " : "",
        by->uuid);
}

static bool has_bits(const struct finding *f)
{
    return f->fault == FAULT_ARRIVED || f->fault == FAULT_COMPUTED || f->fault == FAULT_STORED;
}

static void explain_first(struct text *out, const struct recheck_subject *subject, const struct finding *f)
{
    text_add(out, "first fault in dataflow order: step %d, ", subject->run->facts.recorded_step);
    add_name(out, subject, f);
    text_add(
        out, ": %s%s\n    ", fault_text[f->fault], f->fault == FAULT_MISSING ? missing_text[f->missing] : "");
    add_part(out, subject, f);
    text_add(out, "\n");
    if (f->fault == FAULT_ARRIVED) {
        add_device(out, "received by", f->rank, &subject->run->by[f->rank]);
        add_device(out, "sent by", f->sender, &subject->run->by[f->sender]);
    } else {
        add_device(out, "computed by", f->rank, &subject->run->by[f->rank]);
        add_device(out, "computed again by", f->checker, &subject->by[f->checker]);
    }
    if (!has_bits(f)) return;
    static const char *const roles[][2] = {
        [FAULT_ARRIVED] = { "arrival", "sender" },
        [FAULT_COMPUTED] = { "run", "recheck" },
        [FAULT_STORED] = { "file", "digest" },
    };
    struct side side = { .model = subject->run->facts.model };
    const struct examined examined[2] = { { .side = &side, .role = roles[f->fault][0] },
        { .side = &side, .role = roles[f->fault][1] } };
    const struct item item = { .step = subject->run->facts.recorded_step, .tensor = f->tensor, .count = 1 };
    const struct comparison comparison = { .in_full = f->in_full,
        .digest = { f->digest[0], f->digest[1] },
        .elements = f->elements,
        .differing = f->differing,
        .first = f->first,
        .value = { f->value[0], f->value[1] } };
    explain_bits(out, examined, &item, &comparison);
}

static void explain_others(
    struct text *out, const struct recheck_subject *subject, const struct finding *finding, size_t causes)
{
    for (size_t i = 1; i < causes && i <= LISTED; i++) {
        text_add(out, "also ");
        add_name(out, subject, &finding[i]);
        text_add(out, ": %s%s: ", fault_text[finding[i].fault],
            finding[i].fault == FAULT_MISSING ? missing_text[finding[i].missing] : "");
        add_place(out, subject, &finding[i]);
        text_add(out, "\n");
    }
    if (causes > LISTED + 1) text_add(out, "and %zu more\n", causes - LISTED - 1);
}

/* How many causes there are of each rank: whoever hunts one device wants its name. */
static void count_by_rank(
    struct text *out, const struct recheck_subject *subject, const struct finding *finding, size_t causes)
{
    const int ranks = subject->run->facts.ranks;
    uint64_t *faults = allocate((size_t)ranks, sizeof *faults);
    for (size_t i = 0; i < causes; i++) faults[finding[i].rank]++;
    for (int rank = 0; rank < ranks; rank++)
        if (faults[rank])
            text_add(
                out, "rank %d on %s: %" PRIu64 " of them\n", rank, subject->run->by[rank].host, faults[rank]);
    free(faults);
}

/* Appends what was compared; false where it is not all that there should be. */
static bool print_counts(
    struct text *out, const struct recheck_subject *subject, const struct recheck_tally *tally)
{
    const struct model *model = &subject->run->facts.model;
    const uint64_t layers = (uint64_t)model->layers, microbatches = (uint64_t)model->microbatches;
    const uint64_t wanted[TENSOR_CLASSES] = { [TENSOR_ACTIVATION] = layers * microbatches,
        [TENSOR_LOSS] = 1,
        [TENSOR_GRADIENT] = layers * PARAMETERS,
        [TENSOR_ACTIVATION_GRADIENT] = layers * microbatches };
    bool all = true;
    for (int class = 0; class < TENSOR_CLASSES; class ++) {
        const uint64_t compared = tally->compared[class];
        if (!compared && !wanted[class]) continue;
        text_add(out,
            "compared %" PRIu64 " of %" PRIu64 " %s tensors of the recorded step %d: %" PRIu64
            " in full, %" PRIu64 " by digest\n",
            compared, wanted[class] ? wanted[class] : compared, tensor_class_word[class],
            subject->run->facts.recorded_step, tally->in_full[class], compared - tally->in_full[class]);
        all = all && (!wanted[class] || compared == wanted[class]);
    }
    const uint64_t arrivals = 2 * microbatches * (uint64_t)(subject->chunks - 1);
    text_add(out, "compared %" PRIu64 " of %" PRIu64 " hand-overs between chunks: by digest\n",
        tally->arrivals, arrivals);
    return all && tally->arrivals == arrivals;
}

enum verdict findings_judge(const struct recheck_subject *subject, const struct recheck_tally *tally,
    struct finding *finding, size_t count, struct text *out)
{
    const bool all = print_counts(out, subject, tally);
    if (subject->own)
        text_add(out,
            "%d of %d chunks were computed again by the device that had computed them, or the rank of its "
            "number: "
            "there was no other\n",
            subject->own, subject->chunks);
    if (count == 0 && all) return SUCCESSFUL;
    if (count == 0) {
        text_add(out, "nothing is proved: not all was compared\n");
        return NOT_PERFORMED;
    }
    qsort(finding, count, sizeof *finding, by_cause_and_dataflow);
    size_t causes = 0;
    while (causes < count && !finding[causes].follows) causes++;
    explain_first(out, subject, &finding[0]);
    explain_others(out, subject, finding, causes);
    text_add(out, "in all %zu fault%s", causes, causes == 1 ? "" : "s");
    if (count > causes)
        text_add(out, "; %zu more tensors of the same chunks differ, which may follow from %s",
            count - causes, causes == 1 ? "it" : "them");
    text_add(out, "\n");
    count_by_rank(out, subject, finding, causes);
    return UNSUCCESSFUL;
}
