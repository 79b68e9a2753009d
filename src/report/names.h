/* Paths and the names in a folder. What is returned is owned by the caller: free(). */
#pragma once
#include "base/base.h"

char *copy_text(const char *text);
/* "FOLDER/NAME" */
char *join_path(const char *folder, const char *name);
bool has_ending(const char *name, const char *ending);
/* Whether the folder has something of this name. */
bool is_there(const char *folder, const char *name);

/* The names in a folder, sorted by bytes; NULL with one line in *error. Release with free_names. */
char **list_names(const char *folder, size_t *count, struct text *error);
void free_names(char **name, size_t count);
