/* Runs a program without computing: who waits for whom, and for how long. The checker looks for a stall, the
   simulation for the times. */
#pragma once
#include "dataflow.h"

/* A send is a rendezvous: it completes when the matching receive is posted, and its buffer is busy until
   then. A channel carries one message at a time, in FIFO order, each for costs->latency + costs->transfer. A
   rank is blocked in a compute until its input has arrived and the last send from its output buffer has
   completed, and in a send only where blocking_sends is set. */
struct execution {
    const struct program *program;
    bool blocking_sends;
    const struct costs *costs;

    int *position;          /* [ranks] the next operation: the one in which a stalled rank waits */
    double *clock;          /* [ranks] */
    double *busy;           /* [ranks] */
    double **start, **end;  /* [ranks][computes of the rank, in its order]; NULL: not recorded */
    int *computed;          /* [ranks] computes that have run */
    int *channel, *message; /* [ranks] what a waiting rank waits for: the delivery of this message; channel
                               -1: it does not */
    struct transfers *transfers; /* [channels] */
    double *times;               /* these three are shared by all channels: */
    int *received, *sent;
    bool *sending; /* [ranks] the send at `position` has started */
};

/* One channel's messages, counted from 0 in FIFO order. */
struct transfers {
    int posted, started, delivered;
    double *time;  /* [messages] delivery; before that, when the first of its two sides was ready */
    int *received; /* [receive_buffers] the message of the latest receive into a buffer; -1 none */
    int *sent;     /* [send_buffers] the message of the latest send from it; -1 none */
};

/* True where every rank reaches its end. Which operations run does not depend on the order in which ranks are
   looked at: each wait is for one event, which nothing takes back. `start` and `end` get the time of each
   compute, unless they are NULL; they stay the caller's. The program must be sound but for
   deadlocks: see check.c. */
bool execution_run(struct execution *execution, const struct program *program, bool blocking_sends,
    const struct costs *costs, double **start, double **end);
void execution_free(struct execution *execution);
