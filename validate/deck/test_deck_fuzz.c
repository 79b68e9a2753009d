/* No text crashes the reader: the decks named on the command line, cut at every byte, with a byte changed,
   put in or taken out, and with lines exchanged, are read, or refused in one line that begins with the path.
   The changes come from a fixed sequence of numbers, so that a failure repeats. */
#include "../check.h"
#include "deck/deck.h"
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

/* Knuth's MMIX generator; the upper bits. */
static size_t below(size_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % limit;
}

static unsigned long read_well, refused;

static void check_text(const char *text, size_t length)
{
    /* A copy of the exact size, so that a sanitizer sees a byte read beyond it. */
    char *const copy = malloc(length ? length : 1);
    memcpy(copy, text, length);
    struct deck deck;
    struct text error = { 0 };
    if (deck_read(&deck, "fuzz.nml", copy, length, 0, NULL, &error)) {
        struct text echo = { 0 }, again = { 0 };
        struct deck same;
        read_well++;
        CHECK(error.length == 0, "read, and yet: %s", error.data);
        deck_echo(&deck, &echo);
        const bool good = deck_read(&same, "echo.nml", echo.data, echo.length, 0, NULL, &error);
        CHECK(good, "%s", good ? "" : error.data);
        if (good) deck_echo(&same, &again);
        CHECK(good && strcmp(echo.data, again.data) == 0, "the echo's echo differs: %s", echo.data);
        const bool right = deck_check(&deck, (int)below(5), &error);
        CHECK(right == (error.length == 0), "a refusal without a reason, or a reason without one");
        CHECK(right || !strchr(error.data, '\n'), "more than a line: %s", error.data);
        if (good) deck_free(&same);
        deck_free(&deck);
        text_free(&echo);
        text_free(&again);
    } else {
        refused++;
        CHECK(error.length && strncmp(error.data, "fuzz.nml:", 9) == 0, "%s",
            error.length ? error.data : "nothing said");
        CHECK(
            error.length && !strchr(error.data, '\n') && error.length < 500, "not one line: %s", error.data);
    }
    text_free(&error);
    free(copy);
}

/* A byte that is likely to matter. */
static char any_byte(void)
{
    static const char likely[] = "&/!='\",*.+-0123456789eEdtTfF \n\t\r()%$_";
    return below(4) ? likely[below(sizeof likely - 1)] : (char)below(256);
}

static void mutate(char *text, size_t *length, size_t capacity)
{
    const size_t at = below(*length + 1), other = below(*length + 1);
    const size_t rest = *length - at, size = rest ? 1 + below(rest < 20 ? rest : 20) : 0;
    switch (below(4)) {
    case 0:
        if (rest) text[at] = any_byte();
        break;
    case 1:
        if (*length < capacity) {
            memmove(text + at + 1, text + at, rest);
            text[at] = any_byte();
            ++*length;
        }
        break;
    case 2:
        memmove(text + at, text + at + size, rest - size);
        *length -= size;
        break;
    case 3: /* a piece over another */
        if (other + size <= *length) memmove(text + other, text + at, size);
        break;
    }
}

static void fuzz(const struct text *deck)
{
    static char text[8192];
    if (deck->length > sizeof text / 2) return;
    for (size_t length = 0; length <= deck->length; length++) check_text(deck->data, length);
    for (int round = 0; round < 4000; round++) {
        size_t length = deck->length;
        memcpy(text, deck->data, length);
        for (size_t changes = 1 + below(3); changes > 0; changes--) mutate(text, &length, sizeof text);
        check_text(text, length);
    }
}

/* Overrides, which come from a shell, get the same. */
static void fuzz_overrides(void)
{
    static const char *const seeds[] = { "model.layers=8", "pipeline.schedule='gpipe'",
        "output.directory=out/tiny", "pipeline.layers_per_chunk=3*2,1,1", "run.timeout=1.5e2",
        "pipeline.overlap=.true." };
    for (int round = 0; round < 20000; round++) {
        char text[256];
        size_t length = strlen(seeds[round % 6]);
        memcpy(text, seeds[round % 6], length);
        for (size_t changes = 1 + below(3); changes > 0; changes--) mutate(text, &length, sizeof text - 1);
        text[length] = 0;
        char *const list[] = { text };
        struct deck deck;
        struct text error = { 0 };
        if (deck_read(&deck, "fuzz.nml", "", 0, 1, list, &error))
            deck_free(&deck);
        else
            CHECK(strncmp(error.data, "override '", 10) == 0 && !strchr(error.data, '\n'), "%s", error.data);
        CHECK(length > 0 || error.length, "nothing was taken for an override");
        text_free(&error);
    }
}

int main(int count, char **argument)
{
    for (int i = 1; i < count; i++) {
        struct text deck = { 0 }, error = { 0 };
        CHECK(text_read_file(&deck, argument[i], &error), "%s", error.data);
        fuzz(&deck);
        text_free(&deck);
    }
    fuzz_overrides();
    printf("%lu read, %lu refused\n", read_well, refused);
    CHECK(read_well > 1000 && refused > 1000, "both kinds of text were met");
    return check_result();
}
