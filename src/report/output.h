/* One HDF5 file of a run or of a reference: the only writer and reader of tensors in HDF5. A file is written
   under a temporary name and renamed by output_finish; one that was not finished never bears its final name.
   Every HDF5 error fails the job with one line: what, which file, why. */
#pragma once
#include "run/record.h"

/* What every file says about the run that made it: attributes of "/". Strings are the caller's. */
struct facts {
    const char *kind;       /* "run" or "reference" */
    const char *run_id;     /* the same on all ranks of a run */
    const char *identity;   /* deck_identity: what the bits depend on */
    const char *arithmetic; /* device.arithmetic: what they depend on beyond the deck; NULL: not known */
    const char *deck;       /* effective deck, text */
    const char *deck_sha256;
    const char *host, *device, *device_uuid, *cpus, *compiler, *libraries;
    int ranks, chunks_per_rank, rank, threads;
    int recorded_step;
    struct model model;
    const int *rank_of_layer; /* [model.layers], so that a difference can name the rank; or NULL: not known */
};

struct output;
/* Creates PATH (as PATH.part) with the attributes. The disk is asked to begin while the rest is written. */
struct output *output_create(const char *path, const struct facts *facts);
/* The same without attributes, for tensors that are read back and then discarded: never finished, and not
   sent to the disk before the system needs the memory. */
struct output *output_create_scratch(const char *path, const struct facts *facts);
void output_tensor(struct output *output, struct tensor tensor, const float *data);
/* Reads back what was written to this output (the reference spills layer boundaries here). */
void output_read_tensor(struct output *output, struct tensor tensor, float *data);
/* /timings/actions and /timings/steps; chunkwise appending is not needed: called once. */
void output_timings(struct output *output, const struct action_record *actions, size_t action_count,
    const struct step_record *steps, size_t step_count);
/* /received: what arrived at this rank's chunks. Called once. */
void output_arrivals(struct output *output, const struct arrival *arrivals, size_t count);
/* /timings/planned: the rank's computes as the plan has them; /timings/clock: before and after the steps. */
void output_planned(struct output *output, const struct planned_record *planned, size_t count,
    const struct clock_record clock[2]);
void output_memory(struct output *output, const struct memory_record *memory); /* /memory: one record */
void output_finish(struct output *output);  /* flush, close, fsync, rename */
void output_discard(struct output *output); /* close and remove the temporary file */

/* run.h5: external links to what the ranks' files hold, relative, so that a directory can be moved.
   facts->rank_of_layer must be known; rank_file: a file's name for each of facts->ranks. */
struct links {
    bool layers;                 /* some tensors of the layers were written */
    int input_rank, target_rank; /* whose files hold /inputs and /targets; -1: none does */
};
void output_write_links(
    const char *path, const struct facts *facts, const char *const *rank_file, const struct links *links);

/* The library: "HDF5 1.10.8 (serial)". */
const char *output_library(void);
/* That of JSON: "Jansson 2.14". */
const char *json_library(void);
