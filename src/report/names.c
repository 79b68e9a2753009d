#include "report/names.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *copy_text(const char *text)
{
    const size_t size = strlen(text) + 1;
    return memcpy(allocate(size, 1), text, size);
}

char *join_path(const char *folder, const char *name)
{
    struct text path = { 0 };
    const size_t length = strlen(folder);
    text_add(&path, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
    return path.data;
}

bool has_ending(const char *name, const char *ending)
{
    const size_t length = strlen(name), tail = strlen(ending);
    return length >= tail && !strcmp(name + length - tail, ending);
}

bool is_there(const char *folder, const char *name)
{
    char *path = join_path(folder, name);
    const bool there = access(path, F_OK) == 0;
    free(path);
    return there;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

char **list_names(const char *folder, size_t *count, struct text *error)
{
    struct dirent **found;
    const int names = scandir(folder, &found, NULL, by_bytes);
    if (names < 0) {
        text_add(error, "cannot list '%s': %s", folder, strerror(errno));
        return NULL;
    }
    char **name = allocate((size_t)names, sizeof *name);
    for (int i = 0; i < names; i++) {
        name[i] = copy_text(found[i]->d_name);
        free(found[i]);
    }
    free(found);
    *count = (size_t)names;
    return name;
}

void free_names(char **name, size_t count)
{
    for (size_t i = 0; i < count; i++) free(name[i]);
    free(name);
}
