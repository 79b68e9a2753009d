/* pipeleaf run: the phases, in order, at the end of this file. What is printed before the steps is in
   run_head.c, the figures after them in run_figures.c, the files and the verdict in run_files.c; what several
   commands share is in setup.c. */
#include "command/run_state.h"
#include "command/command.h"
#include "run/rehearsal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* All ranks: if any has an error, the lowest of them prints its line and every one leaves with EXIT_FAILED.
 */
static void agree(struct run *run, bool good, const struct text *error)
{
    struct job *world = &run->world;
    const double first = job_min(world, good ? world->size : world->rank);
    if (first >= world->size) return;
    if ((int)first == world->rank) {
        if (world->size > 1 && first > 0)
            fprintf(stderr, "pipeleaf: error: rank %d on %s: %s\n", world->rank, world->host, error->data);
        else
            fprintf(stderr, "pipeleaf: error: %s\n", error->data);
    }
    job_barrier(world);
    if (run->watchdog) watchdog_stop(run->watchdog);
    job_end(world);
    exit(EXIT_FAILED);
}

static bool rehearsal_possible(const struct run *run, struct text *error)
{
    if (run->words.inject) {
        text_add(error, "--inject: run.device='rehearsal' computes nothing that a fault could be put into");
        return false;
    }
    return stamp_fits(message_bytes(&run->model), error);
}

/* Rank 0 reads the file, all ranks read its text. From here on there are pipelines. */
static void read_deck(struct run *run, int count, char **word)
{
    struct text error = { 0 }, text = { 0 };
    bool good = words_parse(count, word, "run", &run->words, &error);
    if (good && !run->words.deck_path) {
        text_add(&error, "run needs a deck: mpirun -n P pipeleaf run DECK [group.name=value ...]");
        good = false;
    }
    if (good && run->world.rank == 0) good = text_read_file(&text, run->words.deck_path, &error);
    agree(run, good, &error);
    job_broadcast_text(&run->world, &text, 0);
    good = setup_deck(&run->deck, &run->words, &text, run->world.size, &error);
    agree(run, good, &error);
    job_split(&run->world, (int)run->deck.pipeline.ranks, &run->job);
    run->model = setup_model(&run->deck);
    run->reporting = setup_reporting(&run->deck);
    run->steps = setup_steps(&run->deck);
    run->rehearses = strcmp(run->deck.run.device, "rehearsal") == 0;
    if (run->rehearses) {
        run->reporting = (struct reporting){ 0 };
        good = rehearsal_possible(run, &error);
    } else if (run->words.from) {
        text_add(&error, "--from: only run.device='rehearsal' waits for times instead of computing, not '%s'",
            run->deck.run.device);
        good = false;
    } else if (run->words.inject)
        good = setup_injection(run->words.inject, &run->model, run->steps, run->job.part, run->job.parts,
            &run->injection, &error);
    agree(run, good, &error);
    agree(run, many_divide(run, &error), &error);
    text_free(&text);
}

/* Of a rehearsal: the deck's, or those that a run measured (every rank reads its files). */
static void choose_costs(struct run *run)
{
    struct text error = { 0 };
    struct measured measured;
    const char *from = run->words.from;
    const bool good = !from || measured_read(&measured, from, &run->model, &error);
    agree(run, good, &error);
    struct chosen_costs costs;
    chosen_costs_make(&costs, &run->deck, &run->model, &run->partition, from ? &measured : NULL);
    run->costs = costs.machine; /* and owns it from now on */
    if (from) measured_free(&measured);
}

static void plan_program(struct run *run)
{
    struct text error = { 0 };
    run->partition = setup_partition(&run->deck, run->job.size);
    const bool good = setup_program(&run->deck, run->job.size, &run->program, &error);
    agree(run, good, &error);
    run->rank_of_layer = allocate((size_t)run->model.layers, sizeof *run->rank_of_layer);
    for (int chunk = 0; chunk < run->program.chunks; chunk++)
        for (int layer = run->partition.first[chunk]; layer < run->partition.first[chunk + 1]; layer++)
            run->rank_of_layer[layer] = run->program.rank_of[chunk];
    if (run->rehearses) {
        choose_costs(run);
        run->planned = memory_plan_of_rehearsal(&run->model, &run->program, run->job.rank);
    } else {
        run->planned =
            memory_plan_of(&run->model, &run->partition, &run->program, run->job.rank, &run->reporting);
    }
}

static void open_device(struct run *run)
{
    struct text error = { 0 };
    share_processors(run);
    const struct device_request request =
        setup_device(&run->deck, &run->model, run->threads, run->job.host_rank, run->planned.total);
    const bool good =
        device_open(&request, &run->device, &error) &&
        (!run->device->is_host || setup_fits(run->planned_on_host, "the ranks' planned memory", &error));
    agree(run, good, &error);
    run->device->check_arithmetic(run->device);
    compare_places(run);
    run->peak = NAN;
    if (!run->device->is_host)
        measure_rates(run); /* while its memory is free */
    else if (run->device->measure_now && !run->oversubscribed)
        run->peaks = allocate((size_t)run->deck.run.steps + 1, sizeof *run->peaks);
}

