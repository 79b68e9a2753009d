/* Several pipelines side by side in one job. Each is a run of its own, in a directory of its own; here is
   what the job says of them all. Its FOM is the median pipeline's: the figure that one pipeline alone has, so
   that a target, and jobs of other sizes, can be held against it; the total is beside it. */
#include "command/run_state.h"
#include "command/show.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const job_files[] = { "listing.txt", "result.json", "metrics.txt", "nodecheck.txt" };
enum { JOB_FILES = sizeof job_files / sizeof *job_files };

static void directory_name(int pipeline, char name[24])
{
    snprintf(name, 24, "pipeline%04d", pipeline);
}

bool many_divide(struct run *run, struct text *error)
{
    if (run->job.parts == 1) return true;
    char who[200], name[24];
    snprintf(who, sizeof who, "rank %d on %s (pipeline %d rank %d)", run->world.rank, run->world.host,
        run->job.part, run->job.rank);
    fail_identity(who);

    struct many *many = run->many = allocate(1, sizeof *many);
    char *directory = run->deck.output.directory;
    strcpy(many->directory, directory);
    if (run->world.rank == 0)
        identity_card_fill(&many->card, &run->deck, &run->model, "pipelines", run->world.library);
    many->card.facts.ranks = run->world.size;
    many->listing.speaks = run->world.rank == 0;
    many->listing.only_kept = run->deck.run.quiet;
    directory_name(run->job.part, name);
    const size_t length = strlen(directory), room = DECK_STRING - sizeof name - 1;
    if (length > room) {
        text_add(error,
            "output.directory has %zu characters, and must leave room for the pipelines' directories in it: "
            "at "
            "most %zu",
            length, room);
        return false;
    }
    snprintf(directory + length, DECK_STRING - length, "/%s", name);
    return true;
}

void many_free(struct run *run)
{
    if (!run->many) return;
    identity_card_free(&run->many->card);
    text_free(&run->many->listing.text);
    free(run->many);
}

static char *job_path(const struct run *run, const char *name)
{
    struct text path = { 0 };
    text_add(&path, "%s/%s", run->many->directory, name);
    return path.data;
}

/* --- Files --- */

struct job_figures {
    double fom, fom_min, fom_max, fom_total, step, bubble_max;
    int right, wrong, slow; /* pipelines */
};

static struct job_figures job_figures_of(const struct outcome *outcomes, int count)
{
    struct job_figures f = { .fom_total = 0 };
    double *fom = allocate((size_t)count, sizeof *fom), *step = allocate((size_t)count, sizeof *step);
    size_t foms = 0, steps = 0;
    for (int k = 0; k < count; k++) {
        const struct outcome *o = &outcomes[k];
        if (!isnan(o->fom)) fom[foms++] = o->fom;
        if (!isnan(o->step)) step[steps++] = o->step;
        f.fom_total += o->fom; /* NaN where one is not measured, as is the worst bubble */
        f.bubble_max = isnan(o->bubble) ? NAN : o->bubble > f.bubble_max ? o->bubble : f.bubble_max;
        f.right += o->verdict == SUCCESSFUL;
        f.wrong += o->code == EXIT_WRONG;
        f.slow += o->is_slow;
    }
    const struct spread spread = spread_of(fom, foms);
    f.fom = spread.median;
    f.fom_min = spread.min;
    f.fom_max = spread.max;
    f.step = spread_of(step, steps).median;
    free(fom);
    free(step);
    return f;
}

