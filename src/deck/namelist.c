/* The reader of decks: Fortran namelist files as gfortran's READ(NML=) and Python's f90nml understand them,
   with one message for whatever those would pass over in silence. Anything accepted here reads the same
   there; some of what they accept (null values, indices, text between groups, two groups on a line, $ or
   &end) is refused. */
#include "deck/reader.h"
#include <assert.h>
#include <ctype.h>
#include <string.h>

/* The values after a name and =, up to the next name or the group's end. */
static bool read_values(struct reader *reader, const struct deck_parameter *p)
{
    const size_t first = reader->at;
    deck_clear(reader->deck, p);
    for (int count = 0;; count++) {
        if (count)
            reader_skip_space(reader);
        else
            while (reader_is_blank(reader_peek(reader)) || reader_peek(reader) == '\n') reader->at++;
        const size_t start = reader->at;
        const char c = reader_peek(reader);
        if (c == 0 || c == '/' || c == '&' || c == '!' || reader_at_name(reader)) {
            if (count) return true;
            const char *const quote = p->type == DECK_WORD ? "'" : "";
            return reader_wrong(reader, first, "%s.%s has no value: write one after the =, such as %s%s%s",
                p->group, p->name, quote, p->type == DECK_INTEGERS ? "3*2" : p->initial, quote);
        }
        if (c == ',')
            return reader_wrong(
                reader, start, "%s.%s has an empty value before this comma", p->group, p->name);
        if (count && p->type != DECK_INTEGERS) {
            reader_place(reader, start);
            text_add(reader->error, "%s.%s takes one value, and '", p->group, p->name);
            deck_show(reader->error, reader->text + start, reader_word_length(reader, start));
            text_add(reader->error, "' is a second one");
            return false;
        }
        const size_t length = reader_pass_value(reader);
        if (reader->error->length) return false;
        if (!reader_is_separator(reader_peek(reader)) || length == 0)
            return reader_peek(reader) == '!' ? reader_wrong(reader, reader->at,
                                                    "a comment after a value needs a blank before its !")
                                              : reader_wrong_text(reader, reader->at, "unexpected '",
                                                    reader_word_length(reader, reader->at),
                                                    "' after a value: put a blank or a comma between values");
        struct text why = { 0 };
        const bool good = deck_set(reader->deck, p, reader->text + start, length, &why);
        if (!good) reader_wrong(reader, start, "%s", why.data);
        text_free(&why);
        if (!good) return false;
        reader_skip_space(reader);
        if (reader_peek(reader) != ',') continue;
        reader->at++;
        reader_skip_blanks(reader);
        /* gfortran gives the list an element more here. */
        if (reader_peek(reader) == '!' && p->type == DECK_INTEGERS)
            return reader_wrong(reader, reader->at,
                "a comment after a comma is an empty value to Fortran: leave the comma out, or put it on the "
                "next line");
    }
}

static void list_parameters(struct text *out, int group)
{
    const char *separator = "; it has ";
    for (size_t i = 0; i < deck_parameter_count; i++) {
        if (strcmp(deck_parameters[i].group, deck_groups[group]) != 0) continue;
        text_add(out, "%s%s", separator, deck_parameters[i].name);
        separator = ", ";
    }
}

/* The name here among the group's: its number, or -1 with a message. Moves past it. */
static int read_parameter_name(struct reader *reader, int group)
{
    const size_t start = reader->at, length = reader_name_length(reader);
    struct text name = { 0 };
    text_add(&name, "%.*s", (int)(length < 60 ? length : 60), reader->text + start);
    const int found = deck_find_parameter(group, reader->text + start, length);
    reader->at += length;
    if (found < 0) {
        bool elsewhere = false;
        reader_wrong(reader, start, "&%s has no parameter '%s'", deck_groups[group], name.data);
        for (int i = 0; i < DECK_GROUPS; i++)
            if (deck_find_parameter(i, reader->text + start, length) >= 0) {
                text_add(reader->error, "; &%s has", deck_groups[i]);
                elsewhere = true;
            }
        const char *const nearest = elsewhere ? NULL : deck_nearest_parameter(group, name.data);
        if (nearest)
            text_add(reader->error, "; nearest '%s'", nearest);
        else if (!elsewhere)
            list_parameters(reader->error, group);
    } else if (reader->given_at_line[found]) {
        if (reader->path)
            reader_wrong(reader, start, "%s.%s was given already at line %d", deck_groups[group],
                deck_parameters[found].name, reader->given_at_line[found]);
        else
            reader_wrong(reader, start, "%s.%s was overridden already", deck_groups[group],
                deck_parameters[found].name);
    }
    text_free(&name);
    return reader->error->length ? -1 : found;
}

