/* A worker that waits instead of computing: the program, the channels, the trace are the real ones, and every
   message bears a stamp that says which it is. */
#pragma once
#include "run/worker.h"

/* At the beginning of every message. */
struct stamp {
    uint32_t magic;
    int32_t step;
    int32_t direction; /* enum channel_kind */
    int32_t kind;      /* enum compute_kind of the action that made it: F, B or I */
    int32_t chunk, microbatch;
};
struct stamp stamp_of(int step, enum channel_kind direction, struct compute maker);

/* Whether the message begins with this stamp; else false, with "expected ..., found ..." in *error. */
bool stamp_check(const struct stamp *expected, const void *message, struct text *error);

/* False with one line in *error where a message of so many bytes cannot hold a stamp. */
bool stamp_fits(size_t message_bytes, struct text *error);

/* request->rehearsal is set. */
struct worker *rehearsal_create(const struct pipeline_request *request);
const struct rehearsed *rehearsal_result(const struct worker *worker);
