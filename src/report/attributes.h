/* The facts of a file as attributes of "/": one table for writing and for reading. */
#pragma once
#include "report/library.h"
#include "report/output.h"

enum { FILE_FORMAT = 1 };
#define FILE_FORMAT_NAME "pipeleaf"

/* False with HDF5's reason in *error. */
bool attributes_write(hid_t file, const struct facts *facts, struct text *error);

/* What attributes_write wrote; the strings and rank_of_layer are owned by *facts: free with facts_free. False
   with the reason in *error ("it has no attribute 'format': it was not written by pipeleaf", ...). */
bool attributes_read(hid_t file, struct facts *facts, struct text *error);
void facts_free(struct facts *facts);
