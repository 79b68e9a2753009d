/* What result.c and recheck_result.c write JSON with: jansson, but that nothing is left out silently. It
   answers NULL when memory is short or a string is no UTF-8; here that ends the job with a line. */
#pragma once
#include "base/base.h"
#include <jansson.h>

/* The value, which must be one. */
json_t *json_need(json_t *value);
json_t *json_text_or_null(const char *text);
/* JSON has no NaN: what was not measured is null. */
json_t *json_number_or_null(double value);
/* Both take the value. */
void json_put(json_t *object, const char *name, json_t *value);
void json_add(json_t *array, json_t *value);
/* Writes the file whole and releases the object. */
void json_write(const char *path, json_t *root);
