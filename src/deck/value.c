/* One value of a deck: from its text to its field, with everything that can be wrong about it. */
#include "deck/parameter.h"
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The only list there is; a second one would get its offsets into the table. */
void deck_clear(struct deck *deck, const struct deck_parameter *parameter)
{
    if (parameter->type == DECK_INTEGERS) deck->pipeline.layers_per_chunk_count = 0;
}

void deck_free(struct deck *deck)
{
    free(deck->pipeline.layers_per_chunk);
    deck->pipeline.layers_per_chunk = NULL;
    deck->pipeline.layers_per_chunk_count = 0;
}

/* "model.layers=abc": what was asked for. */
static void show_setting(struct text *why, const struct deck_parameter *p, const char *value, size_t length)
{
    text_add(why, "%s.%s=", p->group, p->name);
    deck_show(why, value, length);
}

/* Sign and digits, nothing else. What does not fit becomes the limit, which no range of the table but the
   seed's holds, so *fits says so. */
static bool parse_integer(const char *word, size_t length, int64_t *value, bool *fits)
{
    size_t i = length && (*word == '+' || *word == '-');
    const bool negative = i && *word == '-';
    if (i == length) return false;
    *value = 0;
    *fits = true;
    for (; i < length; i++) {
        if (!isdigit((unsigned char)word[i])) return false;
        const int digit = negative ? '0' - word[i] : word[i] - '0';
        if (*fits &&
            (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, digit, value)))
            *fits = false;
    }
    if (!*fits) *value = negative ? INT64_MIN : INT64_MAX;
    return true;
}

/* Digits with at most one point, then perhaps e or d, a sign and digits: what Fortran and C both read, once d
 * is e. */
static bool parse_real(const char *word, size_t length, double *value)
{
    enum { LONGEST = 400 };
    char copy[LONGEST + 1];
    if (length > LONGEST) return false;
    size_t i = length && (*word == '+' || *word == '-'), digits = 0, points = 0;
    for (; i < length && (isdigit((unsigned char)word[i]) || (word[i] == '.' && !points)); i++)
        if (word[i] == '.')
            points++;
        else
            digits++;
    if (!digits) return false;
    if (i < length) {
        if (!strchr("eEdD", word[i++])) return false;
        if (i < length && (word[i] == '+' || word[i] == '-')) i++;
        if (i == length) return false;
        for (; i < length; i++)
            if (!isdigit((unsigned char)word[i])) return false;
    }
    for (i = 0; i < length; i++) copy[i] = (char)(word[i] == 'd' || word[i] == 'D' ? 'e' : word[i]);
    copy[length] = 0;
    *value = strtod(copy, NULL);
    return true;
}

static bool parse_logical(const char *word, size_t length, bool *value)
{
    static const struct {
        const char *word;
        bool value;
    } forms[] = { { ".true.", true }, { "true", true }, { ".t.", true }, { "t", true }, { ".false.", false },
        { "false", false }, { ".f.", false }, { "f", false } };
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (strlen(forms[i].word) == length && strncasecmp(forms[i].word, word, length) == 0) {
            *value = forms[i].value;
            return true;
        }
    return false;
}

static bool get_integer(
    const struct deck_parameter *p, const char *word, size_t length, int64_t *value, struct text *why)
{
    bool fits;
    if (parse_integer(word, length, value, &fits)) {
        if (fits && *value >= p->least && *value <= p->most) return true;
        show_setting(why, p, word, length);
        text_add(why, ": must be an integer from %" PRId64 " to %" PRId64 "; nearest %" PRId64, p->least,
            p->most, *value < p->least ? p->least : p->most);
        return false;
    }
    double real;
    show_setting(why, p, word, length);
    text_add(why, ": must be an integer from %" PRId64 " to %" PRId64, p->least, p->most);
    if (!parse_real(word, length, &real))
        text_add(why, ", such as %s", *p->initial ? p->initial : "2");
    else
        text_add(why, "; nearest %" PRId64,
            real <= (double)p->least  ? p->least
            : real >= (double)p->most ? p->most
                                      : (int64_t)(real + (real < 0 ? -0.5 : 0.5)));
    return false;
}

static bool set_real(
    double *field, const struct deck_parameter *p, const char *word, size_t length, struct text *why)
{
    double value;
    if (!parse_real(word, length, &value)) {
        show_setting(why, p, word, length);
        text_add(why, ": must be a real from %g to %g, such as %s", p->lowest, p->highest, p->initial);
        return false;
    }
    if (value < p->lowest || value > p->highest) {
        show_setting(why, p, word, length);
        text_add(why, ": must be a real from %g to %g; nearest %g", p->lowest, p->highest,
            value < p->lowest ? p->lowest : p->highest);
        return false;
    }
    *field = value;
    return true;
}

