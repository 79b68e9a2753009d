/* A deck that is right is read to its values; overrides come after it; the echo is a deck of the same values.
 */
#include "../check.h"
#include "deck/parameter.h"
#include <stdlib.h>
#include <string.h>

static bool reads(struct deck *deck, const char *text, int overrides, char *const *override)
{
    struct text error = { 0 };
    const bool good = deck_read(deck, "good.nml", text, strlen(text), overrides, override, &error);
    CHECK(good, "%s", good ? "" : error.data);
    text_free(&error);
    return good;
}

/* The echo of a deck reads back, and its echo is the same text. */
static void check_echo(const struct deck *deck)
{
    struct text echo = { 0 }, again = { 0 };
    struct deck copy;
    deck_echo(deck, &echo);
    if (reads(&copy, echo.data, 0, NULL)) {
        deck_echo(&copy, &again);
        CHECK(strcmp(echo.data, again.data) == 0, "the echo of\n%s\nis\n%s", echo.data, again.data);
        CHECK(
            memcmp(&copy.machine, &deck->machine, sizeof copy.machine) == 0, "the machine came back another");
        CHECK(memcmp(&copy.target, &deck->target, sizeof copy.target) == 0, "the target came back another");
        CHECK(copy.run.timeout == deck->run.timeout, "%.17g came back as %.17g", deck->run.timeout,
            copy.run.timeout);
        CHECK(strcmp(copy.output.directory, deck->output.directory) == 0, "%s came back as %s",
            deck->output.directory, copy.output.directory);
        CHECK(copy.pipeline.layers_per_chunk_count == deck->pipeline.layers_per_chunk_count,
            "the list's length");
        deck_free(&copy);
    }
    text_free(&echo);
    text_free(&again);
}

static void defaults_are_the_documented_ones(void)
{
    struct deck deck;
    if (!reads(&deck, "", 0, NULL)) return;
    CHECK(deck.model.layers == 8 && deck.model.hidden == 64 && deck.model.ffn == 0, "the model");
    CHECK(deck.pipeline.ranks == 0 && deck.pipeline.group == 0 && deck.pipeline.overlap, "the pipeline");
    CHECK(deck.pipeline.layers_per_chunk_count == 0, "no list");
    CHECK(strcmp(deck.output.directory, "out") == 0 && deck.run.timeout == 300.0, "output and run");
    CHECK(strcmp(deck.pipeline.schedule_file, "none") == 0 &&
              strcmp(deck.pipeline.schedule_dialect, "current") == 0,
        "no file");
    CHECK(deck.machine.forward == 0 && deck.machine.backward == 0 && deck.machine.input == 0 &&
              deck.machine.weight == 0 && deck.machine.flop_rate == 1e14 && deck.machine.latency == 0 &&
              deck.machine.bandwidth == 0,
        "the machine");
    CHECK(deck.target.fom == 0 && deck.target.bubble_max == 0, "no target");
    CHECK(strcmp(deck.verify.against, "auto") == 0 && strcmp(deck.pipeline.schedule, "interleaved-1f1b") == 0,
        "words");
    check_echo(&deck);
    struct text error = { 0 };
    CHECK(deck_check(&deck, 4, &error), "%s", error.data);
    CHECK(deck.pipeline.ranks == 4 && deck.model.ffn == 256, "ranks and ffn are known after the check");
    check_echo(&deck);
    deck_free(&deck);

    struct text document = { 0 };
    deck_document(&document);
    for (size_t i = 0; i < deck_parameter_count; i++)
        CHECK(
            strstr(document.data, deck_parameters[i].help) && strstr(document.data, deck_parameters[i].name),
            "%s", deck_parameters[i].name);
    for (const char *line = document.data; *line; line = strchr(line, '\n') + 1)
        CHECK(strchr(line, '\n') - line <= 110, "a line too long: %.40s", line);
    text_free(&document);
}

static void lists_and_values_are_read(void)
{
    struct deck deck;
    if (!reads(&deck,
            "&PIPELINE Layers_Per_Chunk = 3*2 2*1,\n 0 ! none\n 4 Ranks=7 chunks_per_rank=1 overlap=F /\n"
            "&output directory=\"it's a\"\"b!c/d\", timeline=.f. /\n&run timeout=1.25D+2/\n&model layers=12 "
            "/",
            0, NULL))
        return;
    const int32_t expected[] = { 2, 2, 2, 1, 1, 0, 4 };
    CHECK(deck.pipeline.layers_per_chunk_count == 7, "%d", (int)deck.pipeline.layers_per_chunk_count);
    for (int i = 0; i < 7; i++) CHECK(deck.pipeline.layers_per_chunk[i] == expected[i], "chunk %d", i);
    CHECK(deck.pipeline.ranks == 7 && !deck.pipeline.overlap && !deck.output.timeline, "after the list");
    CHECK(strcmp(deck.output.directory, "it's a\"b!c/d") == 0, "%s", deck.output.directory);
    CHECK(deck.run.timeout == 125.0, "%g", deck.run.timeout);
    struct text error = { 0 };
    CHECK(deck_check(&deck, 7, &error), "%s", error.data);
    check_echo(&deck);
    deck_free(&deck);
}