/* name = value ... */
static bool read_parameter(struct reader *reader, int group)
{
    const size_t start = reader->at;
    if (!isalpha((unsigned char)reader_peek(reader)))
        return reader_wrong_text(reader, start, "unexpected '", reader_word_length(reader, start),
            "': must be a parameter's name, or / to end the group");
    const int found = read_parameter_name(reader, group);
    if (found < 0) return false;
    const struct deck_parameter *const p = &deck_parameters[found];
    reader_skip_blanks(reader);
    if (reader_peek(reader) == '(' || reader_peek(reader) == '%')
        return reader_wrong(reader, reader->at, "%s.%s takes no index: write %s = and all its values",
            p->group, p->name, p->name);
    if (reader_peek(reader) != '=')
        return reader_wrong(reader, reader->at, "%s.%s must be followed by =", p->group, p->name);
    reader->at++;
    reader->given_at_line[found] = reader_line(reader, start);
    return read_values(reader, p);
}

/* The nearest group for a message, or its list. */
static bool wrong_group(const struct reader *reader, size_t at, size_t length)
{
    reader_wrong_text(reader, at, "there is no group '", length, "'");
    struct text name = { 0 };
    text_add(&name, "%.*s", (int)(length < 60 ? length : 60), reader->text + at);
    const char *const nearest = nearest_name(name.data, deck_groups, DECK_GROUPS);
    text_free(&name);
    if (nearest) text_add(reader->error, "; nearest '%s'", nearest);
    for (int i = 0; !nearest && i < DECK_GROUPS; i++)
        text_add(reader->error, "%s%s", i ? ", " : "; there are ", deck_groups[i]);
    return false;
}

/* &name ... /, the & being here. */
static bool read_group(struct reader *reader, int *given)
{
    const size_t start = reader->at++, length = reader_name_length(reader);
    const int group = deck_find_group(reader->text + reader->at, length);
    if (group < 0)
        return length ? wrong_group(reader, reader->at, length)
                      : reader_wrong(reader, start, "& has no group's name after it, such as &model");
    reader->at += length;
    if (!reader_is_separator(reader_peek(reader)) || reader_peek(reader) == ',')
        return reader_wrong(reader, reader->at, "&%s must be followed by a blank", deck_groups[group]);
    const int line = reader_line(reader, start);
    if (given[group])
        return reader_wrong(
            reader, start, "&%s was given already at line %d", deck_groups[group], given[group]);
    given[group] = line;
    for (;;) {
        reader_skip_space(reader);
        if (reader_peek(reader) == '/') break;
        if (reader_peek(reader) == 0 || reader_peek(reader) == '&')
            return reader_wrong(reader, reader->at, "&%s of line %d has no / to end it before %s",
                deck_groups[group], line, reader_peek(reader) ? "this group" : "the end of the file");
        if (!read_parameter(reader, group)) return false;
    }
    reader->at++;
    reader_skip_blanks(reader);
    if (reader_peek(reader) == '&')
        return reader_wrong(
            reader, reader->at, "a group must begin a line of its own: Fortran does not see one after a /");
    if (reader_peek(reader) && !strchr("\n!", reader_peek(reader)))
        return reader_wrong_text(reader, reader->at, "unexpected '", reader_word_length(reader, reader->at),
            "' after the / that ends a group");
    return true;
}

