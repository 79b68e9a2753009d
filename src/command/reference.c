/* pipeleaf reference: one process, one device, no pipeline and no MPI. */
#include "command/command.h"
#include "command/show.h"
#include "report/progress_line.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where layer boundaries go between the passes: those that the output file holds anyway are read back from
   it, the others from a scratch file of the same form, which never gets a final name. */
struct store {
    struct output *output;  /* the reference's file in the recorded step, else NULL */
    struct output *scratch; /* of this step */
    bool output_has_boundaries;
    int layers;
};

static bool in_output(const struct store *store, struct tensor tensor)
{
    return store->output && store->output_has_boundaries && tensor.layer < store->layers;
}

static void store_write(void *context, struct tensor tensor, const float *data)
{
    struct store *store = context;
    if (!in_output(store, tensor))
        output_tensor(store->scratch, tensor, data); /* else the sink has written it */
}

static void store_read(void *context, struct tensor tensor, float *data)
{
    struct store *store = context;
    output_read_tensor(in_output(store, tensor) ? store->output : store->scratch, tensor, data);
}

static void store_sink(void *context, struct tensor tensor, const float *data)
{
    struct store *store = context;
    output_tensor(store->output, tensor, data);
}

/* Refuses to run as several processes that would write the same files. */
static void refuse_many(void)
{
    static const char *const size_of_launch[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS" };
    for (size_t i = 0; i < sizeof size_of_launch / sizeof *size_of_launch; i++) {
        const char *value = getenv(size_of_launch[i]);
        if (value && atoi(value) > 1)
            fail("the reference is one process, and %s=%s says that there are more: start it without mpirun, "
                 "or with one process",
                size_of_launch[i], value);
    }
}

struct reference_run {
    struct deck deck;
    struct model model;
    struct reporting reporting;
    struct device *device;
    struct reference *reference;
    struct identity_card card;
    struct listing listing;
    struct step_record *records;
    int steps, first; /* of the run; the first that is computed here */
    double peak;
    bool *begins_chunk;
    char host[128];
    struct progress_line progress_line;
};

static void show_progress(void *context, const struct reference_position *at)
{
    struct reference_run *run = context;
    struct progress_line *line = &run->progress_line;
    if (!progress_line_due(line)) return;
    const int steps = run->steps - run->first + 1, before = at->step - run->first;
    progress_line_write(line, (before + at->share) / steps,
        "step %d (%d of %d), %s, layer %d of %d, microbatch %d of %d", at->step, before + 1, steps,
        at->backward ? "backward" : "forward", at->layer + 1, run->model.layers, at->microbatch + 1,
        run->model.microbatches);
}

static void set_up(struct reference_run *run, const struct words *words)
{
    struct text error = { 0 }, text = { 0 };
    if (!text_read_file(&text, words->deck_path, &error) || !setup_deck(&run->deck, words, &text, 0, &error))
        fail("%s", error.data);
    if (run->deck.pipeline.ranks == 0 && !deck_check(&run->deck, 1, &error)) fail("%s", error.data);
    text_free(&text);
    run->model = setup_model(&run->deck);
    run->reporting = setup_reporting(&run->deck);
    run->steps = setup_steps(&run->deck);
    run->first = strcmp(run->deck.verify.steps, "all") == 0 ? 1 : run->steps;
    struct text cpus = { 0 };
    const struct device_request request = setup_device(&run->deck, &run->model,
        setup_threads(&run->deck, cpus_text(&cpus)), 0, reference_memory(&run->model));
    text_free(&cpus);
    if (!device_open(&request, &run->device, &error)) fail("%s", error.data);
    if (run->device->is_host &&
        !setup_fits((double)reference_memory(&run->model), "the reference's planned memory", &error))
        fail("%s", error.data);
    run->peak = run->device->measure_peak(run->device);

    struct partition partition = setup_partition(&run->deck, (int)run->deck.pipeline.ranks);
    run->begins_chunk = allocate((size_t)run->model.layers + 1, sizeof *run->begins_chunk);
    for (int chunk = 0; chunk <= partition.chunks; chunk++) run->begins_chunk[partition.first[chunk]] = true;
    partition_free(&partition);

    const struct reference_request reference = { .model = &run->model,
        .begins_chunk = run->begins_chunk,
        .device = run->device,
        .reporting = run->reporting,
        .steps = run->steps - run->first + 1,
        .passed = show_progress,
        .context = run };
    run->reference = reference_create(&reference);
    run->records = allocate((size_t)run->steps, sizeof *run->records);

    identity_card_fill(&run->card, &run->deck, &run->model, "reference", NULL);
    gethostname(run->host, sizeof run->host - 1);
    run->card.facts.host = run->host;
    run->card.facts.device = run->device->name;
    run->card.facts.device_uuid = run->device->uuid;
    run->card.facts.arithmetic = run->device->arithmetic;
    run->card.facts.threads = run->device->threads;
}

/* *before: how many digests there are of earlier steps; then, with this one's. */
static void print_step(struct reference_run *run, int step, size_t *before)
{
    size_t all;
    const struct tensor_digest *digests = reference_digests(run->reference, &all);
    const size_t count = all - *before;
    struct tensor_digest *sorted = allocate(count, sizeof *sorted);
    memcpy(sorted, digests + *before, count * sizeof *sorted);
    digests_sort(sorted, count);
    show_step(&run->listing, &run->model, step, step == run->steps ? "recorded" : "",
        run->records[step - run->first].loss, sorted, count);
    free(sorted);
    *before = all;
}

static void run_steps(struct reference_run *run)
{
    struct text path = { 0 }, scratch = { 0 };
    setup_path(&run->deck, "reference.h5", &path);
    setup_path(&run->deck, "reference.spill.h5", &scratch);
    progress_line_start(&run->progress_line, !run->deck.run.quiet, run->deck.run.progress);
    struct listing *out = &run->listing;
    listing_banner(out, "steps");
    show_steps_head(out);
    size_t digests_before = 0;
    for (int step = run->first; step <= run->steps; step++) {
        const bool recorded = step == run->steps;
        struct store store = { .scratch = output_create_scratch(scratch.data, &run->card.facts),
            .output_has_boundaries = run->reporting.activations == DATA_FULL,
            .layers = run->model.layers };
        if (recorded) store.output = output_create(path.data, &run->card.facts);
        const struct spill spill = { store_write, store_read, &store };
        const struct sink sink = { store_sink, &store };
        struct step_record *record = &run->records[step - run->first];
        *record = reference_step(run->reference, step, &spill, recorded ? &sink : NULL);
        output_discard(store.scratch);
        if (recorded) {
            output_timings(store.output, NULL, 0, run->records, (size_t)(run->steps - run->first + 1));
            output_finish(store.output);
        }
        progress_line_end(&run->progress_line);
        print_step(run, step, &digests_before);
    }
    size_t count;
    const struct tensor_digest *digests = reference_digests(run->reference, &count);
    show_steps_end(out, "reference.digest", digests, count);
    text_free(&path);
    text_free(&scratch);
}

static void print_times(struct reference_run *run)
{
    struct listing *out = &run->listing;
    const double flops = step_flops(&run->model);
    listing_banner_differs(out, "seconds of the steps");
    listing_print(out, "%6s %-9s %12s %14s  %s\n", "step", "", "seconds", "FLOP/s", "share of FMA peak");
    for (int step = run->first; step <= run->steps; step++) {
        const double seconds = run->records[step - run->first].seconds;
        listing_print(out, "%6d %-9s %12.6f %14.3E  %.4f of %.3E FLOP/s\n", step,
            step == run->steps ? "recorded" : "", seconds, flops / seconds, flops / seconds / run->peak,
            run->peak);
    }
}

static void write_files(struct reference_run *run)
{
    static const char *const files[] = { "reference.h5", "reference.digest", "reference.txt",
        "reference.json" };
    struct text path = { 0 };
    size_t count;
    const struct tensor_digest *digests = reference_digests(run->reference, &count);
    struct tensor_digest *sorted = allocate(count, sizeof *sorted);
    memcpy(sorted, digests, count * sizeof *sorted);
    setup_path(&run->deck, "reference.digest", &path);
    digest_file_write(path.data, &run->card.facts, sorted, count);
    free(sorted);

    listing_banner(&run->listing, "verification");
    listing_block(&run->listing, "a reference is what others are compared with");
    listing_end(&run->listing, NAN, verdict_text[NOT_PERFORMED]);
    path.length = 0;
    setup_path(&run->deck, "reference.txt", &path);
    write_whole_file(path.data, run->listing.text.data, run->listing.text.length);

    const int steps = run->steps - run->first + 1;
    double *seconds = allocate((size_t)steps, sizeof *seconds);
    float *loss = allocate((size_t)steps, sizeof *loss);
    for (int i = 0; i < steps; i++) {
        seconds[i] = run->records[i].seconds;
        loss[i] = run->records[i].loss;
    }
    path.length = 0;
    setup_path(&run->deck, "reference.json", &path);
    const struct figure figures[] = { { "fom_tokens_per_second", NAN },
        { "device_bytes", (double)run->device->held(run->device) } };
    const struct result result = { .facts = &run->card.facts,
        .verdict = verdict_text[NOT_PERFORMED],
        .exit_code = EXIT_DONE,
        .figures = figures,
        .figure_count = 2,
        .step_seconds = seconds,
        .steps = steps,
        .loss = loss,
        .losses = steps,
        .files = files,
        .file_count = sizeof files / sizeof *files };
    result_write(path.data, &result);
    free(loss);
    free(seconds);
    text_free(&path);
}

static void print_head(struct reference_run *run, const char *deck_path)
{
    struct listing *out = &run->listing;
    struct device *device = run->device;
    char bytes[32];
    listing_print(out, "Pipeleaf %s (%s): reference of %s\n", pipeleaf_version, pipeleaf_commit, deck_path);
    show_build(out, &run->card);
    listing_banner(out, "effective deck");
    listing_verbatim(out, run->card.deck.data);
    struct text lines = { 0 };
    device->describe(device, &lines);
    if (lines.length) {
        listing_banner(out, "products");
        listing_block(out, lines.data);
    }
    text_free(&lines);

    listing_banner_differs(out, "this run");
    listing_print(out, "%-28s %s\n", "run id", run->card.run_id);
    listing_line(out, 29, "%-28s %s, CPUs %s", "host", run->host, run->card.cpus.data);
    listing_line(out, 29, "%-28s %s; holds %s: one layer, one microbatch", "device", device->name,
        bytes_text((double)device->held(device), bytes));
    if (device->uuid[0]) listing_line(out, 29, "%-28s %s at %s", "", device->uuid, device->place);
}

int command_reference(int count, char **word)
{
    struct words words;
    struct text error = { 0 };
    struct reference_run run = { .listing = { .speaks = true } };
    refuse_many();
    if (!words_parse(count, word, "reference", &words, &error)) fail("%s", error.data);
    if (!words.deck_path) fail("reference needs a deck: pipeleaf reference DECK [group.name=value ...]");
    set_up(&run, &words);
    directory_prepare(run.deck.output.directory, "reference.json");

    run.listing.only_kept = run.deck.run.quiet;
    print_head(&run, words.deck_path);
    run_steps(&run);
    print_times(&run);
    write_files(&run);

    reference_close(run.reference);
    run.device->close(run.device);
    identity_card_free(&run.card);
    deck_free(&run.deck);
    words_free(&words);
    text_free(&run.listing.text);
    free(run.begins_chunk);
    free(run.records);
    return EXIT_DONE;
}
