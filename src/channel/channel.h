/* How ranks talk: every channel of the program, created up front in one fixed order on all ranks, each a FIFO
   of its own. A channel's k-th send meets its k-th receive. Buffers belong to the channels and lie in device
   memory.

   A receive is posted as soon as its buffer is free, a send starts the moment its producer is done, and the
   compute stream waits only for the receive it needs. With overlap off the same calls are made, but
   channel_send returns only when the transfer is complete, and transfers move only while this rank waits in a
   call of this file. */
#pragma once
#include "channel/job.h"
#include "channel/watchdog.h"
#include "device/device.h"
#include "schedule/program.h"

struct channels;

struct channels_request {
    const char *transport; /* "auto", "mpi" ("nccl" where the build and the device have it) */
    struct job *job;
    struct device *device;
    const struct channel_plan
        *plan; /* [count], the program's, the same on all ranks; the index is the channel's name */
    int count;
    size_t message_bytes; /* of every message */
    bool overlap;
    int transfers_a_step; /* most sends + receives of this rank in one step, for the records */
};

/* One transfer of this rank in the step just done. Times on the host's monotonic clock. */
struct transfer {
    int channel, buffer;
    bool is_send;
    double posted, complete;
};

/* All ranks call it with the same plan. Allocates buffers, starts the communication thread, sends one message
   through each channel so that connections exist. False with one line in *error. Local channels (from == to)
   get buffers only. */
bool channels_open(const struct channels_request *request, struct channels **channels, struct text *error);
void channels_close(struct channels *channels);

/* The memory of a buffer. On a local channel both are the same. */
float *channel_receive_buffer(struct channels *channels, int channel, int buffer);
float *channel_send_buffer(struct channels *channels, int channel, int buffer);

/* Posts the channel's next receive into the buffer, once the compute stream's work so far is done with it. */
void channel_receive(struct channels *channels, int channel, int buffer);
/* The compute stream waits until the message last posted into the buffer is there. Returns the seconds that
 * the host waited. */
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

/* Device bytes that the buffers of `rank` take, by the plan alone. */
size_t channels_bytes(const struct channel_plan *plan, int count, int rank, size_t message_bytes);
