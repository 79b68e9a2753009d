#include "command/recheck.h"
#include "command/run_state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void rank_file_name(int rank, char name[32])
{
    snprintf(name, 32, "rank%05d.h5", rank);
}

void open_output(struct run *run)
{
    char name[32];
    struct text path = { 0 };
    rank_file_name(run->job.rank, name);
    setup_path(&run->deck, name, &path);
    run->output = output_create(path.data, &run->card.facts);
    text_free(&path);
}

void write_rank_file(struct run *run)
{
    size_t count;
    const struct action_record *actions = pipeline_actions(run->pipeline, &count);
    size_t arrivals;
    const struct arrival *arrival = pipeline_arrivals(run->pipeline, &arrivals);
    if (run->reporting.activations != DATA_NONE) output_arrivals(run->output, arrival, arrivals);
    output_timings(run->output, actions, count, run->records, (size_t)run->steps);
    write_planned(run);
    output_finish(run->output);
    job_barrier(&run->job);
}

static void write_links(struct run *run)
{
    char(*names)[32] = allocate((size_t)run->job.size, sizeof *names);
    const char **files = allocate((size_t)run->job.size, sizeof *files);
    for (int r = 0; r < run->job.size; r++) {
        rank_file_name(r, names[r]);
        files[r] = names[r];
    }
    const bool inputs = run->reporting.parameters;
    const struct links links = { .layers = run->reporting.activations != DATA_NONE ||
                                           run->reporting.gradients || run->reporting.parameters,
        .input_rank = inputs ? run->program.rank_of[0] : -1,
        .target_rank = inputs ? run->program.rank_of[run->program.chunks - 1] : -1 };
    struct text path = { 0 };
    setup_path(&run->deck, "run.h5", &path);
    output_write_links(path.data, &run->card.facts, files, &links);
    text_free(&path);
    free(files);
    free(names);
}

static void write_timeline(struct run *run)
{
    struct rank_trace *traces = allocate((size_t)run->job.size, sizeof *traces);
    struct planned_record **planned = allocate((size_t)run->job.size, sizeof *planned);
    for (int r = 0; r < run->job.size; r++) {
        const size_t action = run->action_offsets[r] / sizeof(struct action_record),
                     transfer = run->transfer_offsets[r] / sizeof(struct transfer_record);
        planned[r] = planned_records(run, r, &(size_t){ 0 });
        traces[r] = (struct rank_trace){ .rank = r,
            .host = run->places[r].host,
            .device = run->places[r].device,
            .steps = run->all_records + (size_t)r * (size_t)run->steps,
            .planned = planned[r],
            .actions = run->all_actions + action,
            .action_count = run->action_offsets[r + 1] / sizeof(struct action_record) - action,
            .transfers = run->all_transfers + transfer,
            .transfer_count = run->transfer_offsets[r + 1] / sizeof(struct transfer_record) - transfer };
    }
    const struct timeline timeline = { .facts = &run->card.facts,
        .ranks = traces,
        .rank_count = run->job.size,
        .steps = run->steps,
        .chunks = run->program.chunks,
        .microbatches = run->program.microbatches,
        .makespan = run->makespan,
        .channels = run->program.channels,
        .channel_count = run->program.channel_count,
        .message_bytes = message_bytes(&run->model) };
    struct text path = { 0 };
    setup_path(&run->deck, "timeline.json", &path);
    timeline_write(path.data, &timeline);
    text_free(&path);
    for (int r = 0; r < run->job.size; r++) free(planned[r]);
    free(planned);
    free(traces);
}

void write_run_files(struct run *run)
{
    if (run->job.rank == 0) {
        if (!run->rehearses) {
            struct text path = { 0 };
            setup_path(&run->deck, "digest.txt", &path);
            digest_file_write(path.data, &run->card.facts, run->all_digests, run->digest_count);
            text_free(&path);
        }
        write_links(run);
        if (run->deck.output.timeline) write_timeline(run);
    }
    atomic_fetch_add(&run->progress.count, 1);
    job_barrier(&run->world); /* no pipeline is left behind when the watchdog goes */
}

/* Whether the verdict is to be that of a recheck. */
static bool is_rechecked(const struct run *run)
{
    return !run->rehearses && strcmp(run->deck.verify.against, "recheck") == 0;
}