static bool read_file(struct reader *reader)
{
    for (size_t i = 0; i < reader->length; i++) {
        const unsigned char c = (unsigned char)reader->text[i];
        if ((c < 32 && !strchr("\t\n\r", c)) || c == 0 || c == 127)
            return reader_wrong(reader, i, "a byte 0x%02x: a deck is plain text", c);
    }
    if (reader->length >= 3 && memcmp(reader->text, "\xef\xbb\xbf", 3) == 0)
        return reader_wrong(reader, 0, "a byte order mark: save the deck as UTF-8 without one");
    int given[DECK_GROUPS] = { 0 };
    for (;;) {
        reader_skip_space(reader);
        if (!reader_peek(reader)) return true;
        if (reader_peek(reader) != '&')
            return reader_wrong_text(reader, reader->at, "unexpected '",
                reader_word_length(reader, reader->at),
                "' outside a group: must be &, such as &model, or a comment after !");
        if (!read_group(reader, given)) return false;
    }
}

/* group.name=value, the value of a word with or without quotes. */
static bool read_override(struct reader *reader)
{
    for (size_t i = 0; i < reader->length; i++)
        if ((unsigned char)reader->text[i] < 32 || reader->text[i] == 127)
            return reader_wrong(
                reader, i, "a byte 0x%02x: a value is plain text", (unsigned char)reader->text[i]);
    reader_skip_blanks(reader);
    const size_t start = reader->at, length = reader_name_length(reader);
    if (reader->at + length >= reader->length || reader->text[reader->at + length] != '.') {
        reader_wrong(reader, start, "must be group.name=value, such as ");
        for (int i = 0; i < DECK_GROUPS; i++) {
            const int found = deck_find_parameter(i, reader->text + start, length);
            if (found < 0) continue;
            text_add(reader->error, "%s.%s=%s", deck_groups[i], deck_parameters[found].name,
                deck_parameters[found].initial);
            return false;
        }
        text_add(reader->error, "model.layers=8");
        return false;
    }
    const int group = deck_find_group(reader->text + start, length);
    if (group < 0) return wrong_group(reader, start, length);
    reader->at += length + 1;
    const int found = read_parameter_name(reader, group);
    if (found < 0) return false;
    const struct deck_parameter *const p = &deck_parameters[found];
    reader_skip_blanks(reader);
    if (reader_peek(reader) != '=')
        return reader_wrong(reader, reader->at, "%s.%s must be followed by =", p->group, p->name);
    reader->at++;
    reader_skip_blanks(reader);
    reader->given_at_line[found] = 1;
    if (p->type == DECK_WORD && reader_peek(reader) && !strchr("'\"", reader_peek(reader))) {
        struct text why = { 0 };
        const bool good =
            deck_set_word(reader->deck, p, reader->text + reader->at, reader->length - reader->at, &why);
        if (!good) reader_wrong(reader, reader->at, "%s", why.data);
        text_free(&why);
        return good;
    }
    if (!read_values(reader, p)) return false;
    if (reader->at < reader->length)
        return reader_wrong_text(
            reader, reader->at, "unexpected '", reader->length - reader->at, "' after the value");
    return true;
}

bool deck_read(struct deck *deck, const char *path, const char *text, size_t length, int overrides,
    char *const *override, struct text *error)
{
    assert(deck_parameter_count <= MOST_PARAMETERS && error->length == 0);
    *deck = (struct deck){ 0 };
    for (size_t i = 0; i < deck_parameter_count; i++) {
        const struct deck_parameter *const p = &deck_parameters[i];
        const size_t size = strlen(p->initial);
        const bool good = p->type == DECK_WORD       ? deck_set_word(deck, p, p->initial, size, error)
                          : p->type == DECK_INTEGERS ? true
                                                     : deck_set(deck, p, p->initial, size, error);
        assert(good);
        (void)good;
    }
    /* A reader of its own for the file, and one for all overrides, so that each may name a parameter once. */
    struct reader file = { .deck = deck, .path = path, .text = text, .length = length, .error = error };
    bool good = read_file(&file);
    struct reader command_line = { .deck = deck, .error = error };
    for (int i = 0; good && i < overrides; i++) {
        command_line.text = override[i];
        command_line.length = strlen(override[i]);
        command_line.at = 0;
        good = read_override(&command_line);
    }
    if (!good) deck_free(deck);
    return good;
}
