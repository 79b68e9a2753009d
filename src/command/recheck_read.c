/* What a recheck reads: the run that was recorded, and what of it is to be computed again. */
#include "command/recheck_state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool are_overrides_fit(const struct words *words, struct text *error)
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

bool all_agree(struct rechecking *x, bool good)
{
    return job_min(x->job, good) > 0;
}

bool share_line(struct rechecking *x, bool has, struct text *line)
{
    const int first = (int)job_min(x->job, has ? x->job->rank : x->job->size);
    if (first >= x->job->size) return false;
    job_broadcast_text(x->job, line, first);
    return true;
}

void *share(struct rechecking *x, void *data, size_t bytes)
{
    if (x->job->rank != 0) data = allocate(bytes, 1);
    job_broadcast(x->job, data, bytes, 0);
    return data;
}

/* --- what was recorded --- */

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

bool read_recorded(struct rechecking *x)
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

bool understand(struct rechecking *x)
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
