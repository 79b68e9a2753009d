#include "report/tensor_file.h"
#include "report/attributes.h"
#include "report/names.h"
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Any tensor as planes of rows: [1, 1, length], [1, rows, columns] or [planes, rows, columns]. */
struct shape {
    int rank;
    size_t planes, rows, columns;
};

static struct shape shape_of(const struct model *model, struct tensor tensor)
{
    size_t extents[3] = { 0 };
    const int rank = tensor_extents(model, tensor, extents);
    switch (rank) {
    case 1: return (struct shape){ rank, 1, 1, extents[0] };
    case 2: return (struct shape){ rank, 1, extents[0], extents[1] };
    default: return (struct shape){ rank, extents[0], extents[1], extents[2] };
    }
}

size_t tensor_block(const struct model *model, struct tensor tensor, size_t first)
{
    const struct shape s = shape_of(model, tensor);
    if (first >= s.planes * s.rows * s.columns) return 0;
    const size_t left_in_plane = s.rows - first / s.columns % s.rows;
    size_t rows = TENSOR_BLOCK / s.columns;
    if (rows == 0) rows = 1;
    return (rows < left_in_plane ? rows : left_in_plane) * s.columns;
}

size_t tensor_block_limit(const struct model *model, struct tensor tensor)
{
    const struct shape s = shape_of(model, tensor);
    return s.columns > TENSOR_BLOCK            ? s.columns
           : s.rows < TENSOR_BLOCK / s.columns ? s.rows * s.columns
                                               : TENSOR_BLOCK;
}

bool tensor_file_read(struct tensor_file *file, struct tensor tensor, size_t first, size_t count, float *data,
    struct text *error)
{
    char name[TENSOR_NAME];
    tensor_name(tensor, name);
    if (file->dataset < 0 || tensor_compare(file->open, tensor)) {
        if (file->dataset >= 0) H5Dclose(file->dataset);
        file->dataset = H5Dopen2(file->file, name, H5P_DEFAULT);
        file->open = tensor;
    }
    const struct shape s = shape_of(&file->facts.model, tensor);
    const size_t row = first / s.columns;
    hsize_t start[3] = { row / s.rows, row % s.rows, 0 }, extent[3] = { 1, count / s.columns, s.columns };
    const hsize_t elements = count;
    const hid_t here = H5Screate_simple(1, &elements, NULL);
    const hid_t there = file->dataset < 0 ? H5I_INVALID_HID : H5Dget_space(file->dataset);
    /* A vector or a matrix has no planes, a vector no rows: their selection begins further back in the lists.
     */
    const int skip = 3 - s.rank;
    const bool good =
        here >= 0 && there >= 0 &&
        H5Sselect_hyperslab(there, H5S_SELECT_SET, start + skip, NULL, extent + skip, NULL) >= 0 &&
        H5Dread(file->dataset, H5T_NATIVE_FLOAT, here, there, H5P_DEFAULT, data) >= 0;
    if (!good) {
        text_add(error, "cannot read %s of '%s': ", name, file->path);
        hdf5_why(error);
    }
    if (here >= 0) H5Sclose(here);
    if (there >= 0) H5Sclose(there);
    return good;
}

/* The walk over a file's links. */
struct listing {
    struct tensor_file *file;
    struct text *error;
};

static void add_name(char ***list, size_t *count, const char *name)
{
    for (size_t i = 0; i < *count; i++)
        if (!strcmp((*list)[i], name)) return;
    *list = realloc(*list, (*count + 1) * sizeof **list);
    if (!*list) fail("out of memory: %zu names", *count + 1);
    (*list)[(*count)++] = copy_text(name);
}

/* Whether the data set has the type and the extents that its name and the model ask for; else false with one
   line in *error. */
static bool is_tensor(
    const struct tensor_file *file, hid_t dataset, struct tensor tensor, const char *name, struct text *error)
{
    size_t extents[3];
    hsize_t extent[3] = { 0 };
    const int rank = tensor_extents(&file->facts.model, tensor, extents);
    const hid_t space = H5Dget_space(dataset), type = H5Dget_type(dataset);
    bool good = space >= 0 && type >= 0 && H5Tget_class(type) == H5T_FLOAT &&
                H5Tget_size(type) == sizeof(float) && H5Sget_simple_extent_ndims(space) == rank &&
                H5Sget_simple_extent_dims(space, extent, NULL) == rank;
    for (int i = 0; i < rank && good; i++) good = extent[i] == extents[i];
    if (space >= 0) H5Sclose(space);
    if (type >= 0) H5Tclose(type);
    if (!good) {
        text_add(error, "'%s': %s must be f32 [", file->path, name);
        for (int i = 0; i < rank; i++) text_add(error, "%s%zu", i ? "," : "", extents[i]);
        text_add(error, "]");
    }
    return good;
}

static bool add_tensor(struct listing *listing, hid_t dataset, struct tensor tensor, const char *name)
{
    struct tensor_file *file = listing->file;
    if (!is_tensor(file, dataset, tensor, name, listing->error)) return false;
    if ((file->count & (file->count + 1)) == 0) { /* full at 0, 1, 3, 7, ... */
        file->tensor = realloc(file->tensor, 2 * (file->count + 1) * sizeof *file->tensor);
        if (!file->tensor) fail("out of memory: %zu tensors", 2 * (file->count + 1));
    }
    file->tensor[file->count++] = tensor;
    return true;
}