/* One number, or COUNT*NUMBER. */
static bool append_integers(
    struct deck *deck, const struct deck_parameter *p, const char *word, size_t length, struct text *why)
{
    int64_t repeat = 1, value;
    const char *const star = memchr(word, '*', length);
    if (star) {
        bool fits;
        const size_t before = (size_t)(star - word);
        if (!isdigit((unsigned char)*word) || !parse_integer(word, before, &repeat, &fits) || repeat < 1 ||
            before + 1 == length) {
            show_setting(why, p, word, length);
            text_add(why, ": must be a count, a star and an integer, such as 3*2");
            return false;
        }
        word = star + 1;
        length -= before + 1;
    }
    if (!get_integer(p, word, length, &value, why)) return false;
    int64_t *const count = &deck->pipeline.layers_per_chunk_count;
    if (repeat > DECK_CHUNKS - *count) {
        text_add(why, "%s.%s has more than %d numbers: must be one a chunk, at most %d", p->group, p->name,
            DECK_CHUNKS, DECK_CHUNKS);
        return false;
    }
    if (!deck->pipeline.layers_per_chunk)
        deck->pipeline.layers_per_chunk = allocate(DECK_CHUNKS, sizeof *deck->pipeline.layers_per_chunk);
    while (repeat--) deck->pipeline.layers_per_chunk[(*count)++] = (int32_t)value;
    return true;
}

/* Fortran looks for a group by its & and name alone, and finds them in the strings of other groups too. */
static const char *looks_like_group(const char *value, size_t length)
{
    for (size_t i = 0; i < length; i++)
        for (int group = 0; group < DECK_GROUPS; group++) {
            const size_t name = strlen(deck_groups[group]);
            if ((value[i] == '&' || value[i] == '$') && name < length - i &&
                strncasecmp(value + i + 1, deck_groups[group], name) == 0)
                return deck_groups[group];
        }
    return NULL;
}

bool deck_set_word(
    struct deck *deck, const struct deck_parameter *p, const char *value, size_t length, struct text *why)
{
    assert(p->type == DECK_WORD);
    /* Fortran fills strings up with blanks, so that those at the end say nothing. */
    while (length && value[length - 1] == ' ') length--;
    char *const field = (char *)deck + p->offset;
    size_t count = 0;
    while (p->allowed[count]) count++;
    const char *const group = count ? NULL : looks_like_group(value, length);
    if (group) {
        show_setting(why, p, value, length);
        text_add(why, ": must not hold '&%s', which Fortran would take for the group", group);
        return false;
    }
    bool legal = length > 0 && length < DECK_STRING;
    if (legal) {
        memcpy(field, value, length);
        field[length] = 0;
        if (count) legal = false;
        for (size_t i = 0; i < count; i++) legal = legal || strcmp(field, p->allowed[i]) == 0;
    }
    if (legal) return true;
    text_add(why, "%s.%s='", p->group, p->name);
    deck_show(why, value, length);
    if (!count) {
        text_add(why, "': must have 1 to %d characters, not %zu", DECK_STRING - 1, length);
        return false;
    }
    text_add(why, "': must be ");
    for (size_t i = 0; i < count; i++)
        text_add(why, "%s'%s'", i == 0 ? "" : i + 1 < count ? ", " : " or ", p->allowed[i]);
    const char *const nearest =
        length > 0 && length < DECK_STRING ? nearest_name(field, p->allowed, count) : NULL;
    if (nearest) text_add(why, "; nearest '%s'", nearest);
    return false;
}

/* 'text' or "text", the quote doubled within. */
static bool set_quoted(
    struct deck *deck, const struct deck_parameter *p, const char *value, size_t length, struct text *why)
{
    const char quote = *value;
    struct text plain = { 0 };
    text_add(&plain, "%s", "");
    for (size_t i = 1; i + 1 < length; i++) {
        text_add(&plain, "%c", value[i]);
        if (value[i] == quote) i++;
    }
    const bool done = deck_set_word(deck, p, plain.data, plain.length, why);
    text_free(&plain);
    return done;
}

bool deck_set(
    struct deck *deck, const struct deck_parameter *p, const char *value, size_t length, struct text *why)
{
    void *const field = (char *)deck + p->offset;
    const bool quoted = length >= 2 && (*value == '\'' || *value == '"');
    switch (p->type) {
    case DECK_INTEGER: return get_integer(p, value, length, field, why);
    case DECK_INTEGERS: return append_integers(deck, p, value, length, why);
    case DECK_REAL: return set_real(field, p, value, length, why);
    case DECK_LOGICAL:
        if (parse_logical(value, length, field)) return true;
        show_setting(why, p, value, length);
        text_add(why, ": must be .true. or .false.");
        return false;
    case DECK_WORD:
        if (quoted) return set_quoted(deck, p, value, length, why);
        show_setting(why, p, value, length);
        text_add(why, ": must be a string in quotes, such as '%s'", p->initial);
        return false;
    }
    assert(!"a type of parameter");
    return false;
}
