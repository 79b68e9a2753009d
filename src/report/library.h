/* What every user of HDF5 in this folder needs: the library made ready, and its errors as part of our one
 * line. */
#pragma once
#include "base/base.h"
#include <hdf5.h>

/* To be called before any other use of HDF5; more often does no harm. */
void hdf5_start(void);

/* A member of a record in memory. HDF5 finds it in the file by its name and converts it. */
struct hdf5_member {
    const char *name;
    size_t offset;
    hid_t type;
};
/* All records of data set NAME, `size` bytes each: owned by the caller; NULL where it cannot be read. */
void *hdf5_records(
    hid_t file, const char *name, const struct hdf5_member *member, int members, size_t size, size_t *count);

/* Appends why the last HDF5 call failed: the innermost message of its error stack, on one line; then forgets
 * it. */
void hdf5_why(struct text *text);
