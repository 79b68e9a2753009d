/* How the tests of the verdict speak: EXPECT(verdict, run, reference, words) compares two sides and wants the
 * verdict and the words. */
#pragma once
#include "../check.h"
#include "made.h"
#include <stdlib.h>
#include <string.h>

static struct text told; /* what the last comparison said */

static inline int compare(const char *run_path, const char *reference_path)
{
    struct side *run = NULL, *reference = NULL;
    struct text error = { 0 };
    int verdict = -1;
    text_free(&told);
    text_add(&told, "%s", "");
    if (side_open(&run, run_path, "run", &error) &&
        side_open(&reference, reference_path, "reference", &error))
        verdict = (int)verify(run, reference, &told);
    else
        text_add(&told, "%s", error.data);
    side_close(run);
    side_close(reference);
    text_free(&error);
    return verdict;
}

static inline bool says(const char *words)
{
    return strstr(told.data, words) != NULL;
}

#define EXPECT(verdict, run, reference, words)                                                               \
    do {                                                                                                     \
        const int found = compare(run, reference);                                                           \
        CHECK(                                                                                               \
            found == (int)(verdict), "%s against %s is verdict %d:\n%s", run, reference, found, told.data);  \
        CHECK(says(words), "must say '%s':\n%s", words, told.data);                                          \
    } while (0)

/* A fresh directory with a run and a reference that agree; changed afterwards, or made with a change. */
static inline const char *made(const char *name, struct making *run, struct making *reference)
{
    const char *directory = fresh_directory(name);
    run->directory = reference->directory = directory;
    make_output(run);
    make_output(reference);
    return directory;
}

static inline const char *made_usual(const char *name)
{
    struct making run = usual(name, "run"), reference = usual(name, "reference");
    return made(name, &run, &reference);
}
