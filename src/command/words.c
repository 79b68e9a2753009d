/* The words of a command line: the deck, overrides, options. */
#include "command/options.h"
#include <stdlib.h>
#include <string.h>

/* clang-format off */
const struct option command_options[] = {
    { "run", "--inject", "step=...,layer=...", offsetof(struct words, inject),
        "flips one bit, to see the verdict fail: step=1,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3; "
        "tensor: gradients/NAME, activation or activation_gradient; steps count from 1, all else from 0; pipeline=1 puts it into that one of "
        "several pipelines, else it is the first one's" },
    { "plan", "--export-csv", "FILE", offsetof(struct words, export_csv),
        "writes the schedule as PyTorch's pipelining CSV, which pipeline.schedule='file' reads" },
    { "plan", "--with-communication", NULL, offsetof(struct words, with_communication),
        "adds sends and receives to that file" },
    { "plan", "--svg", "FILE", offsetof(struct words, svg), "writes the picture of the schedule as SVG" },
    { "run", "--from", "DIR", offsetof(struct words, from),
        "of run.device='rehearsal': waits for the times that the run in DIR measured, instead of those of &machine" },
    { "plan", "--from", "DIR", offsetof(struct words, from),
        "costs as the run in DIR measured them, instead of those of &machine; compares with that run" },
    { "plan", "--picture", NULL, offsetof(struct words, picture), "prints the picture even where it is wide" },
    { "plan", "--channels", NULL, offsetof(struct words, all_channels), "lists every channel, however many there are" },
};
/* clang-format on */
const size_t command_option_count = sizeof command_options / sizeof *command_options;
enum { OPTIONS = sizeof command_options / sizeof *command_options };

static bool unknown_option(const char *command, const char *name, size_t length, struct text *error)
{
    const char *names[OPTIONS];
    size_t count = 0;
    for (int i = 0; i < OPTIONS; i++)
        if (strcmp(command_options[i].command, command) == 0) names[count++] = command_options[i].name;
    text_add(error, "'%.*s': pipeleaf %s has no such option", (int)length, name, command);
    const char *nearest = nearest_name(name, names, count);
    if (nearest) text_add(error, "; nearest %s", nearest);
    const char *before = "; it has ";
    for (int i = 0; i < OPTIONS; i++) {
        if (strcmp(command_options[i].command, command) != 0) continue;
        text_add(error, "%s%s%s%s", before, command_options[i].name, command_options[i].value ? " " : "",
            command_options[i].value ? command_options[i].value : "");
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
        if (strcmp(command_options[i].command, command) == 0 && strlen(command_options[i].name) == length &&
            strncmp(command_options[i].name, name, length) == 0)
            option = &command_options[i];
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
