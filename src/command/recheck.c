/* pipeleaf recheck: the phases, in order, in recheck_all. What it reads is in recheck_read.c, what a rank
   does with a chunk in recheck_judge.c. */
#include "base/cpus.h"
#include "command/command.h"
#include "command/recheck_state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- where it is done --- */

struct where {
    char host[128];
    cpu_set_t cpus;
};

/* Threads where neither the deck nor OMP_NUM_THREADS says: the CPUs of the mask, shared with the ranks of the
   host that have the same. */
static int fair_threads(struct rechecking *x)
{
    struct where mine;
    memset(&mine, 0, sizeof mine);
    snprintf(mine.host, sizeof mine.host, "%s", x->job->host);
    process_cpus(&mine.cpus);
    struct where *all =
        share(x, job_gather(x->job, &mine, sizeof mine, NULL, NULL), (size_t)x->job->size * sizeof mine);
    int sharing = 0;
    for (int rank = 0; rank < x->job->size; rank++)
        sharing += strcmp(all[rank].host, mine.host) == 0 && CPU_EQUAL(&all[rank].cpus, &mine.cpus);
    free(all);
    const int threads = CPU_COUNT(&mine.cpus) / (sharing > 0 ? sharing : 1);
    return threads > 0 ? threads : 1;
}

static size_t bytes_needed(const struct rechecking *x)
{
    int most = 0;
    for (int chunk = 0; chunk < x->partition.chunks; chunk++)
        if (partition_layers(&x->partition, chunk) > most) most = partition_layers(&x->partition, chunk);
    return recheck_memory(&x->model, most) + judge_memory();
}

/* False with why on all ranks. */
static bool open_device(struct rechecking *x)
{
    struct text error = { 0 };
    const size_t bytes = bytes_needed(x);
    bool good = true;
    if (!x->device) {
        const struct device_request request = setup_device(
            &x->deck, &x->model, setup_threads(&x->deck, fair_threads(x)), x->job->host_rank, bytes);
        good = device_open(&request, &x->device, &error);
        x->owns_device = good;
    }
    if (good && x->device->is_host)
        good = setup_fits((double)bytes * x->job->host_ranks, "what a recheck holds", &error);
    if (share_line(x, !good, &error)) {
        if (x->job->rank == 0) fprintf(stderr, "pipeleaf: error: %s\n", error.data);
        text_add(&x->explanation, "%s\n", error.data);
        x->code = EXIT_FAILED;
        good = false;
    }
    text_free(&error);
    return good;
}

static void assign(struct rechecking *x)
{
    struct computed_by mine;
    memset(&mine, 0, sizeof mine);
    snprintf(mine.host, sizeof mine.host, "%s", x->job->host);
    snprintf(mine.device, sizeof mine.device, "%s", x->device->name);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", x->device->uuid);
    x->by = share(x, job_gather(x->job, &mine, sizeof mine, NULL, NULL), (size_t)x->job->size * sizeof mine);
    x->own = recheck_assign(&x->partition, x->rank_of, x->run.by, x->job->size, x->by, x->checker_of);
}

/* What the bits depend on beyond the deck must be the run's. */
static bool is_arithmetic_the_runs(struct rechecking *x, int most_layers)
{
    struct text why = { 0 };
    const char *run = x->run.facts.arithmetic, *mine = x->device->arithmetic;
    const bool other = most_layers > 0 && run[0] && strcmp(run, mine) != 0;
    if (other)
        text_add(&why,
            "the run's arithmetic is '%s', that of rank %d's device '%s': the same bits are not promised",
            run, x->job->rank, mine);
    const bool differs = share_line(x, other, &why);
    if (differs) {
        text_add(&x->explanation, "%s\n", why.data);
        x->verdict = NOT_PERFORMED;
    }
    text_free(&why);
    return !differs;
}

/* --- computing again --- */

static void describe(const struct progress *progress, char *line, size_t size)
{
    const int chunk = atomic_load(&progress->current);
    if (chunk < 0)
        snprintf(line, size, "last done: %llu tensors of a recheck; now: waiting for the other ranks",
            (unsigned long long)atomic_load(&progress->count));
    else
        snprintf(line, size, "last done: %llu tensors of a recheck; now: in chunk %d",
            (unsigned long long)atomic_load(&progress->count), chunk);
}