static void write_job_result(const struct run *run, const struct outcome *outcomes, enum verdict verdict,
    int code, const struct figure *figures, int figure_count, const struct target *targets, int target_count)
{
    const int count = run->job.parts, ranks = run->job.size;
    const size_t size = (size_t)run->world.size;
    struct pipeline_result *pipelines = allocate((size_t)count, sizeof *pipelines);
    char(*names)[24] = allocate((size_t)count, sizeof *names);
    const char **text = allocate(3 * size, sizeof *text), **host = text, **device = text + size,
               **uuid = text + 2 * size;
    for (size_t r = 0; r < size; r++) {
        const struct place *place = &run->all_places[r];
        host[r] = place->host;
        device[r] = place->device;
        uuid[r] = place->uuid[0] ? place->uuid : NULL;
    }
    for (int k = 0; k < count; k++) {
        const struct outcome *o = &outcomes[k];
        const int first = k * ranks;
        directory_name(k, names[k]);
        pipelines[k] = (struct pipeline_result){ .directory = names[k],
            .run_id = o->run_id[0] ? o->run_id : NULL,
            .verdict = verdict_text[o->verdict],
            .exit_code = o->code,
            .first_rank = first,
            .ranks = ranks,
            .fom = o->fom,
            .step_seconds = o->step,
            .bubble = o->bubble,
            .of_median = o->of_median,
            .is_slow = o->is_slow,
            .wrong_rank = o->wrong_rank < 0 ? -1 : first + o->wrong_rank,
            .host = host + first,
            .device = device + first,
            .device_uuid = uuid + first };
    }
    const struct job_result result = { .facts = &run->many->card.facts,
        .verdict = verdict_text[verdict],
        .exit_code = code,
        .injected = run->words.inject,
        .figures = figures,
        .figure_count = figure_count,
        .targets = targets,
        .target_count = target_count,
        .pipelines = pipelines,
        .pipeline_count = count,
        .files = job_files,
        .file_count = JOB_FILES };
    char *path = job_path(run, "result.json");
    job_result_write(path, &result);
    free(path);
    free(text);
    free(names);
    free(pipelines);
}

/* nodes: NULL, or the judgement of nodes_judge to be written. */
static void write_job_files(const struct run *run, const struct outcome *outcomes, enum verdict verdict,
    int code, const struct node *nodes, int hosts)
{
    const struct job_figures f = job_figures_of(outcomes, run->job.parts);
    const struct figure figures[] = {
        { "fom_tokens_per_second", f.fom },
        { "fom_min_tokens_per_second", f.fom_min },
        { "fom_max_tokens_per_second", f.fom_max },
        { "fom_total_tokens_per_second", f.fom_total },
        { "median_step_seconds", f.step },
        { "bubble_of_step_max", f.bubble_max },
        { "pipelines", run->job.parts },
        { "pipelines_successful", f.right },
        { "pipelines_wrong", f.wrong },
        { "pipelines_slow", f.slow },
    };
    enum { FIGURES = sizeof figures / sizeof *figures };
    struct target targets[TARGETS];
    const int target_count = targets_check(&run->deck, f.fom_min, f.bubble_max, targets);
    write_job_result(run, outcomes, verdict, code, figures, FIGURES, targets, target_count);
    char *path = job_path(run, "metrics.txt");
    metrics_write(path, verdict_text[verdict], code, figures, FIGURES);
    free(path);
    path = job_path(run, "nodecheck.txt");
    nodecheck_write(path, nodes, hosts);
    free(path);
}

void many_prepare(struct run *run)
{
    if (!run->many) return;
    if (run->world.rank == 0) {
        const int count = run->job.parts;
        directory_prepare(run->many->directory, "result.json");
        struct outcome *outcomes = allocate((size_t)count, sizeof *outcomes);
        for (int k = 0; k < count; k++)
            outcomes[k] = (struct outcome){ .verdict = NOT_PERFORMED,
                .code = EXIT_FAILED,
                .fom = NAN,
                .step = NAN,
                .bubble = NAN,
                .wrong_rank = -1,
                .of_median = NAN };
        int hosts;
        struct node *nodes = nodes_judge(outcomes, count, run->job.size, run->all_places, &hosts);
        write_job_files(run, outcomes, NOT_PERFORMED, EXIT_FAILED, nodes, hosts);
        nodes_free(nodes, hosts);
        free(outcomes);
    }
    job_barrier(&run->world); /* before a pipeline makes its directory: it is listed by now, and the earlier
                                 ones gone */
}

/* --- The listing --- */

