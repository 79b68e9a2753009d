/* What the program says of itself: --help, and the manual pages. The tables are in help.c, commands.c and
   words.c, and the parameters' in deck/. */
#pragma once
#include "base/base.h"

/* A command of the program: a row of the table in commands.c. */
struct command {
    const char *name;
    int (*run)(int count, char **words); /* takes the words after the name; returns the exit code */
    const char *words;                   /* what follows the name, but its options */
    const char *summary;                 /* a phrase */
    const char *about;                   /* sentences */
};
extern const struct command commands[];
extern const size_t command_count;
/* Of that name, or NULL. */
const struct command *command_find(const char *name);

/* Appends what `pipeleaf --help` prints, or, of one command, `pipeleaf COMMAND --help`. command: NULL: all.
 */
void help_text(const struct command *command, struct text *out);
/* Appends the source of a manual page: "pipeleaf.1" or "pipeleaf-deck.5". False where there is none of that
 * name. */
bool help_man(const char *name, struct text *out);