static bool visit_external(struct listing *listing, hid_t group, const char *name)
{
    H5L_info_t info;
    if (H5Lget_info(group, name, &info, H5P_DEFAULT) < 0) return false;
    char *value = allocate(info.u.val_size + 1, 1);
    const char *target = NULL;
    const bool good = H5Lget_val(group, name, value, info.u.val_size, H5P_DEFAULT) >= 0 &&
                      H5Lunpack_elink_val(value, info.u.val_size, NULL, &target, NULL) >= 0;
    if (good) {
        /* The target is relative to the file that links to it. */
        struct text path = { 0 };
        const char *slash = strrchr(listing->file->path, '/');
        if (target[0] != '/' && slash)
            text_add(&path, "%.*s", (int)(slash + 1 - listing->file->path), listing->file->path);
        text_add(&path, "%s", target);
        add_name(&listing->file->linked, &listing->file->links, path.data);
        text_free(&path);
    }
    free(value);
    return good;
}

static herr_t visit(hid_t group, const char *name, const H5L_info_t *info, void *context)
{
    struct listing *listing = context;
    if (info->type == H5L_TYPE_EXTERNAL) return visit_external(listing, group, name) ? 0 : -1;
    if (!strncmp(name, "timings", 7) || !strcmp(name, "received") || !strcmp(name, "memory")) return 0;
    const hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    if (object < 0) return -1;
    herr_t result = 0;
    if (H5Iget_type(object) == H5I_DATASET) {
        struct tensor tensor;
        if (!tensor_parse(name, &tensor) || !tensor_exists(&listing->file->facts.model, tensor))
            add_name(&listing->file->stranger, &listing->file->strangers, name);
        else if (!add_tensor(listing, object, tensor, name))
            result = -1;
    }
    H5Oclose(object);
    return result;
}

static bool is_model_possible(const struct model *m)
{
    return m->layers > 0 && m->hidden > 0 && m->heads > 0 && m->ffn > 0 && m->sequence > 0 &&
           m->microbatches > 0 && m->microbatch_size > 0;
}

static bool open_file(struct tensor_file **opened, const char *path, bool listed, struct text *error)
{
    hdf5_start();
    struct text why = { 0 };
    struct tensor_file *file = allocate(1, sizeof *file);
    file->path = copy_text(path);
    file->dataset = -1;
    file->file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    bool good = file->file >= 0;
    if (!good) {
        text_add(error, "cannot open '%s': ", path);
        hdf5_why(error);
    } else if (!attributes_read(file->file, &file->facts, &why)) {
        text_add(error, "'%s': %s", path, why.data);
        good = false;
    } else if (!is_model_possible(&file->facts.model)) {
        text_add(error, "'%s': its attributes describe no model", path);
        good = false;
    } else if (listed) {
        struct listing listing = { file, error };
        const size_t said = error->length;
        good = H5Lvisit(file->file, H5_INDEX_NAME, H5_ITER_NATIVE, visit, &listing) >= 0;
        if (!good && error->length == said) {
            text_add(error, "cannot list '%s': ", path);
            hdf5_why(error);
        }
        H5Eclear2(H5E_DEFAULT);
    }
    text_free(&why);
    if (good)
        *opened = file;
    else
        tensor_file_close(file);
    return good;
}

bool tensor_file_open(struct tensor_file **opened, const char *path, struct text *error)
{
    return open_file(opened, path, true, error);
}

bool tensor_file_open_unlisted(struct tensor_file **opened, const char *path, struct text *error)
{
    return open_file(opened, path, false, error);
}

/* Whether every link of the path is there; HDF5 must be asked for each in turn. */
static bool has_path(hid_t file, const char *name)
{
    char path[TENSOR_NAME];
    snprintf(path, sizeof path, "%s", name);
    for (char *at = path;; at++) {
        const char here = *at;
        if (here && here != '/') continue;
        *at = 0;
        if (H5Lexists(file, path, H5P_DEFAULT) <= 0) return false;
        *at = here;
        if (!here) return true;
    }
}

bool tensor_file_has(struct tensor_file *file, struct tensor tensor, struct text *error)
{
    char name[TENSOR_NAME];
    if (!has_path(file->file, tensor_name(tensor, name))) return false;
    const hid_t dataset = H5Dopen2(file->file, name, H5P_DEFAULT);
    if (dataset < 0) {
        text_add(error, "cannot read %s of '%s': ", name, file->path);
        hdf5_why(error);
        return false;
    }
    const bool good = is_tensor(file, dataset, tensor, name, error);
    H5Dclose(dataset);
    return good;
}

struct arrival *tensor_file_arrivals(struct tensor_file *file, size_t *count)
{
    const struct hdf5_member member[] = {
        { "is_gradient", offsetof(struct arrival, is_gradient), H5T_NATIVE_INT32 },
        { "chunk", offsetof(struct arrival, chunk), H5T_NATIVE_INT32 },
        { "microbatch", offsetof(struct arrival, microbatch), H5T_NATIVE_INT32 },
        { "sum", offsetof(struct arrival, digest.sum), H5T_NATIVE_UINT64 },
        { "weighted", offsetof(struct arrival, digest.weighted), H5T_NATIVE_UINT64 },
        { "nan", offsetof(struct arrival, digest.nan), H5T_NATIVE_UINT64 },
        { "absmax", offsetof(struct arrival, digest.absmax), H5T_NATIVE_FLOAT },
    };
    struct arrival *list =
        hdf5_records(file->file, "received", member, sizeof member / sizeof *member, sizeof *list, count);
    H5Eclear2(H5E_DEFAULT);
    return list;
}

void tensor_file_close(struct tensor_file *file)
{
    if (!file) return;
    if (file->dataset >= 0) H5Dclose(file->dataset);
    if (file->file >= 0) H5Fclose(file->file);
    for (size_t i = 0; i < file->strangers; i++) free(file->stranger[i]);
    for (size_t i = 0; i < file->links; i++) free(file->linked[i]);
    free(file->stranger);
    free(file->linked);
    free(file->tensor);
    facts_free(&file->facts);
    free(file->path);
    free(file);
}
