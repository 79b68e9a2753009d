#include "report/result.h"
#include "report/json.h"
#include <stdio.h>

static json_t *model_object(const struct model *m)
{
    json_t *model = json_need(json_object());
    const struct {
        const char *name;
        int value;
    } member[] = { { "layers", m->layers }, { "hidden", m->hidden }, { "heads", m->heads }, { "ffn", m->ffn },
        { "sequence", m->sequence }, { "microbatches", m->microbatches },
        { "microbatch_size", m->microbatch_size } };
    for (size_t i = 0; i < sizeof member / sizeof member[0]; i++)
        json_put(model, member[i].name, json_integer(member[i].value));
    json_put(model, "seed", json_integer((json_int_t)m->seed));
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
        json_put(root, member[i].name, json_text_or_null(member[i].value));
    json_put(root, "ranks", json_integer(f->ranks));
    json_put(root, "chunks_per_rank", json_integer(f->chunks_per_rank));
    json_put(root, "threads", json_integer(f->threads));
    json_put(root, "recorded_step", json_integer(f->recorded_step));
    json_put(root, "model", model_object(&f->model));
}

static json_t *figures_object(const struct figure *figures, int count)
{
    json_t *object = json_need(json_object());
    for (int i = 0; i < count; i++) json_put(object, figures[i].name, json_number_or_null(figures[i].value));
    return object;
}

static json_t *targets_array(const struct target *targets, int count)
{
    json_t *array = json_need(json_array());
    for (int i = 0; i < count; i++) {
        json_t *target = json_need(json_object());
        json_put(target, "figure", json_string(targets[i].name));
        json_put(target, "target", json_real(targets[i].bound));
        json_put(target, "value", json_number_or_null(targets[i].value));
        json_put(target, "met", json_boolean(targets[i].met));
        json_add(array, target);
    }
    return array;
}

static json_t *text_array(const char *const *texts, int count)
{
    json_t *array = json_need(json_array());
    for (int i = 0; i < count; i++) json_add(array, json_text_or_null(texts[i]));
    return array;
}

static json_t *loss_array(const struct result *result)
{
    json_t *losses = json_need(json_array());
    for (int i = 0; i < result->losses; i++) {
        char bits[32];
        snprintf(bits, sizeof bits, "%a", (double)result->loss[i]);
        json_t *loss = json_need(json_object());
        json_put(loss, "step", json_integer(i + 1));
        json_put(loss, "value", json_number_or_null((double)result->loss[i]));
        json_put(loss, "hex", json_string(bits));
        json_add(losses, loss);
    }
    return losses;
}

/* What both kinds of result begin with. */
static json_t *new_result(void)
{
    json_t *root = json_need(json_object());
    json_put(root, "format", json_string("pipeleaf result"));
    json_put(root, "format_version", json_integer(1));
    return root;
}

void result_write(const char *path, const struct result *result)
{
    json_t *root = new_result();
    set_facts(root, result->facts);
    if (result->pipelines) {
        json_put(root, "pipeline", json_integer(result->pipeline));
        json_put(root, "pipelines", json_integer(result->pipelines));
    }
    json_put(root, "verification", json_text_or_null(result->verdict));
    json_put(root, "exit_code", json_integer(result->exit_code));
    json_put(root, "injected", json_text_or_null(result->injected));
    json_put(root, "figures", figures_object(result->figures, result->figure_count));
    json_put(root, "targets", targets_array(result->targets, result->target_count));
    json_t *seconds = json_need(json_array());
    for (int i = 0; i < result->steps; i++) json_add(seconds, json_number_or_null(result->step_seconds[i]));
    json_put(root, "step_seconds", seconds);
    json_put(root, "loss", loss_array(result));
    json_put(root, "files", text_array(result->files, result->file_count));
    json_write(path, root);
}

static json_t *places_array(const struct pipeline_result *p)
{
    json_t *places = json_need(json_array());
    for (int r = 0; r < p->ranks; r++) {
        json_t *place = json_need(json_object());
        json_put(place, "rank", json_integer(p->first_rank + r));
        json_put(place, "host", json_string(p->host[r]));
        json_put(place, "device", json_string(p->device[r]));
        json_put(place, "device_uuid", json_text_or_null(p->device_uuid[r]));
        json_add(places, place);
    }
    return places;
}

static json_t *pipeline_object(const struct pipeline_result *p, int number)
{
    json_t *object = json_need(json_object());
    json_put(object, "pipeline", json_integer(number));
    json_put(object, "directory", json_string(p->directory));
    json_put(object, "run_id", json_text_or_null(p->run_id));
    json_put(object, "verification", json_string(p->verdict));
    json_put(object, "exit_code", json_integer(p->exit_code));
    json_put(object, "fom_tokens_per_second", json_number_or_null(p->fom));
    json_put(object, "median_step_seconds", json_number_or_null(p->step_seconds));
    json_put(object, "bubble_of_step", json_number_or_null(p->bubble));
    json_put(object, "speed_of_median", json_number_or_null(p->of_median));
    json_put(object, "slow", json_boolean(p->is_slow));
    json_put(object, "wrong_rank", json_need(p->wrong_rank >= 0 ? json_integer(p->wrong_rank) : json_null()));
    json_put(object, "places", places_array(p));
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
        json_put(root, member[i].name, json_text_or_null(member[i].value));
    json_put(root, "ranks", json_integer(f->ranks));
    json_put(root, "verification", json_string(result->verdict));
    json_put(root, "exit_code", json_integer(result->exit_code));
    json_put(root, "injected", json_text_or_null(result->injected));
    json_put(root, "figures", figures_object(result->figures, result->figure_count));
    json_put(root, "targets", targets_array(result->targets, result->target_count));
    json_t *pipelines = json_need(json_array()), *directories = json_need(json_array());
    for (int k = 0; k < result->pipeline_count; k++) {
        json_add(pipelines, pipeline_object(&result->pipelines[k], k));
        json_add(directories, json_string(result->pipelines[k].directory));
    }
    json_put(root, "pipelines", pipelines);
    json_put(root, "directories", directories);
    json_put(root, "files", text_array(result->files, result->file_count));
    json_write(path, root);
}