/* "node1 node2 ... node8": the hosts of the ranks from `first`, each once; many are cut short. */
static void hosts_text(const struct run *run, int first, struct text *out)
{
    enum { MOST = 4 };
    const struct place *place = &run->all_places[first];
    int hosts = 0;
    for (int r = 0; r < run->job.size; r++) {
        bool seen = false;
        for (int other = 0; other < r && !seen; other++) seen = strcmp(place[r].host, place[other].host) == 0;
        if (seen) continue;
        if (hosts++ < MOST) text_add(out, "%s%s", hosts > 1 ? " " : "", place[r].host);
    }
    if (hosts > MOST) text_add(out, " and %d more", hosts - MOST);
}

void many_print_head(struct run *run)
{
    struct listing *out = &run->many->listing;
    if (!out->speaks) return;
    const struct identity_card *card = &run->many->card;
    const int ranks = run->job.size;
    listing_print(out, "Pipeleaf %s (%s): run of %s, %d pipelines of %d ranks side by side\n",
        pipeleaf_version, pipeleaf_commit, run->words.deck_path, run->job.parts, ranks);
    if (run->words.inject) listing_line(out, 10, "INJECTED  %s", run->words.inject);
    if (run->rehearses) listing_print(out, "REHEARSAL: nothing is computed; see the pipelines' listings\n");
    show_build(out, card);
    listing_banner(out, "effective deck");
    listing_verbatim(out, card->deck.data);
    listing_banner_differs(out, "this run");
    listing_print(out, "%-28s %s\n", "run id", card->run_id);

    listing_banner_differs(out, "pipelines");
    listing_print(out, "%8s  %-14s %-14s %s\n", "pipeline", "ranks", "directory", "hosts");
    for (int k = 0; k < run->job.parts; k++) {
        char of[32], name[24];
        struct text hosts = { 0 };
        snprintf(of, sizeof of, "%d-%d", k * ranks, k * ranks + ranks - 1);
        directory_name(k, name);
        hosts_text(run, k * ranks, &hosts);
        listing_line(out, 40, "%8d  %-14s %-14s %s", k, of, name, hosts.data);
        text_free(&hosts);
    }
    listing_line(out, 4,
        "every step, timed ones too, begins in all pipelines together: what they take from each other "
        "is in the times");
    if (run->oversubscribed)
        listing_line(out, 16,
            "OVERSUBSCRIBED: more threads than CPUs in the ranks' affinity masks; shares of peak are NOT "
            "MEASURED");
    if (run->shared_gpu)
        listing_line(out, 8, "SHARED: ranks share a GPU; times are not those of a GPU a rank");
}

/* With so many decimals, or with an exponent where that is 0; "-": not measured. */
static const char *number_text(double value, int decimals, char text[32])
{
    if (isnan(value)) return "-";
    snprintf(text, 32, decimals ? "%.*f" : "%.*E", decimals ? decimals : 6, value);
    return text;
}

static void print_results(struct listing *out, const struct outcome *outcomes, int count)
{
    listing_banner_differs(out, "results");
    listing_print(out, "%8s  %14s  %10s  %14s  %9s  %4s  %s\n", "pipeline", "FOM, tokens/s", "of median",
        "step, seconds", "idle/step", "exit", "verification");
    for (int k = 0; k < count; k++) {
        const struct outcome *o = &outcomes[k];
        char a[32], b[32], c[32], d[32];
        listing_print(out, "%8d  %14s  %10s  %14s  %9s  %4d  %s\n", k, number_text(o->fom, 0, a),
            number_text(o->of_median, 4, b), number_text(o->step, 6, c), number_text(o->bubble, 4, d),
            o->code, verdict_text[o->verdict]);
    }
    const struct job_figures f = job_figures_of(outcomes, count);
    if (isnan(f.fom))
        listing_print(out, "%-28s NOT MEASURED\n", "FOM");
    else
        listing_print(out, "%-28s min %.6E  median %.6E  max %.6E  total %.6E\n", "FOM, tokens/s", f.fom_min,
            f.fom, f.fom_max, f.fom_total);
}