static void run_chunks(struct rechecking *x)
{
    atomic_store(&x->progress.current, -1);
    x->progress.describe = describe;
    struct watchdog *watchdog = watchdog_start(x->job, &x->progress, x->timeout);
    const double start = seconds_now();
    for (int chunk = 0; chunk < x->partition.chunks; chunk++) {
        if (x->checker_of[chunk] != x->job->rank) continue;
        atomic_store(&x->progress.current, chunk);
        judge_chunk(&x->judge, x->recheck, chunk);
    }
    atomic_store(&x->progress.current, -1);
    const double seconds = seconds_now() - start;
    x->seconds = job_gather(x->job, &seconds, sizeof seconds, NULL, NULL);
    struct recheck_tally *tallies = job_gather(x->job, &x->judge.tally, sizeof x->judge.tally, NULL, NULL);
    for (int rank = 0; tallies && rank < x->job->size; rank++) {
        for (int class = 0; class < TENSOR_CLASSES; class ++) {
            x->tally.compared[class] += tallies[rank].compared[class];
            x->tally.in_full[class] += tallies[rank].in_full[class];
        }
        x->tally.arrivals += tallies[rank].arrivals;
    }
    free(tallies);
    size_t bytes;
    x->finding = job_gather(x->job, x->judge.finding, x->judge.count * sizeof *x->finding, &bytes, NULL);
    x->count = x->finding ? bytes / sizeof *x->finding : 0;
    job_barrier(x->job);
    watchdog_stop(watchdog);
}

/* --- what came out --- */

static void print_head(struct rechecking *x)
{
    const struct recorded_facts *facts = &x->run.facts;
    text_add(&x->head, "Pipeleaf %s (%s): recheck of %s\n", pipeleaf_version, pipeleaf_commit, x->directory);
    text_add(&x->head, "run id     %s\nrecheck id %s\n", facts->run_id, x->id);
    text_add(&x->head,
        "recorded   step %d of %d ranks with %d chunks each; activations '%s', gradients '%s'\n",
        facts->recorded_step, facts->ranks, facts->chunks_per_rank, x->deck.output.activations,
        x->deck.output.gradients);
}

static void print_ranks(struct rechecking *x)
{
    text_add(
        &x->head, "\n%6s %-20s %8s %8s %12s  %s\n", "rank", "host", "chunks", "layers", "seconds", "device");
    for (int rank = 0; rank < x->job->size; rank++) {
        int chunks = 0, layers = 0;
        for (int chunk = 0; chunk < x->partition.chunks; chunk++)
            if (x->checker_of[chunk] == rank) {
                chunks++;
                layers += partition_layers(&x->partition, chunk);
            }
        text_add(&x->head, "%6d %-20.20s %8d %8d %12.6f  %s%s%s\n", rank, x->by[rank].host, chunks, layers,
            x->seconds[rank], x->by[rank].device, x->by[rank].uuid[0] ? ", " : "", x->by[rank].uuid);
    }
}

static struct recheck_subject subject_of(const struct rechecking *x)
{
    return (struct recheck_subject){ .run = &x->run,
        .chunks = x->partition.chunks,
        .first = x->partition.first,
        .rank_of = x->rank_of,
        .checker_of = x->checker_of,
        .checkers = x->job->size,
        .by = x->by,
        .own = x->own };
}

/* The listing. */
static void add_listing(const struct rechecking *x, struct text *text)
{
    text_add(text, "%s%s%s\nFOM = NOT MEASURED\nVERIFICATION = %s\n", x->head.data ? x->head.data : "",
        x->head.data ? "\n" : "", x->explanation.data ? x->explanation.data : "", verdict_text[x->verdict]);
}

/* Rank 0: recheck.txt and recheck.json. */
static void write_files(struct rechecking *x)
{
    const struct recheck_subject subject = subject_of(x);
    struct text path = { 0 }, text = { 0 };
    add_listing(x, &text);
    text_add(&path, "%s/recheck.txt", x->directory);
    write_whole_file(path.data, text.data, text.length);
    path.length = 0;
    text_add(&path, "%s/recheck.json", x->directory);
    const struct recheck_result result = { .directory = x->directory,
        .recheck_id = x->id,
        .run = &x->run,
        .subject = x->compared ? &subject : NULL,
        .tally = &x->tally,
        .finding = x->finding,
        .count = x->count,
        .seconds = x->seconds,
        .explanation = x->explanation.data,
        .verdict = x->verdict,
        .exit_code = x->code };
    recheck_result_write(path.data, &result);
    text_free(&path);
    text_free(&text);
}

