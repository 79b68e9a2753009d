/* A deck with schedule='file' has the program that its file says, or is refused in words that name the file;
   and the words of a command are taken apart, or refused, option by option.

       test_csv_deck FOLDER     of the files written by hand, p=2 each */
#include "check.h"
#include "command/setup.h"
#include <string.h>

static const char *folder;

/* The program of a deck that is the defaults with these parameters of &pipeline; '@' in them is the folder.
 */
static bool program_of(const char *pipeline, struct program *program, struct text *error)
{
    struct text text = { 0 };
    struct deck deck;
    text_add(&text, "&model layers=8 /\n&batch microbatches=4 /\n&pipeline ranks=2 %s /\n", pipeline);
    const char *at = strchr(text.data, '@');
    struct text full = { 0 };
    text_add(&full, "%.*s%s%s", at ? (int)(at - text.data) : (int)text.length, text.data, at ? folder : "",
        at ? at + 1 : "");
    const bool good =
        deck_read(&deck, "file.nml", full.data, full.length, 0, NULL, error) && deck_check(&deck, 0, error);
    const bool made = good && setup_program(&deck, 2, program, error);
    if (good) deck_free(&deck);
    text_free(&text);
    text_free(&full);
    return made;
}

static void a_file_is_the_schedule(void)
{
    static const char *const decks[] = {
        "schedule='file' schedule_file='@/interleaved.csv'",
        "schedule='file' schedule_file='@/interleaved-communication.csv' schedule_dialect='current'",
        "schedule='file' schedule_file='@/interleaved-older.csv' schedule_dialect='older'",
    };
    struct text expected = { 0 }, error = { 0 };
    struct program program;
    const bool good = program_of("schedule='interleaved-1f1b'", &program, &error);
    CHECK(good, "%s", good ? "" : error.data);
    if (!good) return;
    program_write_csv(&program, true, &expected);
    program_free(&program);
    for (size_t i = 0; i < sizeof decks / sizeof *decks; i++) {
        struct text text = { 0 };
        const bool read = program_of(decks[i], &program, &error);
        CHECK(read, "%s: %s", decks[i], read ? "" : error.data);
        if (!read) continue;
        program_write_csv(&program, true, &text);
        CHECK(strcmp(text.data, expected.data) == 0, "%s is\n%s", decks[i], text.data);
        program_free(&program);
        text_free(&text);
    }
    text_free(&expected);
}

/* '@' in a message is the folder; a message that ends with "..." is a beginning. */
static void a_wrong_file_is_refused(void)
{
    static const char *const refused[][2] = {
        { "schedule='file' schedule_file='@/nothing.csv'", "cannot open '@/nothing.csv': No such file..." },
        { "schedule='file' schedule_file='@/interleaved-older.csv'",
            "@/interleaved-older.csv:1:6: '2BW0': 'BW'..." },
        { "schedule='file' chunks_per_rank=1 schedule_file='@/interleaved.csv'",
            "@/interleaved.csv: has 4 stages: must have pipeline.ranks=2 * pipeline.chunks_per_rank=1; "
            "nearest "
            "pipeline.chunks_per_rank=2" },
        { "schedule='file' chunks_per_rank=1 schedule_file='@/descending.csv'",
            "@/descending.csv: ..." }, /* the checker's words follow */
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct program program;
        struct text error = { 0 }, expected = { 0 };
        for (const char *c = refused[i][1]; *c; c++)
            text_add(&expected, *c == '@' ? "%s" : "%.1s", *c == '@' ? folder : c);
        const bool beginning = expected.length > 3 && strcmp(expected.data + expected.length - 3, "...") == 0;
        const size_t length = expected.length - (beginning ? 3 : 0);
        const bool read = program_of(refused[i][0], &program, &error);
        CHECK(!read, "%s was taken", refused[i][0]);
        if (read)
            program_free(&program);
        else
            CHECK(strncmp(error.data, expected.data, length) == 0 && (beginning || error.length == length),
                "said\n    %s\n  and not\n    %s", error.data, expected.data);
        text_free(&error);
        text_free(&expected);
    }
}