/* What the OLCF test harness reads. */
static void write_harness_files(struct run *run, const struct figure *figures, int count)
{
    const struct outcome *o = &run->outcome;
    struct text path = { 0 };
    setup_path(&run->deck, "metrics.txt", &path);
    metrics_write(path.data, verdict_text[o->verdict], o->code, figures, count);
    path.length = 0;
    setup_path(&run->deck, "nodecheck.txt", &path);
    int hosts;
    struct node *nodes = nodes_judge(o, 1, run->job.size, run->places, &hosts);
    nodecheck_write(path.data, nodes, hosts);
    nodes_free(nodes, hosts);
    text_free(&path);
}

void write_result(struct run *run)
{
    const struct {
        const char *name;
        bool written;
    } others[] = { { "run.h5", true }, { "digest.txt", !run->rehearses }, { "listing.txt", true },
        { "result.json", true }, { "metrics.txt", true }, { "nodecheck.txt", true },
        { "timeline.json", run->deck.output.timeline }, { "recheck.txt", is_rechecked(run) },
        { "recheck.json", is_rechecked(run) } };
    const int ranks = run->job.size;
    char(*names)[32] = allocate((size_t)ranks + sizeof others / sizeof *others, sizeof *names);
    const char **files = allocate((size_t)ranks + sizeof others / sizeof *others, sizeof *files);
    int count = 0;
    for (int r = 0; r < ranks; r++) rank_file_name(r, names[count++]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (others[i].written) snprintf(names[count++], sizeof *names, "%s", others[i].name);
    for (int i = 0; i < count; i++) files[i] = names[i];

    const bool finished = run->all_records != NULL;
    float *loss = allocate((size_t)run->steps, sizeof *loss);
    const int last = run->program.rank_of[run->program.chunks - 1];
    for (int s = 0; s < run->steps && finished; s++)
        loss[s] = run->all_records[(size_t)last * (size_t)run->steps + (size_t)s].loss;
    const struct figures *f = &run->figures;
    const struct figure figures[] = {
        { "fom_tokens_per_second", f->fom },
        { "median_step_seconds", f->step.median },
        { "min_step_seconds", f->step.min },
        { "p95_step_seconds", f->step.p95 },
        { "predicted_step_seconds", run->makespan },
        { "exposed_seconds", f->exposed },
        { "bubble_over_ideal", f->bubble_over_ideal },
        { "bubble_of_step", f->bubble_of_step },
        { "flop_per_second", f->flop_rate },
        { "share_of_fma_peak", f->share_of_peak },
        { "planned_bytes_largest_rank", f->planned },
        { "held_bytes_largest_rank", f->held },
        { "recorded_step_seconds", run->recorded_seconds },
        { "startup_seconds", f->startup },
        { "rehearsal_messages_right", run->rehearses ? run->right_messages : NAN },
        { "rehearsal_messages_planned", run->rehearses ? run->planned_messages : NAN },
    };
    const int figure_count = finished ? (int)(sizeof figures / sizeof *figures) : 0;
    struct target targets[TARGETS];
    const int target_count = targets_check(&run->deck, run->outcome.fom, run->outcome.bubble, targets);
    struct text path = { 0 };
    setup_path(&run->deck, "result.json", &path);
    const struct result result = { .facts = &run->card.facts,
        .pipeline = run->job.part,
        .pipelines = run->job.parts,
        .verdict = verdict_text[run->outcome.verdict],
        .exit_code = run->outcome.code,
        .injected = run->injection.active ? run->words.inject : NULL,
        .figures = figures,
        .figure_count = figure_count,
        .targets = targets,
        .target_count = target_count,
        .step_seconds = run->step_seconds,
        .steps = finished ? (int)run->deck.run.steps : 0,
        .loss = loss,
        .losses = finished ? run->steps : 0,
        .files = files,
        .file_count = count };
    result_write(path.data, &result);
    write_harness_files(run, figures, figure_count);
    text_free(&path);
    free(loss);
    free(files);
    free(names);
}

/* All ranks: what became of the messages of a rehearsal. */
static void gather_messages(struct run *run)
{
    const struct rehearsed *mine = pipeline_rehearsed(run->pipeline);
    size_t *offsets = allocate((size_t)run->job.size + 1, sizeof *offsets);
    char *lines = job_gather(&run->job, mine->first_wrong, strlen(mine->first_wrong), NULL, offsets);
    for (int r = 0; lines && r < run->job.size; r++)
        if (offsets[r + 1] > offsets[r])
            text_add(&run->wrong_lines, "first wrong one on rank %d: %.*s\n", r,
                (int)(offsets[r + 1] - offsets[r]), lines + offsets[r]);
    free(lines);
    free(offsets);
    run->right_messages = job_sum(&run->job, (double)mine->right);
    run->wrong_messages = job_sum(&run->job, (double)mine->wrong);
    for (int c = 0; c < run->program.channel_count; c++)
        run->planned_messages += (double)run->program.channels[c].messages * run->steps;
}

/* Rank 0: nothing was computed, so nothing is verified; wrong messages are a wrong answer. */
static int judge_rehearsal(struct run *run, struct text *explanation)
{
    const char *against = run->deck.verify.against;
    const bool asked = strcmp(against, "auto") != 0 && strcmp(against, "none") != 0;
    text_add(explanation, "nothing was computed: a rehearsal has nothing to compare\n");
    listing_print(&run->listing, "\nREHEARSAL: %.0f of %.0f messages right\n", run->right_messages,
        run->planned_messages);
    if (run->wrong_lines.data) listing_block(&run->listing, run->wrong_lines.data);
    return run->right_messages != run->planned_messages || run->wrong_messages > 0 ? EXIT_WRONG
           : asked                                                                 ? EXIT_NOT_VERIFIED
                                                                                   : EXIT_DONE;
}

/* All ranks. What the steps held on the device is given back first: a recheck needs a chunk and a microbatch.
 */
static void recheck_now(struct run *run, struct text *explanation)
{
    struct outcome *o = &run->outcome;
    pipeline_close(run->pipeline);
    channels_close(run->channels);
    run->pipeline = NULL;
    run->channels = NULL;
    const struct recheck_outcome found = recheck_of_run(
        &run->job, run->device, run->deck.output.directory, run->deck.run.timeout, explanation);
    o->verdict = found.verdict;
    o->code = found.code;
    o->wrong_rank = found.wrong_rank;
}

/* Rank 0: compares with what the deck names, or judges the messages of a rehearsal. */
static void verify_now(struct run *run, struct text *explanation)
{
    struct outcome *o = &run->outcome;
    if (run->rehearses) {
        o->code = judge_rehearsal(run, explanation);
        return;
    }
    bool asked;
    o->verdict = setup_verify(&run->deck, run->many ? run->many->directory : run->deck.output.directory,
        &run->card, run->all_digests, run->digest_count, explanation, &asked, &o->wrong_rank);
    o->code = o->verdict == UNSUCCESSFUL             ? EXIT_WRONG
              : o->verdict == NOT_PERFORMED && asked ? EXIT_NOT_VERIFIED
                                                     : EXIT_DONE;
}

/* Rank 0: the rest of the outcome, and the deck's targets against it. */
static void check_targets(struct run *run)
{
    struct outcome *o = &run->outcome;
    o->ended = true;
    o->fom = run->figures.fom;
    o->step = run->figures.step.median;
    o->bubble = run->figures.bubble_of_step;
    o->right_messages = run->right_messages;
    o->planned_messages = run->planned_messages;
    struct target targets[TARGETS];
    const int count = targets_check(&run->deck, o->fom, o->bubble, targets);
    o->missed_target = !targets_met(targets, count);
    if (o->missed_target) o->code = first_exit_code(o->code, EXIT_SLOW);
    targets_print(&run->listing, targets, count, "");
}

int conclude(struct run *run)
{
    struct text explanation = { 0 };
    if (run->rehearses) gather_messages(run);
    if (is_rechecked(run))
        recheck_now(run, &explanation);
    else if (run->job.rank == 0)
        verify_now(run, &explanation);
    if (run->job.rank == 0) {
        check_targets(run);
        listing_verification(&run->listing, explanation.data);
        listing_end(&run->listing, run->figures.fom, verdict_text[run->outcome.verdict]);
        text_free(&explanation);
        struct text path = { 0 };
        setup_path(&run->deck, "listing.txt", &path);
        write_whole_file(path.data, run->listing.text.data, run->listing.text.length);
        text_free(&path);
        write_result(run);
    }
    int code = run->many ? many_conclude(run) : run->outcome.code;
    job_broadcast(&run->world, &code, sizeof code, 0);
    return code;
}
