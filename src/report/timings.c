#include "report/timings.h"
#include "report/attributes.h"
#include "report/names.h"
#include "report/listing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one rank's file holds. */
struct rank_file {
    struct facts facts;
    struct action_record *action;
    struct step_record *step;
    size_t actions, steps;
};

/* Letters stand for the kinds in the file: HDF5 brings them to our numbers. */
static hid_t kind_type(void)
{
    const hid_t type = H5Tenum_create(H5T_NATIVE_INT32);
    for (int32_t kind = 0; type >= 0 && kind < COMPUTE_KINDS; kind++) {
        const char letter[2] = { compute_letter[kind], 0 };
        H5Tenum_insert(type, letter, &kind);
    }
    return type;
}

static bool read_rank(struct rank_file *rank, const char *path, struct text *error)
{
    struct text why = { 0 };
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) {
        text_add(error, "cannot open '%s': ", path);
        hdf5_why(error);
        return false;
    }
    bool good = attributes_read(file, &rank->facts, &why);
    if (!good) text_add(error, "'%s': %s", path, why.data);
    text_free(&why);
    if (good) {
        const hid_t kind = kind_type();
        const struct hdf5_member action[] = {
            { "step", offsetof(struct action_record, step), H5T_NATIVE_INT32 },
            { "kind", offsetof(struct action_record, kind), kind },
            { "chunk", offsetof(struct action_record, chunk), H5T_NATIVE_INT32 },
            { "microbatch", offsetof(struct action_record, microbatch), H5T_NATIVE_INT32 },
            { "start", offsetof(struct action_record, start), H5T_NATIVE_DOUBLE },
            { "end", offsetof(struct action_record, end), H5T_NATIVE_DOUBLE },
            { "waited", offsetof(struct action_record, waited), H5T_NATIVE_DOUBLE },
        };
        const struct hdf5_member step[] = {
            { "step", offsetof(struct step_record, step), H5T_NATIVE_INT32 },
            { "timed", offsetof(struct step_record, timed), H5T_NATIVE_INT32 },
            { "seconds", offsetof(struct step_record, seconds), H5T_NATIVE_DOUBLE },
        };
        rank->action = hdf5_records(file, "timings/actions", action, sizeof action / sizeof *action,
            sizeof *rank->action, &rank->actions);
        rank->step = hdf5_records(
            file, "timings/steps", step, sizeof step / sizeof *step, sizeof *rank->step, &rank->steps);
        good = rank->action && rank->step;
        if (!good) {
            text_add(error, "cannot read the timings of '%s': ", path);
            hdf5_why(error);
        }
        H5Tclose(kind);
    }
    H5Fclose(file);
    return good;
}

static void free_ranks(struct rank_file *rank, int ranks)
{
    for (int r = 0; r < ranks; r++) {
        facts_free(&rank[r].facts);
        free(rank[r].action);
        free(rank[r].step);
    }
    free(rank);
}

/* Numbers of chunks and microbatches that exist, so that they can be indices; and of steps in their order. */
static bool are_actions_possible(const struct rank_file *rank, const struct timings *timings)
{
    for (size_t i = 0; i < rank->actions; i++) {
        const struct action_record *a = &rank->action[i];
        if (a->kind < 0 || a->kind >= COMPUTE_KINDS || a->chunk < 0 || a->chunk >= timings->chunks ||
            a->microbatch < 0 || a->microbatch >= timings->model.microbatches ||
            (i > 0 && a->step < a[-1].step))
            return false;
    }
    return true;
}

/* The files of all ranks: NULL with one line in *error. Sets what timings says of the run. */
static struct rank_file *read_ranks(struct timings *timings, const char *directory, struct text *error)
{
    struct rank_file *rank = NULL;
    int ranks = 1, read = 0;
    bool good = true;
    for (; good && read < ranks; read++) {
        char name[32];
        snprintf(name, sizeof name, "rank%05d.h5", read);
        char *path = join_path(directory, name);
        struct rank_file one = { 0 };
        good = read_rank(&one, path, error);
        if (good && read == 0) {
            timings->model = one.facts.model;
            timings->ranks = ranks = one.facts.ranks;
            timings->chunks = one.facts.ranks * one.facts.chunks_per_rank;
            timings->deck = copy_text(one.facts.deck);
            good = ranks > 0 && timings->chunks > 0;
            if (good) rank = allocate((size_t)ranks, sizeof *rank);
        }
        if (rank) rank[read] = one;
        if (good && strcmp(one.facts.run_id, rank[0].facts.run_id) != 0) {
            text_add(error, "'%s' is of run %s, the file of rank 0 of run %s: all must be of one run", path,
                one.facts.run_id, rank[0].facts.run_id);
            good = false;
        } else if (!good || !are_actions_possible(&one, timings)) {
            if (error->length == 0) text_add(error, "'%s': its timings are of no run", path);
            good = false;
        }
        if (!rank) {
            facts_free(&one.facts);
            free(one.action);
            free(one.step);
        }
        free(path);
    }
    if (good) return rank;
    if (rank) free_ranks(rank, read);
    return NULL;
}

static bool is_timed(const struct rank_file *rank, int32_t step)
{
    for (size_t i = 0; i < rank->steps; i++)
        if (rank->step[i].step == step) return rank->step[i].timed != 0;
    return false;
}