enum { MOST_WORDS = 8 };

static int words_count(const char *const *word)
{
    int count = 0;
    while (count < MOST_WORDS && word[count]) count++;
    return count;
}

static void words_are_taken_apart(void)
{
    static const char *const line[MOST_WORDS] = { "a.nml", "--svg", "b.svg", "--picture", "run.seed=1",
        "--export-csv=c.csv", "--with-communication", "--from=out/tiny" };
    struct words words;
    struct text error = { 0 };
    const bool good = words_parse(MOST_WORDS, (char **)line, "plan", &words, &error);
    CHECK(good, "%s", good ? "" : error.data);
    if (!good) return;
    CHECK(strcmp(words.deck_path, "a.nml") == 0 && words.override_count == 1, "the deck and its override");
    CHECK(words.svg && strcmp(words.svg, "b.svg") == 0, "--svg");
    CHECK(words.export_csv && strcmp(words.export_csv, "c.csv") == 0, "--export-csv");
    CHECK(words.from && strcmp(words.from, "out/tiny") == 0, "--from");
    CHECK(words.picture && words.with_communication && !words.inject, "what has no value");
    words_free(&words);
    static const char *const fault[MOST_WORDS] = { "--inject", "step=1", "a.nml" };
    CHECK(words_parse(3, (char **)fault, "run", &words, &error) && strcmp(words.inject, "step=1") == 0 &&
              strcmp(words.deck_path, "a.nml") == 0 && words.override_count == 0 && !words.picture,
        "--inject");
    words_free(&words);
}

static void wrong_words_are_refused(void)
{
    static const struct {
        const char *command, *word[MOST_WORDS], *message;
    } wrong[] = {
        { "plan", { "a.nml", "--svgg", "b" },
            "'--svgg': pipeleaf plan has no such option; nearest --svg; it has --export-csv FILE, "
            "--with-communication, --svg FILE, --from DIR, --picture, --channels" },
        { "plan", { "--inject", "x" },
            "'--inject': pipeleaf plan has no such option; it has --export-csv FILE, --with-communication, "
            "--svg FILE, "
            "--from DIR, --picture, --channels" },
        { "run", { "--svg", "x" },
            "'--svg': pipeleaf run has no such option; it has --inject step=...,layer=..., --from DIR" },
        { "deck", { "--picture" }, "'--picture': pipeleaf deck has no such option" },
        { "plan", { "--svg" }, "--svg needs a value after it: --svg FILE" },
        { "plan", { "--svg", "--picture" }, "--svg needs a value after it: --svg FILE" },
        { "plan", { "--from=" }, "--from needs a value after it: --from DIR" },
        { "plan", { "--picture=yes" }, "--picture takes no value, and 'yes' is one" },
        { "plan", { "--picture", "--picture" }, "--picture is given twice" },
        { "run", { "--inject=a", "--inject", "b" }, "--inject is given twice" },
        { "plan", { "a.nml", "--with-communication" },
            "--with-communication is of the file that --export-csv FILE writes, which is missing" },
        { "plan", { "a.nml", "b.nml" },
            "'b.nml': one deck only, and 'a.nml' is it already; an override has the form group.name=value" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct words words;
        struct text error = { 0 };
        const bool good =
            words_parse(words_count(wrong[i].word), (char **)wrong[i].word, wrong[i].command, &words, &error);
        CHECK(!good, "%s was taken", wrong[i].word[0]);
        if (!good)
            CHECK(strcmp(error.data, wrong[i].message) == 0, "said\n    %s\n  and not\n    %s", error.data,
                wrong[i].message);
        words_free(&words);
        text_free(&error);
    }
}

int main(int count, char **argument)
{
    if (count != 2) fail("usage: test_csv_deck FOLDER");
    folder = argument[1];
    a_file_is_the_schedule();
    a_wrong_file_is_refused();
    words_are_taken_apart();
    wrong_words_are_refused();
    return check_result();
}
