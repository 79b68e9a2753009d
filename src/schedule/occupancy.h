/* How many messages a channel ever holds. For the lowering only. */
#pragma once
#include "dataflow.h"

/* Runs the schedule with every compute taking one unit of time, instant messages and unlimited buffers, and
   says for each channel of `program` (whose channels and their message counts are made) how many messages are
   at most between the end of the compute that makes them and the end of the one that uses them. A schedule
   that stalls is judged up to there. */
void occupancy_estimate(const struct schedule *schedule, const struct program *program,
    const struct wiring *wiring, int *occupancy);
