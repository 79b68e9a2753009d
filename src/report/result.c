#include "report/result.h"
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* jansson answers NULL when memory is short or a string is no UTF-8; nothing is left out silently. */
static json_t *need(json_t *value)
{
    if (!value)
        fail("result.json: a value cannot be written as JSON (out of memory, or text that is no UTF-8)");
    return value;
}

static json_t *text_or_null(const char *text)
{
    return need(text ? json_string(text) : json_null());
}

/* JSON has no NaN: what was not measured is null. */
static json_t *number_or_null(double value)
{
    return need(isfinite(value) ? json_real(value) : json_null());
}

static void set(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, need(value)))
        fail("result.json: '%s' cannot be written as JSON", name);
}

static void append(json_t *array, json_t *value)
{
    if (json_array_append_new(array, need(value))) fail("result.json: out of memory");
}

static json_t *model_object(const struct model *m)
{
    json_t *model = need(json_object());
    const struct {
        const char *name;
        int value;
    } member[] = { { "layers", m->layers }, { "hidden", m->hidden }, { "heads", m->heads }, { "ffn", m->ffn },
        { "sequence", m->sequence }, { "microbatches", m->microbatches },
        { "microbatch_size", m->microbatch_size } };
    for (size_t i = 0; i < sizeof member / sizeof member[0]; i++)
        set(model, member[i].name, json_integer(member[i].value));
    set(model, "seed", json_integer((json_int_t)m->seed));
    return model;
}

static void set_facts(json_t *root, const struct facts *f)
{
    const struct {
        const char *name, *value;
    } member[] = { { "version", pipeleaf_version }, { "commit", pipeleaf_commit }, { "kind", f->kind },
        { "run_id", f->run_id }, { "identity", f->identity }, { "arithmetic", f->arithmetic },
        { "deck", f->deck }, { "deck_sha256", f->deck_sha256 }, { "host", f->host }, { "device", f->device },
        { "device_uuid", f->device_uuid }, { "cpus", f->cpus }, { "compiler", f->compiler },
        { "libraries", f->libraries } };
    for (size_t i = 0; i < sizeof member / sizeof member[0]; i++)
        set(root, member[i].name, text_or_null(member[i].value));
    set(root, "ranks", json_integer(f->ranks));
    set(root, "chunks_per_rank", json_integer(f->chunks_per_rank));
    set(root, "threads", json_integer(f->threads));
    set(root, "recorded_step", json_integer(f->recorded_step));
    set(root, "model", model_object(&f->model));
}

static json_t *figures_object(const struct figure *figures, int count)
{
    json_t *object = need(json_object());
    for (int i = 0; i < count; i++) set(object, figures[i].name, number_or_null(figures[i].value));
    return object;
}

static json_t *targets_array(const struct target *targets, int count)
{
    json_t *array = need(json_array());
    for (int i = 0; i < count; i++) {
        json_t *target = need(json_object());
        set(target, "figure", json_string(targets[i].name));
        set(target, "target", json_real(targets[i].bound));
        set(target, "value", number_or_null(targets[i].value));
        set(target, "met", json_boolean(targets[i].met));
        append(array, target);
    }
    return array;
}

static json_t *text_array(const char *const *texts, int count)
{
    json_t *array = need(json_array());
    for (int i = 0; i < count; i++) append(array, text_or_null(texts[i]));
    return array;
}

static void write_object(const char *path, json_t *root)
{
    char *text = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
    if (!text) fail("'%s': cannot be written as JSON", path);
    struct text lines = { 0 };
    text_add(&lines, "%s\n", text);
    write_whole_file(path, lines.data, lines.length);
    text_free(&lines);
    free(text);
    json_decref(root);
}

static json_t *loss_array(const struct result *result)
{
    json_t *losses = need(json_array());
    for (int i = 0; i < result->losses; i++) {
        char bits[32];
        snprintf(bits, sizeof bits, "%a", (double)result->loss[i]);
        json_t *loss = need(json_object());
        set(loss, "step", json_integer(i + 1));
        set(loss, "value", number_or_null((double)result->loss[i]));
        set(loss, "hex", json_string(bits));
        append(losses, loss);
    }
    return losses;
}