static void reals_come_back_to_the_last_bit(void)
{
    static const char *const reals[] = { "0.1", "1e9", "0.001", "299.99999999999994", "123456789.",
        "3.0000000000000004" };
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++) {
        struct text text = { 0 };
        struct deck deck;
        text_add(&text, "&run timeout=%s /", reals[i]);
        if (reads(&deck, text.data, 0, NULL)) {
            CHECK(deck.run.timeout == strtod(reals[i], NULL), "%s", reals[i]);
            check_echo(&deck);
        }
        text_free(&text);
    }
}

static void overrides_come_last(void)
{
    char layers[] = "model.layers=12", directory[] = "output.directory=out/it's here",
         list[] = "pipeline.layers_per_chunk=2*3, 6";
    char quoted[] = "verify.against='a path'", upper[] = " Pipeline.Overlap = .false. ",
         bare[] = "pipeline.schedule=1f1b ";
    char *const overrides[] = { layers, directory, list, quoted, upper, bare };
    struct deck deck;
    if (!reads(&deck, "&model layers=8 hidden=128 /\n&pipeline layers_per_chunk=9*9 /", 6, overrides)) return;
    CHECK(deck.model.layers == 12 && deck.model.hidden == 128, "layers %d", (int)deck.model.layers);
    CHECK(strcmp(deck.output.directory, "out/it's here") == 0, "%s", deck.output.directory);
    CHECK(strcmp(deck.verify.against, "a path") == 0 && strcmp(deck.pipeline.schedule, "1f1b") == 0, "words");
    CHECK(!deck.pipeline.overlap, "overlap");
    CHECK(deck.pipeline.layers_per_chunk_count == 3 && deck.pipeline.layers_per_chunk[2] == 6,
        "the list is replaced");
    check_echo(&deck);
    deck_free(&deck);
}

/* Decks that are legal though near the edge of a rule. */
static void what_is_legal_passes(void)
{
    static const struct {
        const char *deck;
        int mpi_size;
    } legal[] = {
        { "&model layers=2 /\n&pipeline layers_per_chunk=0,1,0,0,0,0,1,0 /", 4 },
        { "&batch microbatches=2 /\n&pipeline group=2 /", 4 },
        { "&batch microbatches=9 /\n&pipeline group=5 /", 4 },
        { "&batch microbatches=9 /\n&pipeline group=9 /", 4 },
        { "&batch microbatches=12 /\n&pipeline group=4 /", 4 },
        { "&batch microbatches=1 /", 4 },
        { "&pipeline ranks=300 /\n&model layers=600 /", 0 },
        { "&pipeline ranks=0 /", 0 },
        { "&arithmetic mode='vendor' precision='tf32' /\n&run device='cuda' transport='nccl' /", 4 },
        { "&pipeline schedule='gpipe' chunks_per_rank=1 /", 1 },
        { "&pipeline schedule='looped-bfs' chunks_per_rank=2 /", 4 },
        { "&pipeline schedule='zb-h1' chunks_per_rank=1 /", 4 },
        { "&pipeline schedule='interleaved-zb' group=8 /", 4 },
        { "&pipeline schedule='zb-v' /", 4 },
        { "&pipeline schedule='file' schedule_file='a b.csv' schedule_dialect='older' chunks_per_rank=1 /",
            4 },
        { "&run device='rehearsal' transport='mpi' /", 4 },
        { "&target fom=1.25e6 bubble_max=0.3 /", 4 },
        { "&pipeline ranks=2 /", 4 },
        { "&pipeline ranks=1 /", 6 },
        { "&arithmetic mode='vendor' precision='bf16' /\n&run device='rehearsal' /", 4 },
        { "&machine forward=1e-3, backward=2.5d-3 input=.001 weight=1.e-3\n flop_rate=3.3e13 latency=2e-6 "
          "bandwidth=1.25e10 /",
            4 },
        { "&model layers=65536 /\n&pipeline chunks_per_rank=16384 /", 4 },
    };
    for (size_t i = 0; i < sizeof legal / sizeof *legal; i++) {
        struct deck deck;
        struct text error = { 0 };
        if (!reads(&deck, legal[i].deck, 0, NULL)) continue;
        const bool good = deck_check(&deck, legal[i].mpi_size, &error);
        CHECK(good, "%s: %s", legal[i].deck, good ? "" : error.data);
        check_echo(&deck);
        deck_free(&deck);
        text_free(&error);
    }
}

/* The decks named on the command line: each is read, and right for the ranks that it names. */
static void shipped_decks_read(int count, char *const *path)
{
    for (int i = 0; i < count; i++) {
        struct text text = { 0 }, error = { 0 };
        struct deck deck;
        const bool good = text_read_file(&text, path[i], &error) &&
                          deck_read(&deck, path[i], text.data, text.length, 0, NULL, &error);
        CHECK(good, "%s", good ? "" : error.data);
        if (good) {
            const bool right = deck_check(&deck, (int)deck.pipeline.ranks, &error);
            CHECK(right, "%s: %s", path[i], right ? "" : error.data);
            CHECK(deck.pipeline.ranks > 0, "%s does not name its ranks", path[i]);
            check_echo(&deck);
            deck_free(&deck);
        }
        text_free(&text);
        text_free(&error);
    }
    CHECK(count >= 7, "the decks are named on the command line");
}

int main(int count, char **argument)
{
    shipped_decks_read(count - 1, argument + 1);
    defaults_are_the_documented_ones();
    lists_and_values_are_read();
    reals_come_back_to_the_last_bit();
    overrides_come_last();
    what_is_legal_passes();
    return check_result();
}
