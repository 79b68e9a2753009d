/* The options of the commands: the one table that the command line is read by and that the help is made of.
 */
#pragma once
#include "command/setup.h"

struct option {
    const char *command, *name, *value; /* value: what it is, for messages; NULL: it has none */
    size_t offset; /* in struct words: where the value goes; those without one set true */
    const char *help;
};
extern const struct option command_options[];
extern const size_t command_option_count;
