/* Why a rank's compute stood still: the gap before an action, or before the step's end, cut into its causes.
 */
#pragma once

/* In the order in which they follow each other in one gap. */
enum idle_cause {
    IDLE_BUBBLE,  /* the schedule implies it: the input was not made yet, for as long as the plan says */
    IDLE_LATE,    /* nor was it after that: the rank that makes it was late */
    IDLE_OTHER,   /* compute need not have waited: the host between two actions, or the end of a step */
    IDLE_MESSAGE, /* exposed: the input was made but not here, or the way for the output was not free */
    IDLE_CAUSES
};
extern const char *const idle_name[IDLE_CAUSES];

/* Times in seconds, on one clock. */
struct gap {
    double from, to; /* compute stood still from its last action's end to the next one's start */
    double planned;  /* how long it stands still there in the plan */
    double made;   /* when the rank that makes the input of what follows had made it; `from` or earlier where
                      none does */
    double waited; /* how long before `to` it waited, as the action's record says */
};

/* Cause i lies from cut[i] to cut[i + 1]. */
void idle_split(const struct gap *gap, double cut[IDLE_CAUSES + 1]);
