#include "report/json.h"
#include <math.h>
#include <stdlib.h>

json_t *json_need(json_t *value)
{
    if (!value) fail("a value cannot be written as JSON (out of memory, or text that is no UTF-8)");
    return value;
}

json_t *json_text_or_null(const char *text)
{
    return json_need(text ? json_string(text) : json_null());
}

json_t *json_number_or_null(double value)
{
    return json_need(isfinite(value) ? json_real(value) : json_null());
}

void json_put(json_t *object, const char *name, json_t *value)
{
    if (json_object_set_new(object, name, json_need(value))) fail("'%s' cannot be written as JSON", name);
}

void json_add(json_t *array, json_t *value)
{
    if (json_array_append_new(array, json_need(value))) fail("out of memory while writing JSON");
}

void json_write(const char *path, json_t *root)
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
