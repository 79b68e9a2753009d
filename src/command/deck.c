#include "command/command.h"
#include "command/setup.h"
#include <stdio.h>

int command_deck(int count, char **word)
{
    struct words words;
    struct text error = { 0 }, text = { 0 }, out = { 0 };
    struct deck deck;
    if (!words_parse(count, word, "deck", &words, &error)) fail("%s", error.data);
    if (!words.deck_path) {
        if (words.override_count > 0) fail("an override needs a deck: pipeleaf deck DECK group.name=value");
        deck_document(&out);
    } else {
        if (!text_read_file(&text, words.deck_path, &error) || !setup_deck(&deck, &words, &text, 0, &error))
            fail("%s", error.data);
        deck_echo(&deck, &out);
        deck_free(&deck);
    }
    const bool written = fputs(out.data, stdout) >= 0 && fflush(stdout) == 0;
    if (!written) fail("cannot write to standard output");
    text_free(&text);
    text_free(&out);
    words_free(&words);
    return EXIT_DONE;
}