/* Each timed step's seconds, of the slowest rank. */
static void collect_steps(struct timings *timings, const struct rank_file *rank)
{
    timings->step = allocate(rank[0].steps, sizeof *timings->step);
    for (size_t i = 0; i < rank[0].steps; i++) {
        if (!rank[0].step[i].timed) continue;
        double slowest = 0;
        for (int r = 0; r < timings->ranks; r++)
            for (size_t k = 0; k < rank[r].steps; k++)
                if (rank[r].step[k].step == rank[0].step[i].step)
                    slowest = fmax(slowest, rank[r].step[k].seconds);
        timings->step[timings->steps++] = slowest;
    }
}

/* Mean seconds of each chunk and kind over the timed steps. */
static void collect_means(struct timings *timings, const struct rank_file *rank)
{
    const size_t chunks = (size_t)timings->chunks;
    size_t *seen = allocate(COMPUTE_KINDS * chunks, sizeof *seen);
    for (int r = 0; r < timings->ranks; r++) {
        int32_t step = -1;
        bool timed = false;
        for (size_t i = 0; i < rank[r].actions; i++) {
            const struct action_record *a = &rank[r].action[i];
            if (i == 0 || a->step != step) timed = is_timed(&rank[r], a->step);
            step = a->step;
            if (!timed) continue;
            if (!timings->seconds[a->kind])
                timings->seconds[a->kind] = allocate(chunks, sizeof *timings->seconds[0]);
            timings->seconds[a->kind][a->chunk] += a->end - a->start;
            seen[(size_t)a->kind * chunks + (size_t)a->chunk]++;
        }
    }
    for (int kind = 0; kind < COMPUTE_KINDS; kind++)
        for (size_t c = 0; timings->seconds[kind] && c < chunks; c++)
            if (seen[(size_t)kind * chunks + c])
                timings->seconds[kind][c] /= (double)seen[(size_t)kind * chunks + c];
    free(seen);
}

/* Where the output of one step's compute is noted: F one after the other, then what gives gradients. */
static size_t output_index(const struct timings *timings, int direction, int chunk, int microbatch)
{
    return ((size_t)direction * (size_t)timings->chunks + (size_t)chunk) *
               (size_t)timings->model.microbatches +
           (size_t)microbatch;
}

static double median_hop(const struct timings *timings, const struct rank_file *rank)
{
    for (int r = 1; r < timings->ranks; r++)
        if (strcmp(rank[r].facts.host, rank[0].facts.host) != 0) return NAN;
    const size_t outputs = output_index(timings, 2, 0, 0);
    size_t *cursor = allocate((size_t)timings->ranks, sizeof *cursor), hops = 0, most = 0;
    for (int r = 0; r < timings->ranks; r++) most += rank[r].actions;
    double *end = allocate(outputs, sizeof *end), *hop = allocate(most, sizeof *hop);
    int *maker = allocate(outputs, sizeof *maker);
    for (size_t s = 0; s < rank[0].steps; s++) {
        const int32_t step = rank[0].step[s].step;
        for (int pass = 0; pass < 2; pass++) { /* note all outputs, then look at who waited for them */
            for (int r = 0; r < timings->ranks; r++) {
                size_t i = cursor[r];
                for (; i < rank[r].actions && rank[r].action[i].step <= step; i++) {
                    const struct action_record *a = &rank[r].action[i];
                    const int direction = a->kind != COMPUTE_F;
                    if (a->step < step || a->kind == COMPUTE_W) continue;
                    if (pass == 0) {
                        const size_t output = output_index(timings, direction, a->chunk, a->microbatch);
                        end[output] = a->end;
                        maker[output] = r;
                        continue;
                    }
                    const int from = direction ? a->chunk + 1 : a->chunk - 1;
                    if (from < 0 || from >= timings->chunks || !rank[0].step[s].timed || a->waited <= 0)
                        continue;
                    const size_t input = output_index(timings, direction, from, a->microbatch);
                    if (maker[input] != r && a->start > end[input]) hop[hops++] = a->start - end[input];
                }
                if (pass == 1) cursor[r] = i;
            }
        }
    }
    const double median = spread_of(hop, hops).median;
    free(cursor);
    free(end);
    free(hop);
    free(maker);
    return median;
}

bool timings_read(struct timings *timings, const char *directory, struct text *error)
{
    *timings = (struct timings){ .hop = NAN };
    hdf5_start();
    struct rank_file *rank = read_ranks(timings, directory, error);
    if (rank) {
        collect_steps(timings, rank);
        collect_means(timings, rank);
        timings->hop = median_hop(timings, rank);
        free_ranks(rank, timings->ranks);
    }
    const bool good = rank && timings->steps > 0 && timings->seconds[COMPUTE_F];
    if (rank && !good)
        text_add(error, "'%s': its files hold no timed step of a pipeline (a reference has none)", directory);
    if (!good) timings_free(timings);
    return good;
}

void timings_free(struct timings *timings)
{
    for (int kind = 0; kind < COMPUTE_KINDS; kind++) free(timings->seconds[kind]);
    free(timings->step);
    free(timings->deck);
    *timings = (struct timings){ .hop = NAN };
}
