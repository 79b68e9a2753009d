/* Harms a file of a run, as a disk might:
       harm flip FILE DATASET ELEMENT BIT       one bit of one element
       harm nan FILE DATASET ELEMENT            an element becomes a NaN
       harm remove FILE DATASET                 the data set, or the group, is gone
       harm text FILE ATTRIBUTE VALUE           what the file says of itself
       harm arrival FILE RECORD                 one bit of the digest of what arrived */
#include "made.h"
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Element `element` of a data set of numbers becomes `value`. */
static void set_element(const char *path, const char *dataset, hsize_t element, float value)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT), set = H5Dopen2(file, dataset, H5P_DEFAULT);
    const hid_t space = H5Dget_space(set);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (count < 0 || element >= (hsize_t)count)
        fail("%s of '%s' has no element %llu", dataset, path, element);
    float *data = allocate((size_t)count, sizeof *data);
    H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
    data[element] = value;
    if (H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        fail("cannot write '%s'", path);
    free(data);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

/* The lowest bit of a record's first sum. */
static void flip_arrival(const char *path, size_t record)
{
    const hid_t file = H5Fopen(path, H5F_ACC_RDWR, H5P_DEFAULT),
                set = H5Dopen2(file, "received", H5P_DEFAULT);
    const hid_t space = H5Dget_space(set), type = H5Tcreate(H5T_COMPOUND, sizeof(uint64_t));
    H5Tinsert(type, "sum", 0, H5T_NATIVE_UINT64);
    const hssize_t count = H5Sget_simple_extent_npoints(space);
    if (count < 0 || record >= (size_t)count) fail("'%s' has no record %zu of what arrived", path, record);
    uint64_t *sum = allocate((size_t)count, sizeof *sum);
    H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, sum);
    sum[record] ^= 1;
    if (H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, sum) < 0) fail("cannot write '%s'", path);
    free(sum);
    H5Tclose(type);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

int main(int count, char **word)
{
    const char *what = count > 3 ? word[1] : "";
    if (!strcmp(what, "flip") && count == 6)
        flip_bit(word[2], word[3], strtoul(word[4], NULL, 10), atoi(word[5]));
    else if (!strcmp(what, "nan") && count == 5)
        set_element(word[2], word[3], strtoul(word[4], NULL, 10), NAN);
    else if (!strcmp(what, "remove") && count == 4)
        remove_dataset(word[2], word[3]);
    else if (!strcmp(what, "text") && count == 5)
        set_string(word[2], word[3], word[4]);
    else if (!strcmp(what, "arrival") && count == 4)
        flip_arrival(word[2], strtoul(word[3], NULL, 10));
    else
        fail("harm flip|nan|remove|text|arrival FILE ...");
    return 0;
}