/* The hosts and devices of a pipeline that is named. */
static void print_places(struct listing *out, const struct run *run, int pipeline)
{
    for (int r = pipeline * run->job.size; r < (pipeline + 1) * run->job.size; r++) {
        const struct place *place = &run->all_places[r];
        struct text cpus = { 0 };
        cpu_set_text(&place->cpus, &cpus);
        listing_print(out, "    rank %d on %s: %s%s%s; CPUs %s\n", r, place->host, place->device,
            place->uuid[0] ? ", " : "", place->uuid, cpus.data);
        text_free(&cpus);
    }
}

static void name_pipelines(struct listing *out, const struct run *run, const struct outcome *outcomes)
{
    bool any = false;
    for (int k = 0; k < run->job.parts; k++) {
        const struct outcome *o = &outcomes[k];
        if (o->code != EXIT_WRONG && !o->is_slow) continue;
        if (!any) listing_banner_differs(out, "wrong or slow");
        any = true;
        char name[24];
        directory_name(k, name);
        if (o->code == EXIT_WRONG) {
            listing_print(out, "pipeline %d is WRONG%s", k, o->injected ? " (INJECTED)" : "");
            if (o->wrong_rank >= 0)
                listing_print(out, ", the first difference on rank %d of the job, its rank %d",
                    k * run->job.size + o->wrong_rank, o->wrong_rank);
            listing_print(out, "; %s/listing.txt says more\n", name);
        }
        if (o->is_slow)
            listing_print(out, "pipeline %d is SLOW: %.1f %% below the median (named from 5 %% on)\n", k,
                100 * (1 - o->of_median));
        print_places(out, run, k);
    }
}

/* --- The end --- */

/* SUCCESSFUL only where all are. */
static enum verdict verdict_of_all(const struct outcome *outcomes, int count)
{
    enum verdict verdict = SUCCESSFUL;
    for (int k = 0; k < count; k++) {
        if (outcomes[k].verdict == UNSUCCESSFUL) return UNSUCCESSFUL;
        if (outcomes[k].verdict == NOT_PERFORMED) verdict = NOT_PERFORMED;
    }
    return verdict;
}

static int conclude_job(struct run *run, struct outcome *outcomes)
{
    struct listing *out = &run->many->listing;
    const int count = run->job.parts;
    outcomes_judge(outcomes, count);
    const enum verdict verdict = verdict_of_all(outcomes, count);
    int code = EXIT_DONE;
    double right = 0, planned = 0;
    for (int k = 0; k < count; k++) {
        code = first_exit_code(code, outcomes[k].code);
        right += outcomes[k].right_messages;
        planned += outcomes[k].planned_messages;
    }
    print_results(out, outcomes, count);
    name_pipelines(out, run, outcomes);
    if (run->rehearses) listing_print(out, "\nREHEARSAL: %.0f of %.0f messages right\n", right, planned);
    const struct job_figures f = job_figures_of(outcomes, count);
    struct target targets[TARGETS];
    const int target_count = targets_check(&run->deck, f.fom_min, f.bubble_max, targets);
    targets_print(out, targets, target_count, "of the worst pipeline");

    listing_banner_differs(out, "nodes");
    int hosts;
    struct node *nodes = nodes_judge(outcomes, count, run->job.size, run->all_places, &hosts);
    for (int i = 0; i < hosts; i++)
        listing_print(
            out, "%-20s %-9s %s\n", nodes[i].host, node_status_text[nodes[i].status], nodes[i].message.data);

    listing_banner(out, "verification");
    listing_print(out,
        "  each pipeline on its own, as its directory's listing.txt tells: %d of %d SUCCESSFUL\n", f.right,
        count);
    listing_end(out, f.fom, verdict_text[verdict]);
    char *path = job_path(run, "listing.txt");
    write_whole_file(path, out->text.data, out->text.length);
    free(path);
    write_job_files(run, outcomes, verdict, code, nodes, hosts);
    nodes_free(nodes, hosts);
    return code;
}

int many_conclude(struct run *run)
{
    const bool speaks = run->job.rank == 0;
    struct outcome *outcomes =
        job_gather(&run->world, &run->outcome, speaks ? sizeof run->outcome : 0, NULL, NULL);
    const int code = run->world.rank == 0 ? conclude_job(run, outcomes) : EXIT_FAILED;
    free(outcomes);
    return code;
}
