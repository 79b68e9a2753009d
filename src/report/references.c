#include "report/names.h"
#include "report/verify.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder beside the installed program: ../share/pipeleaf/reference from where the executable is; NULL:
 * not known. */
static char *installed_folder(void)
{
    char executable[4096];
    const ssize_t length = readlink("/proc/self/exe", executable, sizeof executable - 1);
    if (length <= 0) return NULL;
    executable[length] = 0;
    char *slash = strrchr(executable, '/');
    if (!slash) return NULL;
    *slash = 0;
    return join_path(executable, "../share/pipeleaf/reference");
}

static char *reference_folder(void)
{
    const char *chosen = getenv("PIPELEAF_REFERENCE");
    if (chosen && *chosen) return copy_text(chosen);
    if (access(PIPELEAF_REFERENCE_FOLDER, R_OK) == 0) return copy_text(PIPELEAF_REFERENCE_FOLDER);
    return installed_folder();
}

/* Whether the file is of this identity, all of it. One that cannot be read counts: whoever opens it will say
 * why. */
static bool is_of_identity(const char *path, const char *identity)
{
    struct digest_file file;
    struct text error = { 0 };
    bool good = true;
    if (digest_file_read(path, &file, &error)) {
        good = !strcmp(file.identity, identity);
        digest_file_free(&file);
    }
    text_free(&error);
    return good;
}

bool reference_find(const char *identity, struct text *path)
{
    char *folder = reference_folder();
    if (!folder) return false;
    struct text ending = { 0 }, error = { 0 };
    text_add(&ending, ".%.16s.digest", identity);
    size_t count = 0;
    char **name = list_names(folder, &count, &error);
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        if (!has_ending(name[i], ending.data)) continue;
        char *candidate = join_path(folder, name[i]);
        found = is_of_identity(candidate, identity);
        if (found) text_add(path, "%s", candidate);
        free(candidate);
    }
    if (name) free_names(name, count);
    text_free(&ending);
    text_free(&error);
    free(folder);
    return found;
}
