/* The words of a command line: the deck, overrides, options. */
#include "command/setup.h"
#include <stdlib.h>
#include <string.h>

/* The options of each command: where the value goes; those without one are set to true. */
static const struct option {
    const char *command, *name, *value; /* value: what it is, for messages; NULL: it has none */
    size_t offset;
} options[] = {
    { "run", "--inject", "step=...,layer=...", offsetof(struct words, inject) },
    { "plan", "--export-csv", "FILE", offsetof(struct words, export_csv) },
    { "plan", "--with-communication", NULL, offsetof(struct words, with_communication) },
    { "plan", "--svg", "FILE", offsetof(struct words, svg) },
    { "run", "--from", "DIR", offsetof(struct words, from) },
    { "plan", "--from", "DIR", offsetof(struct words, from) },
    { "plan", "--picture", NULL, offsetof(struct words, picture) },
    { "plan", "--channels", NULL, offsetof(struct words, all_channels) },
};
enum { OPTIONS = sizeof options / sizeof *options };

static bool unknown_option(const char *command, const char *name, size_t length, struct text *error)
{
    const char *names[OPTIONS];
    size_t count = 0;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].command, command) == 0) names[count++] = options[i].name;
    text_add(error, "'%.*s': pipeleaf %s has no such option", (int)length, name, command);
    const char *nearest = nearest_name(name, names, count);
    if (nearest) text_add(error, "; nearest %s", nearest);
    const char *before = "; it has ";
    for (int i = 0; i < OPTIONS; i++) {
        if (strcmp(options[i].command, command) != 0) continue;
        text_add(error, "%s%s%s%s", before, options[i].name, options[i].value ? " " : "",
            options[i].value ? options[i].value : "");
        before = ", ";
    }
    return false;
}

/* word[*at] begins with --: takes it, and its value, which is the next word or stands after a =. */
static bool parse_option(
    int count, char **word, int *at, const char *command, struct words *words, struct text *error)
{
    const char *name = word[*at], *equals = strchr(name, '=');
    const size_t length = equals ? (size_t)(equals - name) : strlen(name);
    const struct option *option = NULL;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(options[i].command, command) == 0 && strlen(options[i].name) == length &&
            strncmp(options[i].name, name, length) == 0)
            option = &options[i];
    if (!option) return unknown_option(command, name, length, error);
    void *field = (char *)words + option->offset;
    const char **text = field;
    bool *flag = field;
    const char *value = equals ? equals + 1 : *at + 1 < count ? word[*at + 1] : "";
    if (option->value ? *text != NULL : *flag) {
        text_add(error, "%s is given twice", option->name);
    } else if (!option->value && equals) {
        text_add(error, "%s takes no value, and '%s' is one", option->name, value);
    } else if (option->value && (*value == 0 || (!equals && strncmp(value, "--", 2) == 0))) {
        text_add(error, "%s needs a value after it: %s %s", option->name, option->name, option->value);
    } else if (option->value) {
        *text = value;
        if (!equals) ++*at;
        return true;
    } else {
        return *flag = true;
    }
    return false;
}

bool words_parse(int count, char **word, const char *command, struct words *words, struct text *error)
{
    *words = (struct words){ .overrides = allocate((size_t)count, sizeof *words->overrides) };
    for (int i = 0; i < count; i++) {
        if (strncmp(word[i], "--", 2) == 0) {
            if (!parse_option(count, word, &i, command, words, error)) return false;
        } else if (strchr(word[i], '=')) {
            words->overrides[words->override_count++] = word[i];
        } else if (!words->deck_path) {
            words->deck_path = word[i];
        } else {
            text_add(error,
                "'%s': one %s only, and '%s' is it already; an override has the form group.name=value",
                word[i], strcmp(command, "recheck") == 0 ? "directory" : "deck", words->deck_path);
            return false;
        }
    }
    if (words->with_communication && !words->export_csv) {
        text_add(
            error, "--with-communication is of the file that --export-csv FILE writes, which is missing");
        return false;
    }
    return true;
}

void words_free(struct words *words)
{
    free(words->overrides);
}
