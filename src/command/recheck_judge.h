/* What a rank does with a chunk that it computes again: reads what was recorded, compares, notes what it
 * finds. */
#pragma once
#include "command/setup.h"
#include "report/findings.h"
#include "run/recheck.h"

struct judge {
    /* Set by judge_create. */
    const struct recorded *run;
    const struct model *model;
    const struct partition *partition;
    const int *rank_of;         /* [chunks] */
    struct reporting reporting; /* what the run kept */
    struct device *device;
    struct progress *progress;
    int checker; /* this rank */
    struct rank_files *files;
    struct digest *on_device;   /* one, device memory */
    float *recorded, *computed; /* a block each */
    size_t capacity;

    /* Of the chunk. */
    int chunk;
    struct recheck_chunk layers;
    struct arrival *
        *arrival; /* [2 * microbatches] into `arrivals`, by direction and microbatch; NULL: none */
    struct arrival *arrivals;
    int microbatch;      /* the one that is being computed */
    bool tainted;        /* what this microbatch's tensors are made of is not what the run had */
    bool ever_tainted;   /* so in some microbatch: the sums over all are tainted */
    bool wholly_tainted; /* the weights are */
    struct digest sent;  /* of what was loaded last, as its maker saw it */
    bool knows_sent;

    /* Of all chunks so far. */
    struct recheck_tally tally;
    struct finding *finding; /* owned */
    size_t count, room;
};

void judge_create(struct judge *judge, const struct recorded *run, const struct model *model,
    const struct partition *partition, const int *rank_of, const struct reporting *reporting,
    struct device *device, struct progress *progress, int checker, const char *directory);
/* Device bytes that a judge holds. */
size_t judge_memory(void);
/* Computes the chunk again and compares. A file that cannot be read fails the job. */
void judge_chunk(struct judge *judge, struct recheck *recheck, int chunk);
void judge_free(struct judge *judge);
