/* The table of parameters and the setting of one of them: shared by the files of this folder and by its
 * tests. */
#pragma once
#include "deck/deck.h"

enum deck_type { DECK_INTEGER, DECK_REAL, DECK_LOGICAL, DECK_WORD, DECK_INTEGERS };

struct deck_parameter {
    const char *group, *name;
    enum deck_type type;
    size_t offset; /* of its field in struct deck */
    const char *
        initial; /* the default as one writes it in a deck, a word without its quotes; "" for an empty list */
    int64_t least, most;    /* the range of an integer, or of each one of a list */
    double lowest, highest; /* the range of a real */
    const char *allowed[9]; /* the words it may be, ending with NULL; none: any text that is not empty */
    const char *help;       /* one line */
};

extern const struct deck_parameter deck_parameters[];
extern const size_t deck_parameter_count;

extern const char *const deck_type_name[]; /* "integer", by enum deck_type */
/* Appends the legal values in one phrase. */
void deck_range(struct text *out, const struct deck_parameter *parameter);

/* The groups in the order of the table. */
enum { DECK_GROUPS = 9 };
extern const char *const deck_groups[DECK_GROUPS];

/* The name of `length` bytes in any case among the groups, or among the parameters of a group (by its
 * number); -1: not there. */
int deck_find_group(const char *name, size_t length);
int deck_find_parameter(int group, const char *name, size_t length);

/* The nearest of a group's names, or NULL. */
const char *deck_nearest_parameter(int group, const char *name);

/* Empties the list of a DECK_INTEGERS; does nothing to the others, which the next value overwrites. */
void deck_clear(struct deck *deck, const struct deck_parameter *parameter);

/* Sets the parameter to one value as it stands in a deck: quoted text for a word; a list takes one number or
   3*2 more at each call. False with what is wrong, the rule and the nearest legal value in *why. */
bool deck_set(struct deck *deck, const struct deck_parameter *parameter, const char *value, size_t length,
    struct text *why);

/* Sets a DECK_WORD to bare text, which has no quotes to remove. */
bool deck_set_word(struct deck *deck, const struct deck_parameter *parameter, const char *value,
    size_t length, struct text *why);

/* Appends at most 60 of the bytes on one line, whatever they are. */
void deck_show(struct text *out, const char *bytes, size_t length);
