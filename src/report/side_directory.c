#include "report/names.h"
#include "report/side.h"
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the two kinds of output in a directory are called. */
static const struct output_names {
    const char *role, *digests, *whole, *result;
} names_of[] = {
    { "run", "digest.txt", "run.h5", "result.json" },
    { "reference", "reference.digest", "reference.h5", "reference.json" },
};

/* The rank in "rank00012.h5", or -1. */
static int rank_of_name(const char *name)
{
    int rank, used = 0;
    char again[32];
    if (sscanf(name, "rank%9d.h5%n", &rank, &used) != 1 || rank < 0) return -1;
    snprintf(again, sizeof again, "rank%05d.h5", rank);
    return strcmp(again, name) ? -1 : rank;
}

/* All rank files of the directory; all ranks must have one, and no others be there. */
static bool add_rank_files(
    struct side *side, const char *directory, char *const *name, size_t count, struct text *error)
{
    int ranks = 0;
    bool *seen = NULL, good = true;
    for (size_t i = 0; i < count && good; i++) {
        const int rank = rank_of_name(name[i]);
        if (rank < 0) continue;
        const struct tensor_file *file;
        char *path = join_path(directory, name[i]);
        good = side_add_hdf5(side, path, &file, error);
        free(path);
        if (!good) break;
        if (!seen) {
            ranks = file->facts.ranks;
            seen = allocate((size_t)(ranks > 0 ? ranks : 0), sizeof *seen);
        }
        if (file->facts.rank != rank || file->facts.ranks != ranks || rank >= ranks)
            side_problem(side, "%s says that it is of rank %d of %d: it does not belong here", name[i],
                file->facts.rank, file->facts.ranks);
        else
            seen[rank] = true;
    }
    for (int rank = 0; rank < ranks && good; rank++)
        if (!seen[rank]) side_problem(side, "rank%05d.h5 is missing: the run had %d ranks", rank, ranks);
    free(seen);
    return good;
}

/* The result names the run and lists its files. Those that hold tensors or digests must be there; a listing
   or a timeline proves nothing. */
static bool check_result_file(
    struct side *side, const struct output_names *names, const char *directory, struct text *error)
{
    if (!is_there(directory, names->result)) return true;
    char *path = join_path(directory, names->result);
    json_error_t why;
    json_t *result = json_load_file(path, 0, &why);
    if (!result) {
        text_add(error, "%s:%d: %s", path, why.line, why.text);
    } else {
        const char *run_id = json_string_value(json_object_get(result, "run_id"));
        if (!run_id || strcmp(run_id, side->run_id))
            side_problem(side, "files of different runs: %s is of run %s, the others are of run %s",
                names->result, run_id ? run_id : "(none)", side->run_id);
        size_t i;
        json_t *file;
        json_array_foreach(json_object_get(result, "files"), i, file)
        {
            const char *listed = json_string_value(file);
            const bool proves = listed && (has_ending(listed, ".h5") || !strcmp(listed, names->digests));
            if (proves && !is_there(directory, listed))
                side_problem(side, "%s is missing: %s lists it", listed, names->result);
        }
        json_decref(result);
    }
    free(path);
    return result != NULL;
}

static bool is_output_there(
    const struct output_names *names, const char *directory, char *const *name, size_t count)
{
    if (is_there(directory, names->digests) || is_there(directory, names->whole)) return true;
    for (size_t i = 0; i < count; i++)
        if (names == &names_of[0] && rank_of_name(name[i]) >= 0) return true;
    return false;
}

static bool add_output(struct side *side, const struct output_names *names, const char *directory,
    char *const *name, size_t count, struct text *error)
{
    const bool of_run = names == &names_of[0];
    bool good = true;
    if (is_there(directory, names->digests)) {
        char *path = join_path(directory, names->digests);
        good = side_add_digest_file(side, path, error);
        free(path);
    }
    if (good && of_run) {
        good = add_rank_files(side, directory, name, count, error);
        if (good && !side->files && is_there(directory, names->whole))
            side_problem(side, "%s is there, but no rank file", names->whole);
    } else if (good && is_there(directory, names->whole)) {
        char *path = join_path(directory, names->whole);
        good = side_add_hdf5(side, path, NULL, error);
        free(path);
    }
    /* What bears a temporary name was being written when its program ended. */
    for (size_t i = 0; i < count && good; i++)
        if (has_ending(name[i], ".part") && strncmp(name[i], "recheck.", 8) &&
            of_run == (strncmp(name[i], "reference.", 10) != 0))
            side_problem(side, "%s is there: the program that wrote it did not end well", name[i]);
    return good && check_result_file(side, names, directory, error);
}

/* True, with one line in *error, where the directory is that of a job of several pipelines: what lies in it
   is no run, and a reference beside them must not be taken for one. */
static bool holds_pipelines(const char *directory, struct text *error)
{
    if (!is_there(directory, names_of[0].result)) return false;
    char *path = join_path(directory, names_of[0].result);
    json_t *result = json_load_file(path, 0, NULL);
    const json_t *directories = json_object_get(result, "directories");
    const char *first = json_string_value(json_array_get(directories, 0));
    if (first)
        text_add(error,
            "'%s' holds a job of %zu pipelines, each a run of its own: give one of them, as in '%s/%s'",
            directory, json_array_size(directories), directory, first);
    json_decref(result);
    free(path);
    return first != NULL;
}

bool side_add_directory(struct side *side, const char *directory, const char *role, struct text *error)
{
    size_t count = 0;
    if (!strcmp(role, names_of[0].role) && holds_pipelines(directory, error)) return false;
    char **name = list_names(directory, &count, error);
    if (!name) return false;
    /* What the role asks for, else the other: two runs can be compared, too. */
    const int wanted = strcmp(role, names_of[0].role) != 0;
    bool good = false;
    if (is_output_there(&names_of[wanted], directory, name, count))
        good = add_output(side, &names_of[wanted], directory, name, count, error);
    else if (is_output_there(&names_of[!wanted], directory, name, count))
        good = add_output(side, &names_of[!wanted], directory, name, count, error);
    else
        text_add(error, "'%s' holds no output of pipeleaf: no %s, no rank00000.h5, no %s, no %s", directory,
            names_of[0].digests, names_of[1].digests, names_of[1].whole);
    free_names(name, count);
    return good;
}
