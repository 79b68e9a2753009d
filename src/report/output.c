#include "report/attributes.h"
#include "report/names.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    PIECE = 8 << 20 /* bytes that the disk may be asked to begin with while the next are written */
};

struct output {
    hid_t file;
    char *path, *part; /* the final name, and the one until then */
    int descriptor;    /* of the same file, for the system's calls; -1: nothing here has to reach the disk */
    size_t unsent;     /* bytes that the disk was not asked for yet */
    struct model model;
    hid_t link;     /* property list of links: missing groups are made */
    hid_t creation; /* of datasets */
};

/* Ends the job, HDF5's reason in the line; what there is of the file goes, so that it cannot be taken for
   one. */
static _Noreturn void give_up(const struct output *output, const char *what)
{
    struct text why = { 0 };
    hdf5_why(&why);
    unlink(output->part);
    fail("%s '%s': %s", what, output->part, why.data);
}

static _Noreturn void system_failed(const struct output *output, const char *what)
{
    const int why = errno;
    unlink(output->part);
    fail("%s '%s': %s", what, output->part, strerror(why));
}

static hid_t need(const struct output *output, hid_t result, const char *what)
{
    if (result < 0) give_up(output, what);
    return result;
}

static void done(const struct output *output, herr_t result, const char *what)
{
    if (result < 0) give_up(output, what);
}

/* Formats of HDF5 1.8, which any reader of today knows. */
static hid_t file_access(const struct output *output)
{
    const hid_t access = need(output, H5Pcreate(H5P_FILE_ACCESS), "cannot create");
#if H5_VERSION_GE(1, 10, 2)
    done(output, H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18), "cannot create");
#endif
    /* Big tensors begin at pages, and metadata lies together: writing goes at the disk's rate. */
    done(output, H5Pset_alignment(access, 65536, 4096), "cannot create");
    done(output, H5Pset_meta_block_size(access, 65536), "cannot create");
    return access;
}

/* PATH.part, an empty file. */
static struct output *create_empty(const char *path, const struct facts *facts)
{
    hdf5_start();
    struct output *output = allocate(1, sizeof *output);
    struct text part = { 0 };
    text_add(&part, "%s.part", path);
    output->path = copy_text(path);
    output->part = part.data;
    output->descriptor = -1;
    output->model = facts->model;
    const hid_t access = file_access(output);
    output->file = H5Fcreate(output->part, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    need(output, output->file, "cannot create");
    done(output, H5Pclose(access), "cannot create");
    output->link = need(output, H5Pcreate(H5P_LINK_CREATE), "cannot create");
    done(output, H5Pset_create_intermediate_group(output->link, 1), "cannot create");
    /* Space is taken when the data comes and is not filled before: each byte is written once. */
    output->creation = need(output, H5Pcreate(H5P_DATASET_CREATE), "cannot create");
    done(output, H5Pset_layout(output->creation, H5D_CONTIGUOUS), "cannot create");
    done(output, H5Pset_alloc_time(output->creation, H5D_ALLOC_TIME_LATE), "cannot create");
    done(output, H5Pset_fill_time(output->creation, H5D_FILL_TIME_NEVER), "cannot create");
    return output;
}

struct output *output_create(const char *path, const struct facts *facts)
{
    struct output *output = create_empty(path, facts);
    /* Open from the beginning, so that fsync tells of every error that writing back has met since. */
    output->descriptor = open(output->part, O_RDONLY | O_CLOEXEC);
    if (output->descriptor < 0) system_failed(output, "cannot open");
    struct text why = { 0 };
    if (!attributes_write(output->file, facts, &why)) {
        unlink(output->part);
        fail("cannot write attributes to '%s': %s", output->part, why.data);
    }
    return output;
}

struct output *output_create_scratch(const char *path, const struct facts *facts)
{
    return create_empty(path, facts);
}

/* The disk begins with what was written, which else it would do when the file is whole and has to be there:
   tensors come over a step's time. Only a wish: errors are fsync's to tell, and file systems without it lose
   nothing. */
static void begin_writeback(struct output *output, size_t bytes)
{
    output->unsent += bytes;
    if (output->descriptor < 0 || output->unsent < PIECE) return;
    output->unsent = 0;
#ifdef SYNC_FILE_RANGE_WRITE
    sync_file_range(output->descriptor, 0, 0, SYNC_FILE_RANGE_WRITE); /* 0, 0: all of the file */
#endif
}

/* In pieces of whole rows of the first extent. */
static void write_data(struct output *output, hid_t dataset, hid_t space, hid_t memory, int rank,
    const hsize_t *extent, const void *data, const char *what)
{
    size_t row = H5Tget_size(memory);
    for (int i = 1; i < rank; i++) row *= extent[i];
    hsize_t start[3] = { 0 }, count[3];
    memcpy(count, extent, (size_t)rank * sizeof *count);
    const hsize_t most = row < PIECE ? PIECE / row : 1;
    for (; start[0] < extent[0]; start[0] += count[0]) {
        count[0] = extent[0] - start[0] < most ? extent[0] - start[0] : most;
        done(output, H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, count, NULL), what);
        const hid_t piece = need(output, H5Screate_simple(rank, count, NULL), what);
        done(output,
            H5Dwrite(dataset, memory, piece, space, H5P_DEFAULT, (const char *)data + start[0] * row), what);
        done(output, H5Sclose(piece), what);
        begin_writeback(output, count[0] * row);
    }
}

