#include "report/attributes.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { STRING, INTEGER, UNSIGNED };

/* Where a fact lies in struct facts and what it is called in a file: the deck's names where the deck has one.
 */
static const struct {
    const char *name;
    enum kind kind;
    size_t offset;
} fact[] = {
    { "kind", STRING, offsetof(struct facts, kind) },
    { "run_id", STRING, offsetof(struct facts, run_id) },
    { "identity", STRING, offsetof(struct facts, identity) },
    { "arithmetic", STRING, offsetof(struct facts, arithmetic) },
    { "deck", STRING, offsetof(struct facts, deck) },
    { "deck_sha256", STRING, offsetof(struct facts, deck_sha256) },
    { "host", STRING, offsetof(struct facts, host) },
    { "device", STRING, offsetof(struct facts, device) },
    { "device_uuid", STRING, offsetof(struct facts, device_uuid) },
    { "cpus", STRING, offsetof(struct facts, cpus) },
    { "compiler", STRING, offsetof(struct facts, compiler) },
    { "libraries", STRING, offsetof(struct facts, libraries) },
    { "ranks", INTEGER, offsetof(struct facts, ranks) },
    { "chunks_per_rank", INTEGER, offsetof(struct facts, chunks_per_rank) },
    { "rank", INTEGER, offsetof(struct facts, rank) },
    { "threads", INTEGER, offsetof(struct facts, threads) },
    { "recorded_step", INTEGER, offsetof(struct facts, recorded_step) },
    { "layers", INTEGER, offsetof(struct facts, model.layers) },
    { "hidden", INTEGER, offsetof(struct facts, model.hidden) },
    { "heads", INTEGER, offsetof(struct facts, model.heads) },
    { "ffn", INTEGER, offsetof(struct facts, model.ffn) },
    { "sequence", INTEGER, offsetof(struct facts, model.sequence) },
    { "microbatches", INTEGER, offsetof(struct facts, model.microbatches) },
    { "microbatch_size", INTEGER, offsetof(struct facts, model.microbatch_size) },
    { "seed", UNSIGNED, offsetof(struct facts, model.seed) },
};
enum { FACTS = sizeof fact / sizeof fact[0] };

static hid_t string_type(void)
{
    const hid_t type = H5Tcopy(H5T_C_S1);
    if (type >= 0 && (H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)) {
        H5Tclose(type);
        return H5I_INVALID_HID;
    }
    return type;
}

