/* The fault that --inject asks for. */
#include "command/setup.h"
#include <stdlib.h>
#include <string.h>

static bool whole_number(
    const char *text, long least, long most, const char *what, long *value, struct text *error)
{
    char *end;
    *value = strtol(text, &end, 10);
    if (*text == 0 || *end != 0 || *value < least || *value > most) {
        const bool below = *text == 0 || *end != 0 || *value < least;
        text_add(error, "--inject: %s=%s: must be a whole number from %ld to %ld; the nearest is %ld", what,
            text, least, most, below ? least : most);
        return false;
    }
    return true;
}

static bool injected_tensor(const char *name, struct tensor *tensor, struct text *error)
{
    if (strcmp(name, "activation") == 0) {
        *tensor = (struct tensor){ .class = TENSOR_ACTIVATION };
        return true;
    }
    if (strcmp(name, "activation_gradient") == 0) {
        *tensor = (struct tensor){ .class = TENSOR_ACTIVATION_GRADIENT };
        return true;
    }
    if (strncmp(name, "gradients/", 10) == 0)
        for (int p = 0; p < PARAMETERS; p++)
            if (strcmp(name + 10, parameter_name[p]) == 0) {
                *tensor = (struct tensor){ .class = TENSOR_GRADIENT, .index = p };
                return true;
            }
    const char *bare = strncmp(name, "gradients/", 10) == 0 ? name + 10 : name;
    const char *near = nearest_name(bare, parameter_name, PARAMETERS);
    text_add(error,
        "--inject: tensor=%s: must be activation, activation_gradient or gradients/NAME; the nearest is "
        "gradients/%s",
        name, near ? near : parameter_name[0]);
    return false;
}

bool setup_injection(const char *text, const struct model *model, int steps, int pipeline, int pipelines,
    struct injection *injection, struct text *error)
{
    enum { STEP, LAYER, MICROBATCH, TENSOR, ELEMENT, BIT, NEEDED, PIPELINE = NEEDED, KEYS };
    static const char *const key[KEYS] = { "step", "layer", "microbatch", "tensor", "element", "bit",
        "pipeline" };
    char *value[KEYS] = { 0 };
    char *copy = strdup(text), *rest = copy;
    if (!copy) fail("out of memory");
    bool good = true;
    for (char *item; good && (item = strsep(&rest, ",")) != NULL;) {
        char *equals = strchr(item, '=');
        if (equals) *equals = 0;
        int k = 0;
        while (k < KEYS && strcmp(item, key[k]) != 0) k++;
        if (!equals || k == KEYS || value[k]) {
            const char *near = nearest_name(item, key, KEYS);
            text_add(error,
                "--inject: '%s': must be step=,layer=,microbatch=,tensor=,element=,bit=, each once, and "
                "pipeline= "
                "where there are several; the nearest is %s=",
                item, near ? near : key[0]);
            good = false;
        } else {
            value[k] = equals + 1;
        }
    }
    for (int k = 0; good && k < NEEDED; k++)
        if (!value[k]) {
            text_add(error,
                "--inject: %s= is missing: step, layer, microbatch, tensor, element and bit must all be "
                "given",
                key[k]);
            good = false;
        }
    long n = 0;
    *injection = (struct injection){ .active = true };
    if (good && (good = whole_number(value[STEP], 1, steps, key[STEP], &n, error))) injection->step = (int)n;
    if (good && (good = whole_number(value[LAYER], 0, model->layers - 1, key[LAYER], &n, error)))
        injection->layer = (int)n;
    if (good &&
        (good = whole_number(value[MICROBATCH], 0, model->microbatches - 1, key[MICROBATCH], &n, error)))
        injection->microbatch = (int)n;
    if (good) good = injected_tensor(value[TENSOR], &injection->tensor, error);
    if (good) {
        const long elements = (long)tensor_elements(model, injection->tensor);
        if ((good = whole_number(value[ELEMENT], 0, elements - 1, key[ELEMENT], &n, error)))
            injection->element = (uint64_t)n;
    }
    if (good && (good = whole_number(value[BIT], 0, 31, key[BIT], &n, error))) injection->bit = (int)n;
    n = 0;
    if (good && value[PIPELINE])
        good = whole_number(value[PIPELINE], 0, pipelines - 1, key[PIPELINE], &n, error);
    injection->active = n == pipeline;
    free(copy);
    return good;
}