static void write_dataset(struct output *output, const char *name, hid_t stored, hid_t memory, int rank,
    const size_t *extents, const void *data)
{
    struct text what = { 0 };
    text_add(&what, "cannot write %s to", name);
    hsize_t extent[3];
    hsize_t elements = 1;
    for (int i = 0; i < rank; i++) elements *= extent[i] = extents[i];
    const hid_t space = need(output, H5Screate_simple(rank, extent, NULL), what.data);
    const hid_t dataset = need(output,
        H5Dcreate2(output->file, name, stored, space, output->link, output->creation, H5P_DEFAULT),
        what.data);
    if (elements) write_data(output, dataset, space, memory, rank, extent, data, what.data);
    done(output, H5Dclose(dataset), what.data);
    done(output, H5Sclose(space), what.data);
    text_free(&what);
}

void output_tensor(struct output *output, struct tensor tensor, const float *data)
{
    char name[TENSOR_NAME];
    size_t extents[3];
    const int rank = tensor_extents(&output->model, tensor, extents);
    write_dataset(output, tensor_name(tensor, name), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, rank, extents, data);
}

void output_read_tensor(struct output *output, struct tensor tensor, float *data)
{
    char name[TENSOR_NAME];
    struct text what = { 0 };
    text_add(&what, "cannot read back %s from", tensor_name(tensor, name));
    const hid_t dataset = need(output, H5Dopen2(output->file, name, H5P_DEFAULT), what.data);
    done(output, H5Dread(dataset, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), what.data);
    done(output, H5Dclose(dataset), what.data);
    text_free(&what);
}

/* A member of a record: its name in the file, where it lies in memory, its types there and here. 0: the
 * enumeration of kinds. */
struct member {
    const char *name;
    size_t offset;
    hid_t stored, memory;
};

static hid_t kind_type(const struct output *output, hid_t base)
{
    const hid_t type = need(output, H5Tenum_create(base), "cannot describe timings in");
    for (int32_t kind = 0; kind < COMPUTE_KINDS; kind++) {
        const char letter[2] = { compute_letter[kind], 0 };
        int32_t value = kind;
        done(output, H5Tconvert(H5T_NATIVE_INT32, base, 1, &value, NULL, H5P_DEFAULT),
            "cannot describe timings in");
        done(output, H5Tenum_insert(type, letter, &value), "cannot describe timings in");
    }
    return type;
}

/* Writes `count` records of `size` bytes, packed in the file. */
static void write_records(struct output *output, const char *name, const struct member *member, int members,
    size_t size, const void *records, size_t count)
{
    static const char what[] = "cannot describe timings in";
    size_t packed = 0;
    for (int i = 0; i < members; i++)
        packed += member[i].stored ? H5Tget_size(member[i].stored) : sizeof(int32_t);
    const hid_t memory = need(output, H5Tcreate(H5T_COMPOUND, size), what);
    const hid_t stored = need(output, H5Tcreate(H5T_COMPOUND, packed), what);
    const hid_t kinds_here = kind_type(output, H5T_NATIVE_INT32),
                kinds_there = kind_type(output, H5T_STD_I32LE);
    size_t at = 0;
    for (int i = 0; i < members; i++) {
        const hid_t here = member[i].stored ? member[i].memory : kinds_here;
        const hid_t there = member[i].stored ? member[i].stored : kinds_there;
        done(output, H5Tinsert(memory, member[i].name, member[i].offset, here), what);
        done(output, H5Tinsert(stored, member[i].name, at, there), what);
        at += H5Tget_size(there);
    }
    write_dataset(output, name, stored, memory, 1, &count, records);
    done(output, H5Tclose(kinds_here), what);
    done(output, H5Tclose(kinds_there), what);
    done(output, H5Tclose(stored), what);
    done(output, H5Tclose(memory), what);
}

#define MEMBER(record, name, stored, memory)                                                                 \
    {                                                                                                        \
#name, offsetof(struct record, name), stored, memory                                                 \
    }
#define WRITE_RECORDS(output, name, member, record, records, count)                                          \
    write_records(                                                                                           \
        output, name, member, sizeof member / sizeof member[0], sizeof(struct record), records, count)