/* The program's computes over and over, one step after the other: the n-th from 0. There is one at least. */
static struct compute nth_compute(const struct rank_program *program, int n)
{
    int computes = 0, number = 0;
    for (int i = 0; i < program->count; i++) computes += program->operations[i].kind == OPERATION_COMPUTE;
    for (int i = 0; i < program->count; i++)
        if (program->operations[i].kind == OPERATION_COMPUTE && number++ == n % computes)
            return program->operations[i].compute;
    return (struct compute){ 0 };
}

static void describe(const struct progress *progress, char *line, size_t size)
{
    const struct run *run = progress->context;
    const struct rank_program *mine = &run->program.rank[run->job.rank];
    const int reached = progress->reached ? __atomic_load_n(progress->reached, __ATOMIC_RELAXED) : 0;
    const int current = atomic_load(&progress->current);
    char last[64] = "nothing", now[64] = "between steps";
    if (run->job.parts > 1) {
        const int used = snprintf(line, size, "pipeline %d rank %d: ", run->job.part, run->job.rank);
        line += used;
        size -= (size_t)used;
    }
    if (reached > 0) compute_text(nth_compute(mine, reached - 1), last, sizeof last);
    if (current >= mine->count) snprintf(now, sizeof now, "waiting for the step's messages to complete");
    if (current < 0 || current >= mine->count) {
        snprintf(line, size, "last done: %s; now: %s", last, now);
        return;
    }
    const struct operation *o = &mine->operations[current];
    const struct endpoint *end = o->kind == OPERATION_SEND ? &o->output : &o->input;
    compute_text(o->compute, now, sizeof now);
    static const char *const kind[] = { "in", "posting the receive for", "sending the result of" };
    if (end->channel < 0)
        snprintf(line, size, "last done: %s; now: %s %s", last, kind[o->kind], now);
    else
        snprintf(line, size, "last done: %s; now: %s %s, channel %d (%s, rank %d to rank %d)", last,
            kind[o->kind], now, end->channel,
            run->program.channels[end->channel].kind == CHANNEL_ACTIVATION ? "activations" : "gradients",
            run->program.channels[end->channel].from, run->program.channels[end->channel].to);
}

static void open_channels(struct run *run)
{
    struct text error = { 0 };
    const struct rank_program *mine = &run->program.rank[run->job.rank];
    int computes = 0;
    for (int i = 0; i < mine->count; i++) computes += mine->operations[i].kind == OPERATION_COMPUTE;
    const struct channels_request request = { .transport = run->deck.run.transport,
        .job = &run->job,
        .device = run->device,
        .plan = run->program.channels,
        .count = run->program.channel_count,
        .message_bytes = message_bytes(&run->model),
        .overlap = run->deck.pipeline.overlap,
        .channel_ctas = (int)run->deck.pipeline.channel_ctas,
        .share_device = run->deck.run.share_device,
        .probe_seconds = fmin(20, run->deck.run.timeout / 2),
        .transfers_a_step = mine->count - computes };
    const bool good = channels_open(&request, &run->channels, &error);
    agree(run, good, &error);
}

/* What bits depend on beyond the deck must be one thing on all ranks that have layers; known once every shape
 * was used. */
static void agree_on_arithmetic(struct run *run)
{
    enum { SIZE = sizeof run->device->arithmetic };
    struct text error = { 0 };
    const bool computes = !run->rehearses && memory_layers(&run->partition, &run->program, run->job.rank) > 0;
    const char *mine = computes ? run->device->arithmetic : "";
    char own[SIZE] = { 0 }, first[SIZE] = { 0 };
    snprintf(own, sizeof own, "%s", mine);
    char *all = job_gather(&run->job, own, sizeof own, NULL, NULL);
    for (int r = 0; all && r < run->job.size && !first[0]; r++) memcpy(first, all + (size_t)r * SIZE, SIZE);
    free(all);
    job_broadcast(&run->job, first, sizeof first, 0);
    const bool same = !computes || strcmp(own, first) == 0;
    if (!same)
        text_add(&error,
            "this rank's arithmetic is '%s', an earlier one's '%s': a run's ranks must have one; "
            "arithmetic.mode='portable' has the same bits everywhere",
            own, first);
    agree(run, same, &error);
    run->card.facts.arithmetic = computes ? run->device->arithmetic : NULL;
    if (run->job.rank == 0 && !computes) run->card.facts.arithmetic = strcpy(run->arithmetic, first);
}

/* From before the channels are opened: what makes connections may wait for a rank that does not come. */
static void start_watchdog(struct run *run)
{
    run->progress.describe = describe;
    run->progress.context = run;
    atomic_store(&run->progress.current, -1);
    run->watchdog = watchdog_start(&run->world, &run->progress, run->deck.run.timeout);
}

