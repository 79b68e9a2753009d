/* Where the reading of a deck stands: what is looked at, passed over, and said to be wrong. */
#include "deck/reader.h"
#include <ctype.h>
#include <string.h>

int reader_line(const struct reader *reader, size_t at)
{
    int line = 1;
    for (size_t i = 0; i < at; i++) line += reader->text[i] == '\n';
    return line;
}

void reader_place(const struct reader *reader, size_t at)
{
    if (!reader->path) {
        text_add(reader->error, "override '");
        deck_show(reader->error, reader->text, reader->length);
        text_add(reader->error, "': ");
        return;
    }
    size_t column = 1;
    while (column <= at && reader->text[at - column] != '\n') column++;
    text_add(reader->error, "%s:%d:%zu: ", reader->path, reader_line(reader, at), column);
}

bool reader_wrong(const struct reader *reader, size_t at, const char *format, ...)
{
    reader_place(reader, at);
    va_list arguments;
    va_start(arguments, format);
    text_add_list(reader->error, format, arguments);
    va_end(arguments);
    return false;
}

bool reader_wrong_text(
    const struct reader *reader, size_t at, const char *before, size_t length, const char *after)
{
    reader_place(reader, at);
    text_add(reader->error, "%s", before);
    deck_show(reader->error, reader->text + at, length);
    text_add(reader->error, "%s", after);
    return false;
}

char reader_peek(const struct reader *reader)
{
    return reader->at < reader->length ? reader->text[reader->at] : 0;
}

bool reader_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static bool is_name_character(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool reader_is_separator(char c)
{
    return reader_is_blank(c) || c == '\n' || c == ',' || c == '/' || c == 0;
}

void reader_skip_blanks(struct reader *reader)
{
    while (reader_is_blank(reader_peek(reader))) reader->at++;
}

void reader_skip_space(struct reader *reader)
{
    for (;; reader->at++) {
        if (reader_peek(reader) == '!')
            while (reader_peek(reader) && reader_peek(reader) != '\n') reader->at++;
        if (!reader_is_blank(reader_peek(reader)) && reader_peek(reader) != '\n') return;
    }
}

size_t reader_name_length(const struct reader *reader)
{
    size_t length = 0;
    while (reader->at + length < reader->length && is_name_character(reader->text[reader->at + length]))
        length++;
    return length;
}

size_t reader_word_length(const struct reader *reader, size_t at)
{
    size_t end = at;
    while (end < reader->length && !reader_is_separator(reader->text[end])) end++;
    return end > at ? end - at : end < reader->length;
}

bool reader_at_name(const struct reader *reader)
{
    if (!isalpha((unsigned char)reader_peek(reader))) return false;
    size_t next = reader->at + reader_name_length(reader);
    while (next < reader->length && reader_is_blank(reader->text[next])) next++;
    return next < reader->length && strchr("=(%", reader->text[next]);
}

size_t reader_pass_value(struct reader *reader)
{
    const size_t start = reader->at;
    const char quote = reader_peek(reader);
    if (quote != '\'' && quote != '"') {
        while (!reader_is_separator(reader_peek(reader)) && !strchr("!=", reader_peek(reader))) reader->at++;
        return reader->at - start;
    }
    for (reader->at++; reader_peek(reader) && reader_peek(reader) != '\n'; reader->at++) {
        if (reader_peek(reader) != quote) continue;
        reader->at++;
        if (reader_peek(reader) != quote) return reader->at - start;
    }
    reader_wrong(reader, start, "this string is not closed: must end with %c on its line", quote);
    return 0;
}
