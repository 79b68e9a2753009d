/* pipeleaf recheck: the phases, in order, in recheck_all. What a rank does with a chunk is in
 * recheck_judge.c. */
#include "command/command.h"
#include "command/recheck.h"
#include "command/recheck_judge.h"
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of one recheck; all ranks know all of it but what is said to be rank 0's. */
struct rechecking {
    struct job *job;
    const char *directory;
    const struct words *words; /* NULL within a run */
    double timeout;            /* seconds */
    char id[80];               /* rank 0's */
    bool written;              /* rank 0's: recheck.txt and recheck.json can be written */

    struct recorded run;
    struct deck deck;
    bool has_deck;
    struct model model;
    struct reporting reporting;
    struct partition partition;
    int *rank_of, *checker_of; /* [chunks] */
    int own;

    struct device *device;
    bool owns_device;
    struct computed_by *by; /* [job size] */
    struct recheck *recheck;
    struct judge judge;
    struct progress progress;

    double *seconds; /* [job size], rank 0's, as are the next three */
    struct recheck_tally tally;
    struct finding *finding;
    size_t count;

    struct text head, explanation; /* rank 0's */
    bool compared;                 /* chunks were computed again */
    enum verdict verdict;
    int code;
};

static bool all_agree(struct rechecking *x, bool good)
{
    return job_min(x->job, good) > 0;
}

/* The line of the lowest rank that has one, on all ranks; false where none has. */
static bool share_line(struct rechecking *x, bool has, struct text *line)
{
    const int first = (int)job_min(x->job, has ? x->job->rank : x->job->size);
    if (first >= x->job->size) return false;
    job_broadcast_text(x->job, line, first);
    return true;
}

/* --- what was recorded --- */

/* An array of rank 0's on all ranks. */
static void *share(struct rechecking *x, void *data, size_t bytes)
{
    if (x->job->rank != 0) data = allocate(bytes, 1);
    job_broadcast(x->job, data, bytes, 0);
    return data;
}

static void share_recorded(struct rechecking *x)
{
    struct recorded *r = &x->run;
    job_broadcast(x->job, &r->facts, sizeof r->facts, 0);
    struct text deck = { 0 };
    text_add(&deck, "%s", r->deck ? r->deck : "");
    job_broadcast_text(x->job, &deck, 0);
    free(r->deck);
    r->deck = deck.data;
    uint64_t lines = r->lines;
    job_broadcast(x->job, &lines, sizeof lines, 0);
    r->lines = (size_t)lines;
    r->by = share(x, r->by, (size_t)r->facts.ranks * sizeof *r->by);
    r->rank_of_layer = share(x, r->rank_of_layer, (size_t)r->facts.model.layers * sizeof *r->rank_of_layer);
    r->line = share(x, r->line, r->lines * sizeof *r->line);
}

/* False where there is nothing more to do: the run cannot be read, or its files have problems. */
static bool read_recorded(struct rechecking *x)
{
    struct text error = { 0 };
    struct stat status;
    bool good = true, sound = true;
    if (x->job->rank == 0) {
        if (stat(x->directory, &status) != 0 || !S_ISDIR(status.st_mode)) {
            text_add(&error, "'%s': must be the output directory of a run", x->directory);
            good = false;
        } else {
            good = recorded_read(&x->run, x->directory, &error);
        }
        if (good) {
            directory_prepare(x->directory, "recheck.json");
            x->written = true;
            sound = x->run.problems.length == 0;
        } else {
            fprintf(stderr, "pipeleaf: error: %s\n", error.data);
            text_add(&x->explanation, "%s\n", error.data);
            x->code = EXIT_FAILED;
        }
        if (!sound) {
            text_add(&x->explanation, "%s", x->run.problems.data);
            text_add(&x->explanation, "nothing was computed again\n");
            x->verdict = UNSUCCESSFUL;
        }
    }
    text_free(&error);
    good = all_agree(x, good && sound);
    if (good) share_recorded(x);
    return good;
}

/* --- what is to be done --- */

/* Overrides say where it is computed, and nothing of what. */
static bool are_overrides_fit(const struct words *words, struct text *error)
{
    static const char *const fit[] = { "run.device", "run.threads", "run.timeout" };
    for (int i = 0; words && i < words->override_count; i++) {
        const char *override = words->overrides[i];
        const size_t length = strcspn(override, "=");
        bool known = false;
        for (size_t k = 0; k < sizeof fit / sizeof *fit; k++)
            known = known || (strlen(fit[k]) == length && strncasecmp(fit[k], override, length) == 0);
        if (known) continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)length, override);
        const char *near = nearest_name(name, fit, sizeof fit / sizeof *fit);
        text_add(error,
            "override '%s': recheck takes run.device, run.threads and run.timeout; all else is the run's; "
            "the "
            "nearest is %s",
            override, near ? near : fit[0]);
        return false;
    }
    return true;
}

static bool is_same_model(const struct model *a, const struct model *b)
{
    return a->layers == b->layers && a->hidden == b->hidden && a->heads == b->heads && a->ffn == b->ffn &&
           a->sequence == b->sequence && a->microbatches == b->microbatches &&
           a->microbatch_size == b->microbatch_size && a->seed == b->seed;
}

