/* The letters of a deck, for namelist.c alone. */
#pragma once
#include "deck/parameter.h"

enum { MOST_PARAMETERS = 64 };

struct reader {
    struct deck *deck;
    const char *path, *text; /* path: NULL while an override is read */
    size_t length, at;
    int given_at_line[MOST_PARAMETERS]; /* 0: not yet */
    struct text *error;
};

int reader_line(const struct reader *reader, size_t at);

/* Begins a message with where it is about: "PATH:LINE:COLUMN: " or "override '...': ". */
void reader_place(const struct reader *reader, size_t at);

/* Says what is wrong there. False, always. */
bool reader_wrong(const struct reader *reader, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, with `length` bytes of the text shown between BEFORE and AFTER. */
bool reader_wrong_text(
    const struct reader *reader, size_t at, const char *before, size_t length, const char *after);

/* The character here, or 0 at the end. */
char reader_peek(const struct reader *reader);

bool reader_is_blank(char c);

/* True of what may follow a value or a name. */
bool reader_is_separator(char c);

void reader_skip_blanks(struct reader *reader);

/* Skips blanks, ends of lines and comments. */
void reader_skip_space(struct reader *reader);

/* Length of the name that begins here; 0: none does. */
size_t reader_name_length(const struct reader *reader);

/* Length of the rest of the word at `at`, for a message. */
size_t reader_word_length(const struct reader *reader, size_t at);

/* True where the next parameter's name stands: a name, then =, ( or %, which no value has. */
bool reader_at_name(const struct reader *reader);

/* Moves past one value; its length is 0 with a message where a string is not closed. */
size_t reader_pass_value(struct reader *reader);
