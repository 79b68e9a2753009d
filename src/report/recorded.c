#include "report/recorded.h"
#include "report/digest_order.h"
#include "report/names.h"
#include "report/side.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *rank_path(const char *directory, int rank)
{
    char name[32];
    snprintf(name, sizeof name, "rank%05d.h5", rank);
    return join_path(directory, name);
}

/* What is needed beyond what any side needs: who computed what. */
static void take_places(struct recorded *r, struct side *side)
{
    const struct facts *first = side->files > 0 ? &side->file[0]->facts : NULL;
    if (!first) {
        side_problem(side, "no rank file is there");
        return;
    }
    r->facts.ranks = first->ranks;
    r->facts.chunks_per_rank = first->chunks_per_rank;
    if (first->ranks < 1 || first->chunks_per_rank < 1) {
        side_problem(side, "its files say that it had %d ranks with %d chunks each", first->ranks,
            first->chunks_per_rank);
        return;
    }
    r->by = allocate((size_t)first->ranks, sizeof *r->by);
    for (int i = 0; i < side->files; i++) {
        const struct facts *facts = &side->file[i]->facts;
        if (facts->rank < 0 || facts->rank >= first->ranks) continue; /* a problem that is said already */
        struct computed_by *by = &r->by[facts->rank];
        snprintf(by->host, sizeof by->host, "%s", facts->host);
        snprintf(by->device, sizeof by->device, "%s", facts->device);
        snprintf(by->uuid, sizeof by->uuid, "%s", facts->device_uuid);
    }
    if (!side->rank_of_layer) {
        side_problem(side, "its files do not say which rank held which layer");
        return;
    }
    r->rank_of_layer = side->rank_of_layer;
    side->rank_of_layer = NULL;
    for (int layer = 0; layer < side->model.layers; layer++)
        if (r->rank_of_layer[layer] < 0 || r->rank_of_layer[layer] >= first->ranks)
            side_problem(side, "layer %d is said to be of rank %d, of %d ranks", layer,
                r->rank_of_layer[layer], first->ranks);
}

static void take_digests(struct recorded *r, struct side *side)
{
    char device[32];
    const bool rehearsal =
        side_deck_value(side, "device", device, sizeof device) && !strcmp(device, "rehearsal");
    if (!side->has_digests && !rehearsal) side_problem(side, "digest.txt is missing");
    r->line = allocate(side->count, sizeof *r->line);
    for (size_t i = 0; i < side->count; i++) {
        const struct entry *entry = &side->entry[i];
        if (entry->has_digest && entry->step == side->recorded_step)
            r->line[r->lines++] = (struct tensor_digest){ entry->step, entry->tensor, entry->digest };
    }
}

bool recorded_read(struct recorded *r, const char *directory, struct text *error)
{
    *r = (struct recorded){ 0 };
    struct side *side;
    if (!side_skim(&side, directory, error)) return false;
    snprintf(r->facts.run_id, sizeof r->facts.run_id, "%s", side->run_id);
    snprintf(r->facts.identity, sizeof r->facts.identity, "%s", side->identity);
    snprintf(r->facts.arithmetic, sizeof r->facts.arithmetic, "%s", side->arithmetic);
    r->facts.recorded_step = side->recorded_step;
    r->facts.model = side->model;
    take_places(r, side);
    take_digests(r, side);
    r->deck = side->deck;
    side->deck = NULL;
    r->problems = side->problems;
    side->problems = (struct text){ 0 };
    side_close(side);
    return true;
}

void recorded_free(struct recorded *r)
{
    free(r->deck);
    free(r->by);
    free(r->rank_of_layer);
    free(r->line);
    text_free(&r->problems);
}

const struct digest *recorded_digest(const struct recorded *r, struct tensor tensor)
{
    const struct tensor_digest wanted = { .step = r->facts.recorded_step, .tensor = tensor };
    const struct tensor_digest *found =
        r->lines ? bsearch(&wanted, r->line, r->lines, sizeof *r->line, digest_order) : NULL;
    return found ? &found->digest : NULL;
}

bool recorded_place(const char *directory, int ranks, int chunks, int *rank_of, struct text *error)
{
    bool good = true;
    for (int rank = 0; rank < ranks && good; rank++) {
        char *path = rank_path(directory, rank);
        struct tensor_file *file;
        good = tensor_file_open_unlisted(&file, path, error);
        free(path);
        if (!good) break;
        size_t count;
        struct arrival *arrival = tensor_file_arrivals(file, &count);
        for (size_t i = 0; i < count; i++)
            if (arrival[i].chunk >= 0 && arrival[i].chunk < chunks && rank_of[arrival[i].chunk] < 0)
                rank_of[arrival[i].chunk] = rank;
        free(arrival);
        tensor_file_close(file);
    }
    return good;
}

struct rank_files {
    char *directory;
    struct recorded_facts facts;
    struct tensor_file **file; /* [ranks] NULL: not open */
};

struct rank_files *rank_files_create(const char *directory, const struct recorded_facts *facts)
{
    struct rank_files *files = allocate(1, sizeof *files);
    *files = (struct rank_files){ .directory = copy_text(directory),
        .facts = *facts,
        .file = allocate((size_t)facts->ranks, sizeof(struct tensor_file *)) };
    return files;
}

struct tensor_file *rank_files_get(struct rank_files *files, int rank, struct text *error)
{
    if (files->file[rank]) return files->file[rank];
    char *path = rank_path(files->directory, rank);
    struct tensor_file *file = NULL;
    if (tensor_file_open_unlisted(&file, path, error)) {
        if (strcmp(file->facts.run_id, files->facts.run_id) || file->facts.rank != rank ||
            file->facts.model.hidden != files->facts.model.hidden ||
            file->facts.model.layers != files->facts.model.layers) {
            text_add(error, "'%s' is not the file any more that it was: of run %s, not %s", path,
                file->facts.run_id, files->facts.run_id);
            tensor_file_close(file);
            file = NULL;
        }
    }
    free(path);
    return files->file[rank] = file;
}

void rank_files_rest(struct rank_files *files)
{
    for (int rank = 0; rank < files->facts.ranks; rank++) {
        tensor_file_close(files->file[rank]);
        files->file[rank] = NULL;
    }
}

void rank_files_free(struct rank_files *files)
{
    if (!files) return;
    rank_files_rest(files);
    free(files->file);
    free(files->directory);
    free(files);
}
