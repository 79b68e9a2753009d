/* Stops a job that no longer moves. If no action completes on any rank for `timeout` seconds, each rank
   prints one line (the last action it completed, what it waits in) and the job ends with EXIT_TIMEOUT.

   A thread a rank, which calls no device: it sends its rank's count of completed actions to rank 0 at
   intervals, and rank 0 answers with the sum; a rank that sees no change of the sum for `timeout`, or hears
   nothing from rank 0 for a quarter more, stops. A rank that sits in an MPI call with the lock held cannot
   keep it from stopping: it then leaves without MPI, by _exit. */
#pragma once
#include "channel/job.h"
#include <stdatomic.h>

/* Written by whoever does the work, read by the watchdog. */
struct progress {
    _Atomic uint64_t count; /* anything that shows life (a tensor written) and is not counted in *reached */
    /* NULL, or a word in pinned memory that the device itself writes as it goes: computes completed. Looking
       at it calls nothing. It must stay readable while the watchdog runs. */
    const int *_Atomic reached;
    _Atomic int current; /* what the host is at: meaning is describe's, -1 none */
    /* One line for the watchdog: "last done: F chunk 3 microbatch 5; waiting in ... for ...". Must not
     * allocate or lock. */
    void (*describe)(const struct progress *progress, char *line, size_t size);
    const void *context; /* for describe */
};

struct watchdog;
struct watchdog *watchdog_start(struct job *job, struct progress *progress, double timeout); /* all ranks */
/* Between watchdog_start and watchdog_stop it watches; all ranks stop it together, after a barrier of their
 * own. */
void watchdog_stop(struct watchdog *watchdog);