static void create_pipeline(struct run *run)
{
    atomic_fetch_add(&run->progress.count, 1);
    const struct pipeline_request request = { .model = &run->model,
        .partition = &run->partition,
        .program = &run->program,
        .rank = run->job.rank,
        .device = run->device,
        .channels = run->channels,
        .reporting = run->reporting,
        .injection = run->injection,
        .progress = &run->progress,
        .steps = run->steps,
        .rehearsal = run->rehearses ? &run->costs.costs : NULL };
    run->pipeline = pipeline_create(&request);
    run->records = allocate((size_t)run->steps, sizeof *run->records);
    agree_on_arithmetic(run);
}

/* How products are made is known once every shape was used. */
static void print_products(struct run *run)
{
    struct text lines = { 0 };
    run->device->describe(run->device, &lines);
    if (lines.length && run->listing.speaks) {
        listing_banner(&run->listing, "products (rank 0)");
        listing_block(&run->listing, lines.data);
    }
    text_free(&lines);
}

static void sink_tensor(void *context, struct tensor tensor, const float *data)
{
    struct run *run = context;
    output_tensor(run->output, tensor, data);
    atomic_fetch_add(&run->progress.count, 1);
}

/* Between steps, on rank 0 of the job: the others wait for it where they wait anyway. */
static void show_progress(struct run *run, int done)
{
    struct progress_line *line = &run->progress_line;
    if (!progress_line_due(line)) return;
    const double mean = (seconds_now() - line->began) / done, share = (double)done / run->steps;
    if (run->rehearses)
        progress_line_write(line, share, "step %d of %d, %.4f s a step", done, run->steps, mean);
    else
        progress_line_write(line, share, "step %d of %d, %.4f s a step, %.3E tokens/s", done, run->steps,
            mean, (double)model_tokens(&run->model) * run->model.microbatches / mean);
}

/* Warm-up and timed steps; then the recorded one, whose tensors go to the rank's file. Each begins together
   in all pipelines of the job: what they take from each other, on a network or a host that they share, is in
   the times. And so the watchdog of the job sees a pipeline that hangs: the others come to the next step and
   wait. */
static void run_steps(struct run *run)
{
    const int warmup = (int)run->deck.run.warmup_steps;
    progress_line_start(
        &run->progress_line, run->world.rank == 0 && !run->deck.run.quiet, run->deck.run.progress);
    for (int step = 1; step < run->steps; step++) {
        if (step > warmup) measure_beside(run, step);
        job_barrier(&run->world);
        if (step == 1) run->first_step_at = seconds_now();
        run->records[step - 1] = pipeline_step(run->pipeline, step, step > warmup, NULL);
        show_progress(run, step);
    }
    const struct sink sink = { sink_tensor, run };
    measure_beside(run, run->steps);
    open_output(run);
    job_barrier(&run->world);
    const double start = seconds_now();
    run->records[run->steps - 1] = pipeline_step(run->pipeline, run->steps, false, &sink);
    run->recorded_seconds = seconds_now() - start;
    run->held = run->device->held(run->device);
    progress_line_end(&run->progress_line);
    job_barrier(&run->job);
}

static void close_all(struct run *run)
{
    pipeline_close(run->pipeline);
    if (run->channels) channels_close(run->channels);
    run->device->close(run->device);
    program_free(&run->program);
    partition_free(&run->partition);
    identity_card_free(&run->card);
    deck_free(&run->deck);
    words_free(&run->words);
    text_free(&run->listing.text);
    free(run->records);
    free(run->peaks);
    free(run->all_places);
    many_free(run);
    free(run->rank_of_layer);
    machine_costs_free(&run->costs);
    text_free(&run->wrong_lines);
    gather_free(run);
}

int command_run(int count, char **word)
{
    struct run run = { 0 };

    /* -- what is asked -- */
    job_start(&run.world, NULL, NULL);
    read_deck(&run, count, word);
    plan_program(&run);

    /* -- what it runs on -- */
    open_device(&run);
    start_watchdog(&run);
    open_channels(&run);
    prepare_directory(&run);
    print_head(&run);

    /* -- the steps -- */
    run.clock_before = job_clock_offset(&run.job, 50, NULL);
    run.clock_before_at = seconds_now();
    create_pipeline(&run);
    print_products(&run);
    run_steps(&run);
    run.clock_after = job_clock_offset(&run.job, 50, NULL);
    run.clock_after_at = seconds_now();

    /* -- what came out -- */
    check_trace(&run);
    if (run.device->is_host && !run.device->measure_now)
        measure_rates(&run); /* the first step need not wait */
    gather_run(&run);
    write_rank_file(&run);
    print_figures(&run);
    write_run_files(&run);
    watchdog_stop(run.watchdog);

    /* -- the verdict -- */
    const int code = conclude(&run);
    close_all(&run);
    job_leave(&run.job);
    job_end(&run.world);
    return code;
}
