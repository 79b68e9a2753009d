/* A rank's program: the list of operations that it executes in every step, fixed before the first one.
   Lowering adds to a schedule the sends and receives, and gives out slots and buffers, so that peak memory is
   known before any is allocated. */
#pragma once
#include "schedule/schedule.h"

enum channel_kind { CHANNEL_ACTIVATION, CHANNEL_GRADIENT };

/* A FIFO of messages of one kind from one rank to another, or to itself. Where it is local it is a hand-over
   on one rank: the producer writes the buffer that the consumer reads, nothing is sent, and the buffers count
   as receive_buffers (send_buffers is 0). */
struct channel_plan {
    enum channel_kind kind;
    int from, to;
    bool local;
    int messages;        /* in one step */
    int send_buffers;    /* on `from` */
    int receive_buffers; /* on `to` */
};

enum operation_kind {
    OPERATION_COMPUTE, /* wait for the input, wait for the output buffer to be free, compute */
    OPERATION_RECEIVE, /* post the receive of the channel's next message into a buffer; does not wait for it
                        */
    OPERATION_SEND /* start the send of a buffer that the compute before it filled; does not wait for it */
};

/* A buffer of a channel: for a RECEIVE, or as a compute's input, a receive buffer; for a SEND, or as a
   compute's output, a send buffer. On a local channel both are the same pool. channel -1: none (chunk 0 reads
   the step's inputs, the last chunk the loss). */
struct endpoint {
    int channel, buffer;
};

struct operation {
    enum operation_kind kind;
    struct compute compute; /* COMPUTE: what; RECEIVE and SEND: the action that uses or made the message */
    int slot;               /* COMPUTE: the slot that F fills, I reads, and B or W empties */
    struct endpoint input, output; /* COMPUTE: both; RECEIVE: input; SEND: output */
};

struct rank_program {
    struct operation *operations;
    int count;
    int slots; /* slots 0..slots-1; the most (chunk, microbatch) pairs that are live at once */
};

struct program {
    int ranks, chunks, microbatches, group;
    int *rank_of;                  /* [chunks] */
    struct channel_plan *channels; /* sorted by (from, to, kind): the same order on every rank */
    int channel_count;
    struct rank_program *rank; /* [ranks] */
};

/* Lowers a schedule. send_buffers, at least 1: how many a channel (2 hides a send behind the next compute).
   receive_buffers 0: per channel, as many as a run with equal chunk times and instant messages ever has in
   flight, and at least 2. A channel gets no more buffers than it has messages, and no fewer than its receiver
   needs to take them in its own order. self_channels: what a rank hands to itself is sent and received like
   any message; else it is local. Each compute must exist and be on the rank that holds its chunk; whether all
   are there, in an order that runs, program_check says. Free with program_free. */
void program_make(struct program *program, const struct schedule *schedule, int send_buffers,
    int receive_buffers, bool self_channels);
void program_free(struct program *program);

/* Proves of the program, before it runs: each (chunk, microbatch) has its F and its B, or its F, I and W,
   once, on the rank that holds the chunk and in that order; microbatches reach each chunk's B and W, and the
   last chunk's F (the loss), in ascending order; every receive meets its send in FIFO order on its channel;
   no slot or buffer is reused while live; no deadlock when every send is a rendezvous that occupies its
   buffer until the receive is posted, both with sends in the background and with the rank blocked in each
   send until it completes (overlap off), and so with the host blocked in any calls that enqueue (deadlock.h).
   False with the counterexample in *error: the actions, ranks and channel of the cycle, one line a rank that
   waits, as short as can be. */
bool program_check(const struct program *program, struct text *error);

/* What actions and messages take, in seconds (or any one unit). */
struct costs {
    const double *seconds[COMPUTE_KINDS]; /* [chunks] each; NULL for a kind that the program has not */
    double latency;                       /* from both sides being ready to the message's arrival, at least */
    double transfer; /* what a message occupies its channel for beyond that: bytes / bandwidth */
};

/* What the program does in time, its buffers honoured, in the unit of the costs given. */
struct prediction {
    double makespan;
    double *busy;          /* [ranks] */
    int *peak_slots;       /* [ranks] the most slots live at once */
    double **start, **end; /* [ranks][computes of the rank, in its order] */
};
/* A message takes latency + transfer from when both its sides are ready, and a channel carries one at a time.
   Sends are in the background. The program must have passed program_check. */
void program_simulate(
    const struct program *program, const struct costs *costs, struct prediction *prediction);
void prediction_free(struct prediction *prediction);

/* "F chunk 3 microbatch 5", into a buffer of the caller's. */
const char *compute_text(struct compute compute, char *buffer, size_t size);

/* Appends the program as PyTorch's pipelining CSV, current dialect, one row a rank: compute actions alone, or
   with every send and receive (hand-overs on one rank have none). */
void program_write_csv(const struct program *program, bool communication, struct text *out);