static void free_all(struct rechecking *x)
{
    if (x->compared) judge_free(&x->judge);
    recheck_close(x->recheck);
    if (x->owns_device) x->device->close(x->device);
    void *const memory[] = { x->rank_of, x->checker_of, x->by, x->seconds, x->finding };
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) free(memory[i]);
    if (x->partition.first) partition_free(&x->partition);
    if (x->has_deck) deck_free(&x->deck);
    recorded_free(&x->run);
    text_free(&x->head);
    text_free(&x->explanation);
}

/* Computes again what can be, and judges; the files are written, the rest is x's. */
static void recheck_all(struct rechecking *x)
{
    x->verdict = NOT_PERFORMED;
    x->code = EXIT_DONE;
    if (x->job->rank == 0) run_id_make(x->id);

    /* -- what was recorded, and what is to be done -- */
    bool good = read_recorded(x) && understand(x);
    if (good && x->job->rank == 0) print_head(x);

    /* -- where -- */
    good = good && open_device(x);
    if (good) {
        assign(x);
        int most = 0;
        for (int chunk = 0; chunk < x->partition.chunks; chunk++)
            if (x->checker_of[chunk] == x->job->rank && partition_layers(&x->partition, chunk) > most)
                most = partition_layers(&x->partition, chunk);
        const struct recheck_request request = {
            .model = &x->model, .device = x->device, .most_layers = most
        };
        x->recheck = recheck_create(&request);
        good = is_arithmetic_the_runs(x, most);
    }

    /* -- again -- */
    if (good) {
        judge_create(&x->judge, &x->run, &x->model, &x->partition, x->rank_of, &x->reporting, x->device,
            &x->progress, x->job->rank, x->directory);
        x->compared = true;
        run_chunks(x);
    }

    /* -- the verdict -- */
    if (x->job->rank == 0) {
        if (good) {
            const struct recheck_subject subject = subject_of(x);
            print_ranks(x);
            x->verdict = findings_judge(&subject, &x->tally, x->finding, x->count, &x->explanation);
        }
        if (x->code == EXIT_DONE)
            x->code = x->verdict == UNSUCCESSFUL ? EXIT_WRONG
                      : x->verdict == SUCCESSFUL ? EXIT_DONE
                                                 : EXIT_NOT_VERIFIED;
        if (x->written) write_files(x);
    }
    job_broadcast(x->job, &x->verdict, sizeof x->verdict, 0);
    job_broadcast(x->job, &x->code, sizeof x->code, 0);
}

struct recheck_outcome recheck_of_run(
    struct job *job, struct device *device, const char *directory, double timeout, struct text *explanation)
{
    struct rechecking x = { .job = job, .device = device, .directory = directory, .timeout = timeout };
    recheck_all(&x);
    if (job->rank == 0) {
        double most = 0;
        for (int rank = 0; x.seconds && rank < job->size; rank++) most = fmax(most, x.seconds[rank]);
        text_add(explanation, "recheck of the recorded step, each chunk by another rank: see recheck.txt\n");
        text_add(explanation, "%s", x.explanation.data ? x.explanation.data : "");
        text_add(explanation, "the recheck took %.6f s on the slowest rank\n", most);
    }
    const bool computed =
        x.count > 0 && (x.finding[0].fault == FAULT_COMPUTED || x.finding[0].fault == FAULT_NAN);
    const struct recheck_outcome outcome = { x.verdict, x.code,
        x.verdict == UNSUCCESSFUL && computed ? x.finding[0].rank : -1 };
    free_all(&x);
    return outcome;
}

int command_recheck(int count, char **word)
{
    struct job job;
    struct words words;
    struct text error = { 0 };
    job_start(&job, NULL, NULL);
    bool good = words_parse(count, word, "recheck", &words, &error);
    if (good && !words.deck_path) {
        text_add(&error, "recheck needs the output directory of a run: mpirun -n P pipeleaf recheck DIR "
                         "[run.device=... run.threads=... run.timeout=...]");
        good = false;
    }
    good = good && are_overrides_fit(&words, &error);
    int code = EXIT_FAILED;
    if (good) {
        struct rechecking x = { .job = &job, .directory = words.deck_path, .words = &words };
        recheck_all(&x);
        struct text listing = { 0 };
        add_listing(&x, &listing);
        if (job.rank == 0) fputs(listing.data, stdout);
        text_free(&listing);
        code = x.code;
        free_all(&x);
    } else if (job.rank == 0) {
        fprintf(stderr, "pipeleaf: error: %s\n", error.data);
    }
    text_free(&error);
    words_free(&words);
    job_barrier(&job);
    job_end(&job);
    return code;
}
