/* recheck.json: what a recheck compared and found. */
#include "report/findings.h"
#include "device/arithmetic.h"
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

enum { LISTED = 1000 }; /* findings that are listed one by one */

/* jansson answers NULL when memory is short or a string is no UTF-8; nothing is left out silently. */
static json_t *need(json_t *value)
{
    if (!value)
        fail("recheck.json: a value cannot be written as JSON (out of memory, or text that is no UTF-8)");
    return value;
}

static void set(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, need(value)))
        fail("recheck.json: '%s' cannot be written as JSON", name);
}

static void append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, need(value))) fail("recheck.json: out of memory");
}

static json_t *hexadecimal(uint64_t value, int digits)
{
    char text[24];
    snprintf(text, sizeof text, "%0*" PRIx64, digits, value);
    return need(json_string(text));
}

static json_t *digest_object(struct digest digest)
{
    char absmax[32];
    snprintf(absmax, sizeof absmax, "%a", (double)digest.absmax);
    json_t *object = need(json_object());
    set(object, "sum", hexadecimal(digest.sum, 16));
    set(object, "weighted", hexadecimal(digest.weighted, 16));
    set(object, "nan", json_integer((json_int_t)digest.nan));
    set(object, "absmax", json_string(absmax));
    return object;
}

static json_t *finding_object(const struct recheck_subject *subject, const struct finding *f)
{
    static const char *const missing[] = { "data", "digest", "arrival" };
    char name[TENSOR_NAME];
    const struct computed_by *by = &subject->run->by[f->rank];
    json_t *object = need(json_object());
    set(object, "fault", json_string(fault_name[f->fault]));
    set(object, "tensor", json_string(tensor_name(f->tensor, name)));
    set(object, "chunk", json_integer(f->chunk));
    const bool in_layer = f->tensor.class != TENSOR_LOSS && f->tensor.class != TENSOR_INPUT &&
                          f->tensor.class != TENSOR_TARGET &&
                          f->tensor.layer < subject->run->facts.model.layers;
    set(object, "layer", in_layer ? json_integer(f->tensor.layer) : json_null());
    set(object, "microbatch", f->microbatch >= 0 ? json_integer(f->microbatch) : json_null());
    set(object, "rank", json_integer(f->rank));
    set(object, "host", json_string(by->host));
    set(object, "device", json_string(by->device));
    set(object, "device_uuid", json_string(by->uuid));
    set(object, "rechecked_by", json_integer(f->checker));
    set(object, "may_follow", json_boolean(f->follows));
    if (f->fault == FAULT_ARRIVED) set(object, "sender", json_integer(f->sender));
    if (f->fault == FAULT_MISSING) {
        set(object, "missing", json_string(missing[f->missing]));
        return object;
    }
    if (f->fault == FAULT_NAN) return object;
    set(object, "elements", json_integer((json_int_t)f->elements));
    if (f->in_full) {
        set(object, "differing", json_integer((json_int_t)f->differing));
        set(object, "first_index", json_integer((json_int_t)f->first));
        set(object, "recorded_bits", hexadecimal(pl_bits(f->value[0]), 8));
        set(object, "expected_bits", hexadecimal(pl_bits(f->value[1]), 8));
    } else {
        set(object, "recorded_digest", digest_object(f->digest[0]));
        set(object, "expected_digest", digest_object(f->digest[1]));
    }
    return object;
}

static json_t *checkers_array(const struct recheck_result *result)
{
    const struct recheck_subject *subject = result->subject;
    json_t *checkers = need(json_array());
    for (int rank = 0; rank < subject->checkers; rank++) {
        json_t *one = need(json_object()), *chunks = need(json_array());
        for (int chunk = 0; chunk < subject->chunks; chunk++)
            if (subject->checker_of[chunk] == rank) append(chunks, json_integer(chunk));
        set(one, "rank", json_integer(rank));
        set(one, "host", json_string(subject->by[rank].host));
        set(one, "device", json_string(subject->by[rank].device));
        set(one, "device_uuid", json_string(subject->by[rank].uuid));
        set(one, "chunks", chunks);
        set(one, "seconds", json_real(result->seconds[rank]));
        append(checkers, one);
    }
    return checkers;
}

static void set_compared(json_t *root, const struct recheck_result *result)
{
    json_t *compared = need(json_object());
    for (int class = 0; class < TENSOR_CLASSES; class ++)
        set(compared, tensor_class_name[class],
            json_pack("{s:I,s:I}", "tensors", (json_int_t)result->tally->compared[class], "in_full",
                (json_int_t)result->tally->in_full[class]));
    set(compared, "arrivals",
        json_pack("{s:I,s:I}", "tensors", (json_int_t)result->tally->arrivals, "in_full", (json_int_t)0));
    set(root, "compared", compared);
}

void recheck_result_write(const char *path, const struct recheck_result *result)
{
    static const char *const files[] = { "recheck.txt", "recheck.json" };
    json_t *root = need(json_object());
    set(root, "format", json_string("pipeleaf recheck"));
    set(root, "format_version", json_integer(1));
    set(root, "version", json_string(pipeleaf_version));
    set(root, "commit", json_string(pipeleaf_commit));
    set(root, "recheck_id", json_string(result->recheck_id));
    set(root, "directory", json_string(result->directory));
    if (result->run) {
        const struct recorded_facts *facts = &result->run->facts;
        set(root, "run_id", json_string(facts->run_id));
        set(root, "identity", json_string(facts->identity));
        set(root, "arithmetic", json_string(facts->arithmetic));
        set(root, "recorded_step", json_integer(facts->recorded_step));
        set(root, "ranks", json_integer(facts->ranks));
    }
    if (result->subject) {
        set(root, "chunks", json_integer(result->subject->chunks));
        set(root, "rechecked_by", checkers_array(result));
        set(root, "own_chunks", json_integer(result->subject->own));
        set_compared(root, result);
        json_t *findings = need(json_array());
        for (size_t i = 0; i < result->count && i < LISTED; i++)
            append(findings, finding_object(result->subject, &result->finding[i]));
        set(root, "finding_count", json_integer((json_int_t)result->count));
        set(root, "findings", findings);
    }
    set(root, "explanation", json_string(result->explanation ? result->explanation : ""));
    set(root, "verification", json_string(verdict_text[result->verdict]));
    set(root, "exit_code", json_integer(result->exit_code));
    json_t *list = need(json_array());
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) append(list, json_string(files[i]));
    set(root, "files", list);

    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!text) fail("'%s': cannot be written as JSON", path);
    struct text lines = { 0 };
    text_add(&lines, "%s\n", text);
    write_whole_file(path, lines.data, lines.length);
    text_free(&lines);
    free(text);
    json_decref(root);
}