/* An attribute of `count` values (0: a scalar). */
static bool put(hid_t file, const char *name, hid_t stored, hid_t memory, size_t count, const void *value)
{
    const hsize_t extent = count;
    const hid_t space = count ? H5Screate_simple(1, &extent, NULL) : H5Screate(H5S_SCALAR);
    const hid_t attribute =
        space < 0 ? H5I_INVALID_HID : H5Acreate2(file, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    bool good = attribute >= 0 && H5Awrite(attribute, memory, value) >= 0;
    if (attribute >= 0) good = H5Aclose(attribute) >= 0 && good;
    if (space >= 0) good = H5Sclose(space) >= 0 && good;
    return good;
}

static bool put_string(hid_t file, const char *name, const char *value)
{
    const hid_t type = string_type();
    const char *text = value ? value : "";
    bool good = type >= 0 && put(file, name, type, type, 0, &text);
    if (type >= 0) good = H5Tclose(type) >= 0 && good;
    return good;
}

static bool put_int(hid_t file, const char *name, int value)
{
    return put(file, name, H5T_STD_I32LE, H5T_NATIVE_INT, 0, &value);
}

bool attributes_write(hid_t file, const struct facts *facts, struct text *error)
{
    bool good = put_string(file, "format", FILE_FORMAT_NAME) &&
                put_int(file, "format_version", FILE_FORMAT) &&
                put_string(file, "version", pipeleaf_version) && put_string(file, "commit", pipeleaf_commit);
    for (int i = 0; i < FACTS && good; i++) {
        const char *at = (const char *)facts + fact[i].offset;
        switch (fact[i].kind) {
        case STRING: good = put_string(file, fact[i].name, *(const char *const *)(const void *)at); break;
        case INTEGER: good = put_int(file, fact[i].name, *(const int *)(const void *)at); break;
        case UNSIGNED: good = put(file, fact[i].name, H5T_STD_U64LE, H5T_NATIVE_UINT64, 0, at); break;
        }
    }
    if (good && facts->rank_of_layer)
        good = put(file, "rank_of_layer", H5T_STD_I32LE, H5T_NATIVE_INT, (size_t)facts->model.layers,
            facts->rank_of_layer);
    if (!good) hdf5_why(error);
    return good;
}

/* The attribute's value into *value, which has room for `count` of the memory type. */
static bool get(hid_t file, const char *name, hid_t memory, size_t count, void *value)
{
    const hid_t attribute = H5Aopen(file, name, H5P_DEFAULT);
    if (attribute < 0) return false;
    const hid_t space = H5Aget_space(attribute);
    bool good = space >= 0 && H5Sget_simple_extent_npoints(space) == (hssize_t)count &&
                H5Aread(attribute, memory, value) >= 0;
    if (space >= 0) H5Sclose(space);
    H5Aclose(attribute);
    return good;
}

/* A copy by malloc of a string attribute, or NULL. */
static char *get_string(hid_t file, const char *name)
{
    const hid_t type = string_type();
    char *stored = NULL, *copy = NULL;
    if (type >= 0 && get(file, name, type, 1, &stored) && stored) {
        const size_t length = strlen(stored);
        copy = memcpy(allocate(length + 1, 1), stored, length);
    }
    if (stored) H5free_memory(stored);
    if (type >= 0) H5Tclose(type);
    return copy;
}

static bool is_format_known(hid_t file, struct text *error)
{
    int version = 0;
    char *format = get_string(file, "format");
    const bool ours = format && !strcmp(format, FILE_FORMAT_NAME) &&
                      get(file, "format_version", H5T_NATIVE_INT, 1, &version);
    free(format);
    H5Eclear2(H5E_DEFAULT);
    if (!ours)
        text_add(error,
            "it has no attributes 'format' = '%s' and 'format_version': it was not written by pipeleaf",
            FILE_FORMAT_NAME);
    else if (version != FILE_FORMAT)
        text_add(error, "its format version is %d: this program reads %d", version, FILE_FORMAT);
    return ours && version == FILE_FORMAT;
}

bool attributes_read(hid_t file, struct facts *facts, struct text *error)
{
    *facts = (struct facts){ 0 };
    if (!is_format_known(file, error)) return false;
    for (int i = 0; i < FACTS; i++) {
        void *at = (char *)facts + fact[i].offset;
        bool good = false;
        switch (fact[i].kind) {
        case STRING: good = (*(char **)at = get_string(file, fact[i].name)) != NULL; break;
        case INTEGER: good = get(file, fact[i].name, H5T_NATIVE_INT, 1, at); break;
        case UNSIGNED: good = get(file, fact[i].name, H5T_NATIVE_UINT64, 1, at); break;
        }
        if (good) continue;
        text_add(error, "its attribute '%s' cannot be read: ", fact[i].name);
        hdf5_why(error);
        facts_free(facts);
        return false;
    }
    if (H5Aexists(file, "rank_of_layer") > 0 && facts->model.layers > 0) {
        int *rank = allocate((size_t)facts->model.layers, sizeof *rank);
        if (get(file, "rank_of_layer", H5T_NATIVE_INT, (size_t)facts->model.layers, rank))
            facts->rank_of_layer = rank;
        else
            free(rank);
    }
    H5Eclear2(H5E_DEFAULT);
    return true;
}

void facts_free(struct facts *facts)
{
    for (int i = 0; i < FACTS; i++)
        if (fact[i].kind == STRING) free(*(char **)(void *)((char *)facts + fact[i].offset));
    free((int *)(uintptr_t)facts->rank_of_layer);
    *facts = (struct facts){ 0 };
}
