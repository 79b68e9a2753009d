#include "report/library.h"
#include "report/output.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>

void hdf5_start(void)
{
    static bool started;
    if (started) return;
    started = true;
    /* Each file has one writer and gets its name when it is whole, so locks protect nothing; and on some
       parallel file systems they fail. Whoever has set the variable has decided. */
    setenv("HDF5_USE_FILE_LOCKING", "FALSE", 0);
    /* After a failed write the library must not try again while the process ends: it would not end. */
    H5dont_atexit();
    H5open();
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

static herr_t keep_innermost(unsigned depth, const H5E_error2_t *error, void *kept)
{
    if (depth == 0) text_add(kept, "%s", error->desc ? error->desc : "");
    return 0;
}

void hdf5_why(struct text *text)
{
    struct text message = { 0 };
    text_add(&message, "%s", "");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &message);
    H5Eclear2(H5E_DEFAULT);
    /* A failed system call is told with the time, a line feed, file descriptors: the user needs the system's
     * words. */
    const char mark[] = "error message = '";
    char *words = strstr(message.data, mark);
    if (words) {
        words += sizeof mark - 1;
        words[strcspn(words, "'")] = 0;
    } else {
        words = message.data;
    }
    for (char *c = words; *c; c++)
        if (*c == '\n') *c = ' ';
    text_add(text, "%s", *words ? words : "HDF5 says no more");
    text_free(&message);
}

void *hdf5_records(
    hid_t file, const char *name, const struct hdf5_member *member, int members, size_t size, size_t *count)
{
    const hid_t memory = H5Tcreate(H5T_COMPOUND, size);
    for (int i = 0; memory >= 0 && i < members; i++)
        H5Tinsert(memory, member[i].name, member[i].offset, member[i].type);
    const hid_t data = H5Dopen2(file, name, H5P_DEFAULT);
    const hid_t space = data < 0 ? H5I_INVALID_HID : H5Dget_space(data);
    const hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
    void *records = points < 0 ? NULL : allocate((size_t)points, size);
    if (records && H5Dread(data, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, records) < 0) {
        free(records);
        records = NULL;
    }
    *count = records ? (size_t)points : 0;
    if (space >= 0) H5Sclose(space);
    if (data >= 0) H5Dclose(data);
    if (memory >= 0) H5Tclose(memory);
    return records;
}

const char *output_library(void)
{
    static char name[64];
    unsigned major = 0, minor = 0, release = 0;
    hdf5_start();
    H5get_libversion(&major, &minor, &release);
#ifdef H5_HAVE_PARALLEL
    const char *build = "parallel";
#else
    const char *build = "serial";
#endif
    snprintf(name, sizeof name, "HDF5 %u.%u.%u (%s)", major, minor, release, build);
    return name;
}

const char *json_library(void)
{
#if JANSSON_VERSION_HEX >= 0x020e00
    static char name[32];
    snprintf(name, sizeof name, "Jansson %s", jansson_version_str());
    return name;
#else
    return "Jansson " JANSSON_VERSION;
#endif
}
