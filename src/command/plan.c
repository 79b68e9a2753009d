#include "command/command.h"
#include "command/plan_parts.h"
#include "command/show.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Colour where someone looks at a terminal that has it and has not asked for none (no-color.org). */
static bool wants_colour(void)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(none && *none) && terminal && strcmp(terminal, "dumb") != 0;
}

static void print_picture(struct listing *out, const struct drawing *drawing, bool forced)
{
    const int width = drawing_text_width(drawing);
    listing_banner(out, "picture, with free messages");
    if (!forced && width > DRAWING_WIDTH) {
        listing_print(out, "%d characters wide, more than %d: --picture prints it, --svg FILE draws it\n",
            width, DRAWING_WIDTH);
        return;
    }
    struct text picture = { 0 };
    listing_print(out, "a column: %.3E s, the shortest action; letter, microbatch%s\n", drawing->unit,
        drawing->locals > 1 ? ", the rank's chunk" : "");
    drawing_text(drawing, wants_colour(), &picture);
    listing_print(out, "%s", picture.data);
    text_free(&picture);
}

static void write_svg(const char *path, const struct plan *plan, const struct drawing *drawing)
{
    struct text title = { 0 }, svg = { 0 }, error = { 0 };
    text_add(&title, "%s: %s, p=%d v=%d m=%d", plan->deck_path, plan->deck->pipeline.schedule,
        plan->program->ranks, (int)plan->deck->pipeline.chunks_per_rank, plan->program->microbatches);
    if (!drawing_svg(drawing, title.data, &svg, &error)) fail("%s", error.data);
    write_whole_file(path, svg.data, svg.length);
    text_free(&title);
    text_free(&svg);
}

static void show_plan(struct listing *out, struct plan *plan, const struct words *words)
{
    struct costs free_messages = plan->costs.machine.costs;
    free_messages.latency = free_messages.transfer = 0;
    program_simulate(plan->program, &plan->costs.machine.costs, &plan->with_messages);
    program_simulate(plan->program, &free_messages, &plan->with_free_messages);

    listing_banner(out, "schedule");
    show_schedule(out, plan->deck, plan->model, plan->partition, plan->program);
    plan_print_memory(out, plan);
    plan_print_time(out, plan);
    plan_print_channels(out, plan);
    if (plan->measured) plan_print_measured(out, plan);
    plan_print_comparison(out, plan);

    struct drawing drawing;
    drawing_make(&drawing, plan->program, &plan->with_free_messages);
    print_picture(out, &drawing, words->picture);
    if (words->svg) write_svg(words->svg, plan, &drawing);
    drawing_free(&drawing);
    prediction_free(&plan->with_messages);
    prediction_free(&plan->with_free_messages);
}

static void export_csv(const struct words *words, const struct program *program)
{
    struct text csv = { 0 };
    program_write_csv(program, words->with_communication, &csv);
    write_whole_file(words->export_csv, csv.data, csv.length);
    text_free(&csv);
}

int command_plan(int count, char **word)
{
    struct words words;
    struct text error = { 0 }, text = { 0 };
    struct deck deck;
    struct program program;
    struct measured measured;
    struct listing out = { .speaks = true };
    if (!words_parse(count, word, "plan", &words, &error)) fail("%s", error.data);
    if (!words.deck_path) fail("plan needs a deck: pipeleaf plan DECK [group.name=value ...]");
    if (!text_read_file(&text, words.deck_path, &error) || !setup_deck(&deck, &words, &text, 0, &error))
        fail("%s", error.data);
    struct model model = setup_model(&deck);
    if (words.from && !measured_read(&measured, words.from, &model, &error)) fail("%s", error.data);
    const bool any_ranks = deck.pipeline.ranks == 0;
    if (any_ranks && !deck_check(&deck, words.from ? measured.timings.ranks : 1, &error))
        fail("%s", error.data);
    const int ranks = (int)deck.pipeline.ranks;
    if (!setup_program(&deck, ranks, &program, &error)) fail("%s", error.data);
    struct partition partition = setup_partition(&deck, ranks);

    listing_print(&out, "Pipeleaf %s (%s): plan of %s\n", pipeleaf_version, pipeleaf_commit, words.deck_path);
    if (any_ranks)
        listing_print(&out, "pipeline.ranks=0 means the MPI size; this plan takes %d%s\n", ranks,
            words.from ? ", the run's" : "");
    struct plan plan = { .deck_path = words.deck_path,
        .deck = &deck,
        .model = &model,
        .partition = &partition,
        .program = &program,
        .measured = words.from ? &measured : NULL,
        .all_channels = words.all_channels };
    chosen_costs_make(&plan.costs, &deck, &model, &partition, plan.measured);
    show_plan(&out, &plan, &words);
    if (words.export_csv) export_csv(&words, &program);

    chosen_costs_free(&plan.costs);
    if (words.from) measured_free(&measured);
    partition_free(&partition);
    program_free(&program);
    deck_free(&deck);
    text_free(&text);
    text_free(&out.text);
    words_free(&words);
    return EXIT_DONE;
}