void output_timings(struct output *output, const struct action_record *actions, size_t action_count,
    const struct step_record *steps, size_t step_count)
{
    const struct member action[] = {
        MEMBER(action_record, step, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(action_record, kind, 0, 0),
        MEMBER(action_record, chunk, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(action_record, microbatch, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(action_record, start, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(action_record, end, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(action_record, waited, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
    };
    const struct member step[] = {
        MEMBER(step_record, step, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(step_record, timed, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(step_record, start, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(step_record, seconds, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(step_record, busy, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(step_record, idle, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(step_record, exposed, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(step_record, loss, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT),
    };
    WRITE_RECORDS(output, "timings/actions", action, action_record, actions, action_count);
    WRITE_RECORDS(output, "timings/steps", step, step_record, steps, step_count);
}

void output_arrivals(struct output *output, const struct arrival *arrivals, size_t count)
{
    const struct member member[] = {
        MEMBER(arrival, is_gradient, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(arrival, chunk, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(arrival, microbatch, H5T_STD_I32LE, H5T_NATIVE_INT32),
        { "sum", offsetof(struct arrival, digest.sum), H5T_STD_U64LE, H5T_NATIVE_UINT64 },
        { "weighted", offsetof(struct arrival, digest.weighted), H5T_STD_U64LE, H5T_NATIVE_UINT64 },
        { "nan", offsetof(struct arrival, digest.nan), H5T_STD_U64LE, H5T_NATIVE_UINT64 },
        { "absmax", offsetof(struct arrival, digest.absmax), H5T_IEEE_F32LE, H5T_NATIVE_FLOAT },
    };
    WRITE_RECORDS(output, "received", member, arrival, arrivals, count);
}

void output_planned(struct output *output, const struct planned_record *planned, size_t count,
    const struct clock_record clock[2])
{
    const struct member compute[] = {
        MEMBER(planned_record, kind, 0, 0),
        MEMBER(planned_record, chunk, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(planned_record, microbatch, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(planned_record, slot, H5T_STD_I32LE, H5T_NATIVE_INT32),
        MEMBER(planned_record, start, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(planned_record, end, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
    };
    const struct member moment[] = {
        MEMBER(clock_record, at, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
        MEMBER(clock_record, to_rank_0, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE),
    };
    WRITE_RECORDS(output, "timings/planned", compute, planned_record, planned, count);
    WRITE_RECORDS(output, "timings/clock", moment, clock_record, clock, 2);
}

void output_memory(struct output *output, const struct memory_record *memory)
{
#define BYTES(name) MEMBER(memory_record, name, H5T_STD_I64LE, H5T_NATIVE_INT64)
    const struct member member[] = { BYTES(weights), BYTES(operands), BYTES(gradients), BYTES(slots),
        BYTES(work), BYTES(buffers), BYTES(digests), BYTES(planned), BYTES(held), BYTES(slot_bytes),
        MEMBER(memory_record, slot_count, H5T_STD_I32LE, H5T_NATIVE_INT32) };
#undef BYTES
    WRITE_RECORDS(output, "memory", member, memory_record, memory, 1);
}
#undef WRITE_RECORDS
#undef MEMBER

static void release(struct output *output)
{
    free(output->path);
    free(output->part);
    free(output);
}

static void close_file(struct output *output)
{
    done(output, H5Pclose(output->creation), "cannot close");
    done(output, H5Pclose(output->link), "cannot close");
    done(output, H5Fclose(output->file), "cannot close");
}

void output_finish(struct output *output)
{
    assert(output->descriptor >= 0);
    done(output, H5Fflush(output->file, H5F_SCOPE_LOCAL), "cannot write");
    close_file(output);
    /* A name on the disk before the data would survive a power cut that the data does not. */
    if (fsync(output->descriptor)) system_failed(output, "cannot write");
    close(output->descriptor);
    if (rename(output->part, output->path))
        fail("cannot rename '%s' to '%s': %s", output->part, output->path, strerror(errno));
    release(output);
}

void output_discard(struct output *output)
{
    close_file(output);
    if (output->descriptor >= 0) close(output->descriptor);
    unlink(output->part);
    release(output);
}

static void write_link(struct output *output, const char *file, const char *name)
{
    done(output, H5Lcreate_external(file, name, output->file, name, output->link, H5P_DEFAULT),
        "cannot write links to");
}

void output_write_links(
    const char *path, const struct facts *facts, const char *const *rank_file, const struct links *links)
{
    struct output *output = output_create(path, facts);
    for (int layer = 0; links->layers && layer < facts->model.layers; layer++) {
        char name[TENSOR_NAME];
        snprintf(name, sizeof name, "/layers/%04d", layer);
        assert(facts->rank_of_layer[layer] >= 0 && facts->rank_of_layer[layer] < facts->ranks);
        write_link(output, rank_file[facts->rank_of_layer[layer]], name);
    }
    if (links->input_rank >= 0) write_link(output, rank_file[links->input_rank], "/inputs");
    if (links->target_rank >= 0) write_link(output, rank_file[links->target_rank], "/targets");
    output_finish(output);
}
