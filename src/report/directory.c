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

/* Whether the array, which may be absent, has nothing but such names; else the job fails. */
static void need_plain_names(const char *path, const json_t *names)
{
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) if (!is_plain_name(json_string_value(name)))
        fail("'%s' lists '%s': not the name of a file in this directory; nothing was removed", path,
            json_is_string(name) ? json_string_value(name) : "(no text)");
}

/* Removes what the list that is called `name` names, and the list itself last: if this is interrupted, the
   next run finds what is left. Directories that it names are emptied of what their own lists name, and go
   where that leaves them empty; the lists of those name no further ones. */
static void remove_listed(const char *directory, const char *name, bool with_directories)
{
    remove_file(directory, name, ".part");
    if (!is_there(directory, name)) return;
    char *path = join_path(directory, name);
    json_error_t why;
    json_t *result = json_load_file(path, 0, &why);
    const json_t *files = json_object_get(result, "files");
    const json_t *directories = with_directories ? json_object_get(result, "directories") : NULL;
    const char *format = json_string_value(json_object_get(result, "format"));
    if (!json_is_array(files) || !format ||
        (strcmp(format, "pipeleaf result") && strcmp(format, "pipeleaf recheck")))
        fail("'%s' was not written by pipeleaf (%s): move it away, or set another output.directory", path,
            result ? "it lists no files" : why.text);
    size_t i;
    json_t *entry;
    /* All are judged before one is removed. */
    need_plain_names(path, files);
    need_plain_names(path, directories);
    json_array_foreach(directories, i, entry)
    {
        char *below = join_path(directory, json_string_value(entry));
        remove_listed(below, name, false);
        if (rmdir(below) && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
            fail("cannot remove '%s' of an earlier run: %s", below, strerror(errno));
        free(below);
    }
    json_array_foreach(files, i, entry)
    {
        const char *listed = json_string_value(entry);
        remove_file(directory, listed, ".part");
        if (strcmp(listed, name)) remove_file(directory, listed, "");
    }
    remove_file(directory, name, "");
    json_decref(result);
    free(path);
}

void directory_prepare(const char *directory, const char *name)
{
    make_directory(directory);
    remove_listed(directory, name, true);
}
