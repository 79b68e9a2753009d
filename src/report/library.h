/* What every user of HDF5 in this folder needs: the library made ready, and its errors as part of our one
 * line. */
#pragma once
#include "base/base.h"
#include <hdf5.h>

/* To be called before any other use of HDF5; more often does no harm. */
void hdf5_start(void);

/* Appends why the last HDF5 call failed: the innermost message of its error stack, on one line; then forgets
 * it. */
void hdf5_why(struct text *text);
