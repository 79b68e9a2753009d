/* How ranks talk: every channel of the program, created up front in one fixed order on all ranks, each a FIFO
   of its own. A channel's k-th send meets its k-th receive. Buffers belong to the channels and lie in device
   memory.

   A receive is posted as soon as its buffer is free, a send starts the moment its producer is done, and the
   compute stream waits only for the receive it needs. With overlap off the same calls are made, but compute
   goes on after a send only when its transfer is complete: over MPI channel_send returns no sooner, and
   transfers move only while this rank waits in a call of this file; over NCCL the compute stream waits. */
#pragma once
#include "channel/job.h"
#include "channel/watchdog.h"
#include "device/device.h"
#include "schedule/program.h"

struct channels;

struct channels_request {
    /* "mpi" (any device), "nccl" (CUDA devices, in a build that has NCCL), or "auto": "nccl" where the build
       has it and every rank has a CUDA device of its own, else "mpi". */
    const char *transport;
    struct job *job;
    struct device *device;
    const struct channel_plan
        *plan; /* [count], the program's, the same on all ranks; the index is the channel's name */
    int count;
    size_t message_bytes; /* of every message */
    bool overlap;
    int transfers_a_step; /* most sends + receives of this rank in one step, for the records */
    /* NCCL only. */
    int channel_ctas;     /* thread blocks (and so SMs) that a channel's transfer takes */
    bool share_device;    /* ranks may share a GPU: right results, and times that mean nothing */
    double probe_seconds; /* after which the probe at the start has failed; with overlap off there is none */
};

/* One transfer of this rank in the step just done. Times on the host's monotonic clock. */
struct transfer {
    int channel, buffer;
    bool is_send;
    double posted, complete;
};

/* All ranks call it with the same plan. Allocates buffers, starts what moves messages, sends messages through
   each channel so that connections exist and nothing in a step is the first of its kind. False with one line
   in *error, the same on all ranks. Local channels get buffers only; one from a rank to itself that is not
   local is a channel like any other. */
bool channels_open(const struct channels_request *request, struct channels **channels, struct text *error);
void channels_close(struct channels *channels);

/* Appends, one line each, what there is to say of how messages travel: the transport, its library, and what
   in the environment bears on it. */
void channels_describe(const struct channels *channels, struct text *lines);

/* The memory of a buffer. On a local channel both are the same. */
float *channel_receive_buffer(struct channels *channels, int channel, int buffer);
float *channel_send_buffer(struct channels *channels, int channel, int buffer);

/* Posts the channel's next receive into the buffer, once the compute stream's work so far is done with it. */
void channel_receive(struct channels *channels, int channel, int buffer);
/* The compute stream waits until the message last posted into the buffer is there. Returns the seconds that
 * the host waited: 0 over NCCL, here and below. */
double channel_await_receive(struct channels *channels, int channel, int buffer);
/* Starts the send of the buffer, once the compute stream's work so far has filled it. Returns the seconds
 * that the host waited. */
double channel_send(struct channels *channels, int channel, int buffer);
/* The compute stream waits until the last send from the buffer is complete, so that it can be written again.
 */
double channel_await_send(struct channels *channels, int channel, int buffer);
/* Waits until all that was posted in this step is complete, and gives the transfers in the order of
   completion within each channel; the list belongs to the channels and lives until the next step's first
   post. */
void channels_finish_step(struct channels *channels, const struct transfer **transfers, int *count);

/* Appends which libraries, beside MPI's, messages can go through, with their versions, each followed by "; ".
 */
void channels_libraries(struct text *list);

/* Device bytes that the buffers of `rank` take, by the plan alone. */
size_t channels_bytes(const struct channel_plan *plan, int count, int rank, size_t message_bytes);