/* One line on why the run cannot be computed again, or false. */
static bool is_impossible(struct rechecking *x, struct text *why)
{
    char identity[65];
    deck_identity(&x->deck, identity);
    if (strcmp(x->deck.run.device, "rehearsal") == 0)
        text_add(why, "the run was a rehearsal: it computed nothing");
    else if (x->reporting.activations == DATA_NONE)
        text_add(why,
            "the run kept nothing of its chunks' boundaries: output.activations='%s'; it must be 'boundary' "
            "or "
            "'full', the nearest is 'boundary'",
            x->deck.output.activations);
    else if (!x->reporting.digest_gradients)
        text_add(why, "the run kept nothing of its gradients: output.gradients='none'; it must be 'digest' "
                      "or 'full', the "
                      "nearest is 'digest'");
    else if (strcmp(identity, x->run.facts.identity) != 0)
        text_add(why,
            "this program makes identity %.16s of the run's deck, and the run says %.16s: it was made by a "
            "version "
            "with other bits",
            identity, x->run.facts.identity);
    else if (!is_same_model(&x->model, &x->run.facts.model) ||
             setup_steps(&x->deck) != x->run.facts.recorded_step)
        text_add(why, "what the run's files say of its model and steps is not what their deck says");
    return why->length > 0;
}

/* The ranks of the chunks: of their layers; a chunk without layers is where something arrived. False with one
   line in *error. */
static bool place_chunks(struct rechecking *x, struct text *error)
{
    const int ranks = x->run.facts.ranks;
    bool all = true, good = true;
    x->partition = setup_partition(&x->deck, ranks);
    const int chunks = x->partition.chunks;
    x->rank_of = allocate((size_t)chunks, sizeof *x->rank_of);
    x->checker_of = allocate((size_t)chunks, sizeof *x->checker_of);
    for (int chunk = 0; chunk < chunks; chunk++) {
        const int first = x->partition.first[chunk], end = x->partition.first[chunk + 1];
        x->rank_of[chunk] = first < end ? x->run.rank_of_layer[first] : -1;
        all = all && first < end;
        for (int layer = first; layer < end && good; layer++) {
            good = x->run.rank_of_layer[layer] == x->rank_of[chunk];
            if (!good)
                text_add(error, "layer %d of chunk %d is said to be of rank %d, layer %d of rank %d", layer,
                    chunk, x->run.rank_of_layer[layer], first, x->rank_of[chunk]);
        }
    }
    if (!all && good && x->job->rank == 0)
        good = recorded_place(x->directory, ranks, chunks, x->rank_of, error);
    job_broadcast(x->job, x->rank_of, (size_t)chunks * sizeof *x->rank_of, 0);
    for (int chunk = 0; chunk < chunks; chunk++)
        if (x->rank_of[chunk] < 0)
            x->rank_of[chunk] = chunk % ranks; /* nothing has arrived there: it is missing */
    return all_agree(x, good);
}

/* The run's deck, and what comes of it. False, with the verdict and why, where it cannot be computed again.
 */
static bool understand(struct rechecking *x)
{
    struct text line = { 0 };
    const char *const source = "the run's deck";
    bool good = deck_read(&x->deck, source, x->run.deck, strlen(x->run.deck),
        x->words ? x->words->override_count : 0, x->words ? x->words->overrides : NULL, &line);
    x->has_deck = good;
    if (good) { /* what carried the run's messages is not needed here, and may be absent */
        strcpy(x->deck.run.transport, "auto");
        x->deck.run.share_device = false;
    }
    good = good && deck_check(&x->deck, x->run.facts.ranks, &line);
    if (!good) {
        if (x->job->rank == 0) fprintf(stderr, "pipeleaf: error: %s\n", line.data);
        x->code = EXIT_FAILED;
    } else {
        x->model = setup_model(&x->deck);
        x->reporting = setup_reporting(&x->deck);
        if (x->words) x->timeout = x->deck.run.timeout;
        good = !is_impossible(x, &line);
        if (!good) x->verdict = NOT_PERFORMED;
    }
    if (good && !(good = place_chunks(x, &line))) {
        share_line(x, line.length > 0, &line);
        x->verdict = UNSUCCESSFUL;
    }
    if (!good) text_add(&x->explanation, "%s\n", line.data);
    text_free(&line);
    return good;
}

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
    if (sched_getaffinity(0, sizeof mine.cpus, &mine.cpus) != 0) CPU_SET(0, &mine.cpus);
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

enum verdict recheck_of_run(struct job *job, struct device *device, const char *directory, double timeout,
    struct text *explanation, int *wrong_rank)
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
    const enum verdict verdict = x.verdict;
    const bool computed =
        x.count > 0 && (x.finding[0].fault == FAULT_COMPUTED || x.finding[0].fault == FAULT_NAN);
    *wrong_rank = verdict == UNSUCCESSFUL && computed ? x.finding[0].rank : -1;
    free_all(&x);
    return verdict;
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
