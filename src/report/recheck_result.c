/* recheck.json: what a recheck compared and found. */
#include "report/findings.h"
#include "device/arithmetic.h"
#include "report/json.h"
#include <inttypes.h>
#include <stdio.h>

enum { LISTED = 1000 }; /* findings that are listed one by one */

static json_t *hexadecimal(uint64_t value, int digits)
{
    char text[24];
    snprintf(text, sizeof text, "%0*" PRIx64, digits, value);
    return json_need(json_string(text));
}

static json_t *digest_object(struct digest digest)
{
    char absmax[32];
    snprintf(absmax, sizeof absmax, "%a", (double)digest.absmax);
    json_t *object = json_need(json_object());
    json_put(object, "sum", hexadecimal(digest.sum, 16));
    json_put(object, "weighted", hexadecimal(digest.weighted, 16));
    json_put(object, "nan", json_integer((json_int_t)digest.nan));
    json_put(object, "absmax", json_string(absmax));
    return object;
}

static json_t *finding_object(const struct recheck_subject *subject, const struct finding *f)
{
    static const char *const missing[] = { "data", "digest", "arrival" };
    char name[TENSOR_NAME];
    const struct computed_by *by = &subject->run->by[f->rank];
    json_t *object = json_need(json_object());
    json_put(object, "fault", json_string(fault_name[f->fault]));
    json_put(object, "tensor", json_string(tensor_name(f->tensor, name)));
    json_put(object, "chunk", json_integer(f->chunk));
    const bool in_layer = f->tensor.class != TENSOR_LOSS && f->tensor.class != TENSOR_INPUT &&
                          f->tensor.class != TENSOR_TARGET &&
                          f->tensor.layer < subject->run->facts.model.layers;
    json_put(object, "layer", in_layer ? json_integer(f->tensor.layer) : json_null());
    json_put(object, "microbatch", f->microbatch >= 0 ? json_integer(f->microbatch) : json_null());
    json_put(object, "rank", json_integer(f->rank));
    json_put(object, "host", json_string(by->host));
    json_put(object, "device", json_string(by->device));
    json_put(object, "device_uuid", json_string(by->uuid));
    json_put(object, "rechecked_by", json_integer(f->checker));
    json_put(object, "may_follow", json_boolean(f->follows));
    if (f->fault == FAULT_ARRIVED) json_put(object, "sender", json_integer(f->sender));
    if (f->fault == FAULT_MISSING) {
        json_put(object, "missing", json_string(missing[f->missing]));
        return object;
    }
    if (f->fault == FAULT_NAN) return object;
    json_put(object, "elements", json_integer((json_int_t)f->elements));
    if (f->in_full) {
        json_put(object, "differing", json_integer((json_int_t)f->differing));
        json_put(object, "first_index", json_integer((json_int_t)f->first));
        json_put(object, "recorded_bits", hexadecimal(pl_bits(f->value[0]), 8));
        json_put(object, "expected_bits", hexadecimal(pl_bits(f->value[1]), 8));
    } else {
        json_put(object, "recorded_digest", digest_object(f->digest[0]));
        json_put(object, "expected_digest", digest_object(f->digest[1]));
    }
    return object;
}

static json_t *checkers_array(const struct recheck_result *result)
{
    const struct recheck_subject *subject = result->subject;
    json_t *checkers = json_need(json_array());
    for (int rank = 0; rank < subject->checkers; rank++) {
        json_t *one = json_need(json_object()), *chunks = json_need(json_array());
        for (int chunk = 0; chunk < subject->chunks; chunk++)
            if (subject->checker_of[chunk] == rank) json_add(chunks, json_integer(chunk));
        json_put(one, "rank", json_integer(rank));
        json_put(one, "host", json_string(subject->by[rank].host));
        json_put(one, "device", json_string(subject->by[rank].device));
        json_put(one, "device_uuid", json_string(subject->by[rank].uuid));
        json_put(one, "chunks", chunks);
        json_put(one, "seconds", json_real(result->seconds[rank]));
        json_add(checkers, one);
    }
    return checkers;
}

static void set_compared(json_t *root, const struct recheck_result *result)
{
    json_t *compared = json_need(json_object());
    for (int class = 0; class < TENSOR_CLASSES; class ++)
        json_put(compared, tensor_class_name[class],
            json_pack("{s:I,s:I}", "tensors", (json_int_t)result->tally->compared[class], "in_full",
                (json_int_t)result->tally->in_full[class]));
    json_put(compared, "arrivals",
        json_pack("{s:I,s:I}", "tensors", (json_int_t)result->tally->arrivals, "in_full", (json_int_t)0));
    json_put(root, "compared", compared);
}

void recheck_result_write(const char *path, const struct recheck_result *result)
{
    static const char *const files[] = { "recheck.txt", "recheck.json" };
    json_t *root = json_need(json_object());
    json_put(root, "format", json_string("pipeleaf recheck"));
    json_put(root, "format_version", json_integer(1));
    json_put(root, "version", json_string(pipeleaf_version));
    json_put(root, "commit", json_string(pipeleaf_commit));
    json_put(root, "recheck_id", json_string(result->recheck_id));
    json_put(root, "directory", json_string(result->directory));
    if (result->run) {
        const struct recorded_facts *facts = &result->run->facts;
        json_put(root, "run_id", json_string(facts->run_id));
        json_put(root, "identity", json_string(facts->identity));
        json_put(root, "arithmetic", json_string(facts->arithmetic));
        json_put(root, "recorded_step", json_integer(facts->recorded_step));
        json_put(root, "ranks", json_integer(facts->ranks));
    }
    if (result->subject) {
        json_put(root, "chunks", json_integer(result->subject->chunks));
        json_put(root, "rechecked_by", checkers_array(result));
        json_put(root, "own_chunks", json_integer(result->subject->own));
        set_compared(root, result);
        json_t *findings = json_need(json_array());
        for (size_t i = 0; i < result->count && i < LISTED; i++)
            json_add(findings, finding_object(result->subject, &result->finding[i]));
        json_put(root, "finding_count", json_integer((json_int_t)result->count));
        json_put(root, "findings", findings);
    }
    json_put(root, "explanation", json_string(result->explanation ? result->explanation : ""));
    json_put(root, "verification", json_string(verdict_text[result->verdict]));
    json_put(root, "exit_code", json_integer(result->exit_code));
    json_t *list = json_need(json_array());
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) json_add(list, json_string(files[i]));
    json_put(root, "files", list);

    json_write(path, root);
}
