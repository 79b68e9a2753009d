#include "report/names.h"
#include "report/result.h"
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void make_directory(const char *directory)
{
    if (!*directory) fail("output.directory is '': it must name a directory");
    char *path = copy_text(directory);
    /* Parents first: the path is cut at each slash in turn, and at its end. */
    for (char *at = path + 1;; at++) {
        const char here = *at;
        if (here && here != '/') continue;
        *at = 0;
        if (mkdir(path, 0777) && errno != EEXIST)
            fail("cannot create directory '%s': %s", path, strerror(errno));
        *at = here;
        if (!here) break;
    }
    free(path);
    struct stat status;
    if (stat(directory, &status) || !S_ISDIR(status.st_mode))
        fail("output.directory '%s' is there and is no directory", directory);
    if (access(directory, W_OK | X_OK))
        fail("cannot write to directory '%s': %s", directory, strerror(errno));
}

static void remove_file(const char *directory, const char *name, const char *ending)
{
    struct text path = { 0 };
    char *start = join_path(directory, name);
    text_add(&path, "%s%s", start, ending);
    if (unlink(path.data) && errno != ENOENT)
        fail("cannot remove '%s' of an earlier run: %s", path.data, strerror(errno));
    text_free(&path);
    free(start);
}

/* A name that can only lie in the directory itself. */
static bool is_plain_name(const char *name)
{
    return name && *name && !strchr(name, '/') && !strstr(name, "..") && strcmp(name, ".");
}

void directory_prepare(const char *directory, const char *name)
{
    make_directory(directory);
    remove_file(directory, name, ".part");
    if (!is_there(directory, name)) return;
    char *path = join_path(directory, name);
    json_error_t why;
    json_t *result = json_load_file(path, 0, &why);
    const json_t *files = json_object_get(result, "files");
    const char *format = json_string_value(json_object_get(result, "format"));
    if (!json_is_array(files) || !format ||
        (strcmp(format, "pipeleaf result") && strcmp(format, "pipeleaf recheck")))
        fail("'%s' was not written by pipeleaf (%s): move it away, or set another output.directory", path,
            result ? "it lists no files" : why.text);
    size_t i;
    json_t *file;
    /* All are judged before one is removed. */
    json_array_foreach(files, i, file) if (!is_plain_name(json_string_value(file)))
        fail("'%s' lists '%s': not the name of a file in this directory; nothing was removed", path,
            json_is_string(file) ? json_string_value(file) : "(no text)");
    json_array_foreach(files, i, file)
    {
        const char *listed = json_string_value(file);
        remove_file(directory, listed, ".part");
        if (strcmp(listed, name)) remove_file(directory, listed, "");
    }
    /* The list itself last: if this is interrupted, the next run finds what is left. */
    remove_file(directory, name, "");
    json_decref(result);
    free(path);
}