/* What both kinds of result begin with. */
static json_t *new_result(void)
{
    json_t *root = need(json_object());
    set(root, "format", json_string("pipeleaf result"));
    set(root, "format_version", json_integer(1));
    return root;
}

void result_write(const char *path, const struct result *result)
{
    json_t *root = new_result();
    set_facts(root, result->facts);
    if (result->pipelines) {
        set(root, "pipeline", json_integer(result->pipeline));
        set(root, "pipelines", json_integer(result->pipelines));
    }
    set(root, "verification", text_or_null(result->verdict));
    set(root, "exit_code", json_integer(result->exit_code));
    set(root, "injected", text_or_null(result->injected));
    set(root, "figures", figures_object(result->figures, result->figure_count));
    set(root, "targets", targets_array(result->targets, result->target_count));
    json_t *seconds = need(json_array());
    for (int i = 0; i < result->steps; i++) append(seconds, number_or_null(result->step_seconds[i]));
    set(root, "step_seconds", seconds);
    set(root, "loss", loss_array(result));
    set(root, "files", text_array(result->files, result->file_count));
    write_object(path, root);
}

static json_t *places_array(const struct pipeline_result *p)
{
    json_t *places = need(json_array());
    for (int r = 0; r < p->ranks; r++) {
        json_t *place = need(json_object());
        set(place, "rank", json_integer(p->first_rank + r));
        set(place, "host", json_string(p->host[r]));
        set(place, "device", json_string(p->device[r]));
        set(place, "device_uuid", text_or_null(p->device_uuid[r]));
        append(places, place);
    }
    return places;
}

static json_t *pipeline_object(const struct pipeline_result *p, int number)
{
    json_t *object = need(json_object());
    set(object, "pipeline", json_integer(number));
    set(object, "directory", json_string(p->directory));
    set(object, "run_id", text_or_null(p->run_id));
    set(object, "verification", json_string(p->verdict));
    set(object, "exit_code", json_integer(p->exit_code));
    set(object, "fom_tokens_per_second", number_or_null(p->fom));
    set(object, "median_step_seconds", number_or_null(p->step_seconds));
    set(object, "bubble_of_step", number_or_null(p->bubble));
    set(object, "speed_of_median", number_or_null(p->of_median));
    set(object, "slow", json_boolean(p->is_slow));
    set(object, "wrong_rank", need(p->wrong_rank >= 0 ? json_integer(p->wrong_rank) : json_null()));
    set(object, "places", places_array(p));
    return object;
}

void job_result_write(const char *path, const struct job_result *result)
{
    json_t *root = new_result();
    const struct facts *f = result->facts;
    const struct {
        const char *name, *value;
    } member[] = { { "version", pipeleaf_version }, { "commit", pipeleaf_commit }, { "kind", f->kind },
        { "run_id", f->run_id }, { "identity", f->identity }, { "deck", f->deck },
        { "deck_sha256", f->deck_sha256 }, { "compiler", f->compiler }, { "libraries", f->libraries } };
    for (size_t i = 0; i < sizeof member / sizeof member[0]; i++)
        set(root, member[i].name, text_or_null(member[i].value));
    set(root, "ranks", json_integer(f->ranks));
    set(root, "verification", json_string(result->verdict));
    set(root, "exit_code", json_integer(result->exit_code));
    set(root, "injected", text_or_null(result->injected));
    set(root, "figures", figures_object(result->figures, result->figure_count));
    set(root, "targets", targets_array(result->targets, result->target_count));
    json_t *pipelines = need(json_array()), *directories = need(json_array());
    for (int k = 0; k < result->pipeline_count; k++) {
        append(pipelines, pipeline_object(&result->pipelines[k], k));
        append(directories, json_string(result->pipelines[k].directory));
    }
    set(root, "pipelines", pipelines);
    set(root, "directories", directories);
    set(root, "files", text_array(result->files, result->file_count));
    write_object(path, root);
}
