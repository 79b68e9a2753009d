/* pipeleaf: training steps of a transformer-layer stack under a pipeline schedule, verified to the last bit.
 */
#include "command/help.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Prints and releases the text. */
static int say(struct text *text)
{
    if (fputs(text->data, stdout) < 0 || fflush(stdout)) fail("cannot write to standard output");
    text_free(text);
    return EXIT_DONE;
}

static int help(const struct command *command)
{
    struct text text = { 0 };
    help_text(command, &text);
    return say(&text);
}

static int manual(const char *name)
{
    struct text text = { 0 };
    if (!name || !help_man(name, &text))
        fail("--man '%s': the pages are pipeleaf.1 and pipeleaf-deck.5", name ? name : "");
    return say(&text);
}

/* name: NULL where there is none. */
static _Noreturn void no_such_command(const char *name)
{
    const char **names = allocate(command_count, sizeof *names);
    struct text list = { 0 };
    for (size_t i = 0; i < command_count; i++) {
        names[i] = commands[i].name;
        text_add(&list, "%s%s", i == 0 ? "" : i + 1 < command_count ? ", " : " and ", names[i]);
    }
    if (!name) fail("a command is missing: the commands are %s; pipeleaf --help says more", list.data);
    const char *near = nearest_name(name, names, command_count);
    fail("unknown command '%s': the commands are %s; the nearest is %s", name, list.data,
        near ? near : names[0]);
}

int main(int argc, char **argv)
{
    if (argc < 2) no_such_command(NULL);
    if (asks_for_help(argv[1])) return help(NULL);
    if (strcmp(argv[1], "--man") == 0) return manual(argc > 2 ? argv[2] : NULL);
    if (strcmp(argv[1], "--version") == 0) {
        printf("pipeleaf %s (%s)\n", pipeleaf_version, pipeleaf_commit);
        return EXIT_DONE;
    }
    const struct command *command = command_find(argv[1]);
    if (!command) no_such_command(argv[1]);
    for (int i = 2; i < argc; i++)
        if (asks_for_help(argv[i])) return help(command);
    return command->run(argc - 2, argv + 2);
}
