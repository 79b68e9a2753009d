#include "command/command.h"
#include "command/show.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_partition(struct listing *out, const struct deck *deck, const struct model *model,
    const struct partition *partition, const struct program *program)
{
    const struct reporting reporting = setup_reporting(deck);
    char b[6][32];
    double most = 0;
    int most_rank = 0;
    listing_banner(out, "memory a rank, planned");
    listing_print(out, "%6s %12s %12s %5s %12s %12s %12s  %s\n", "rank", "weights", "gradients", "slots",
        "activations", "buffers", "total", "layers (from 1)");
    for (int rank = 0; rank < program->ranks; rank++) {
        const struct memory_plan m = memory_plan_of(model, partition, program, rank, &reporting);
        struct text layers = { 0 };
        show_layers(partition, program, rank, &layers);
        listing_print(out, "%6d %12s %12s %5d %12s %12s %12s  %s\n", rank,
            bytes_text((double)m.weights, b[0]), bytes_text((double)m.gradients, b[1]), m.slot_count,
            bytes_text((double)m.slots, b[2]), bytes_text((double)(m.buffers + m.work + m.digests), b[3]),
            bytes_text((double)m.total, b[4]), layers.data ? layers.data : "none");
        if ((double)m.total > most) {
            most = (double)m.total;
            most_rank = rank;
        }
        text_free(&layers);
    }
    listing_print(out, "most: %s on rank %d; buffers: channels, scratch and digests; fp32 throughout\n",
        bytes_text(most, b[0]), most_rank);
}

int command_plan(int count, char **word)
{
    struct words words;
    struct text error = { 0 }, text = { 0 };
    struct deck deck;
    struct program program;
    struct listing out = { .speaks = true };
    if (!words_parse(count, word, false, &words, &error)) fail("%s", error.data);
    if (!words.deck_path) fail("plan needs a deck: pipeleaf plan DECK [group.name=value ...]");
    if (!text_read_file(&text, words.deck_path, &error) || !setup_deck(&deck, &words, &text, 0, &error))
        fail("%s", error.data);
    const bool any_ranks = deck.pipeline.ranks == 0;
    if (any_ranks && !deck_check(&deck, 1, &error)) fail("%s", error.data);
    const int ranks = (int)deck.pipeline.ranks;
    if (!setup_program(&deck, ranks, &program, &error)) fail("%s", error.data);
    const struct model model = setup_model(&deck);
    struct partition partition = setup_partition(&deck, ranks);

    listing_print(&out, "Pipeleaf %s (%s): plan of %s\n", pipeleaf_version, pipeleaf_commit, words.deck_path);
    if (any_ranks) listing_print(&out, "pipeline.ranks=0 means the MPI size; this plan takes 1\n");
    listing_banner(&out, "schedule");
    show_schedule(&out, &deck, &model, &partition, &program);
    print_partition(&out, &deck, &model, &partition, &program);

    partition_free(&partition);
    program_free(&program);
    deck_free(&deck);
    text_free(&text);
    text_free(&out.text);
    words_free(&words);
    return EXIT_DONE;
}
