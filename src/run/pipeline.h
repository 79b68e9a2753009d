/* Runs a rank's program on a device over channels. Knows nothing of decks, files or schedules' names. */
#pragma once
#include "channel/channel.h"
#include "model/layer.h"
#include "run/memory.h"
#include "run/observer.h"
#include "schedule/program.h"

/* One bit flipped on purpose, right after the named microbatch's contribution to the tensor, so that a
 * verdict can be seen to fail. */
struct injection {
    bool active;
    int step, layer, microbatch;
    struct tensor tensor; /* a gradient, an activation or an activation gradient (its layer and index are the
                             fields above) */
    uint64_t element;
    int bit;
};

struct pipeline_request {
    const struct model *model;
    const struct partition *partition;
    const struct program *program; /* checked; only this rank's operations are read */
    int rank;
    struct device *device;
    struct channels *channels;
    struct reporting reporting;
    struct injection injection;
    struct progress *progress;
    int steps; /* all of them: warm-up, timed, recorded */
    const struct costs
        *rehearsal; /* NULL, or: do not compute but wait so long, and check every message; must outlive it */
};

struct pipeline;

/* Allocates everything, makes this rank's weights. */
struct pipeline *pipeline_create(const struct pipeline_request *request);
void pipeline_close(struct pipeline *pipeline);

/* Runs step `step` (from 1). sink: NULL but in the recorded step. timed: it counts among the timed ones.
   Allocates nothing. The record's `exposed` is the time that compute waited for messages; the caller
   subtracts what even free messages would cost. */
struct step_record pipeline_step(struct pipeline *pipeline, int step, bool timed, const struct sink *sink);

/* The records of all steps so far, owned by the pipeline. */
const struct action_record *pipeline_actions(const struct pipeline *pipeline, size_t *count);
const struct transfer_record *pipeline_transfers(const struct pipeline *pipeline, size_t *count);
const struct tensor_digest *pipeline_digests(const struct pipeline *pipeline, size_t *count);
/* What arrived at this rank's chunks in the recorded step; none where nothing of its boundaries is written.
 */
const struct arrival *pipeline_arrivals(const struct pipeline *pipeline, size_t *count);

/* What a rehearsal found in the messages that this rank received, those handed over on the rank included. */
struct rehearsed {
    uint64_t right, wrong;
    char first_wrong[256]; /* "channel 2 (activations, rank 1 to rank 2): expected ..., found ..." */
};
/* NULL where the pipeline computes. Owned by the pipeline. */
const struct rehearsed *pipeline_rehearsed(const struct pipeline *pipeline);

/* The executed trace against the planned program: in each step the order of compute, and on each channel the
   order of messages and the buffers they used. False with the first deviation in *error. */
bool trace_check(const struct program *program, int rank, const struct action_record *actions,
    size_t action_count, const struct transfer_record *transfers, size_t transfer_count, struct text *error);
