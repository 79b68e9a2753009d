/* What channel.c and a transport (mpi.c, nccl.c) share. A transport moves messages; buffers, local channels
   and the records of a step are channel.c's. A further transport is one more table of functions in
   channel.c's list.
 */
#pragma once
#include "channel/channel.h"

/* As the functions of channel.h, for channels that are not local. */
struct transport {
    const char *name;
    /* Whether 'auto' takes it, the transports before it in the list being unfit. All ranks call it, and get
       the same answer. */
    bool (*fits)(const struct channels_request *request);
    /* Whether it can do what is asked. All ranks call it, before anything is allocated, and get the same
     * answer. */
    bool (*accepts)(const struct channels_request *request, struct text *error);
    void (*open)(
        struct channels *channels); /* sets channels->state; all ranks call it; fails the job if it cannot */
    void (*close)(struct channels *channels);
    void (*receive)(struct channels *channels, int channel, int buffer);
    double (*await_receive)(struct channels *channels, int channel, int buffer);
    double (*send)(struct channels *channels, int channel, int buffer);
    double (*await_send)(struct channels *channels, int channel, int buffer);
    void (*finish_step)(struct channels *channels); /* all that was posted is complete and in the records */
    void (*describe)(const struct channels *channels, struct text *lines);
};

extern const struct transport transport_mpi;
/* nccl.c, or, where an executable is linked without it, nccl_absent.c, which refuses. */
extern const struct transport transport_nccl;
void nccl_libraries(struct text *list); /* channels_libraries' part */

/* This rank's part of a channel. A local channel has the buffers of its receiving end only. */
struct channel_ends {
    bool is_local;
    int receive_buffers, send_buffers; /* on this rank; 0 where it has no such end */
    float **receive, **send;           /* [receive_buffers], [send_buffers], in device memory */
};

/* What the sender says of a channel to its receiver at the start, so that ranks with different plans do not
   get far; and something of the transport's. */
struct greeting {
    uint64_t kind, messages, message_bytes;
    unsigned char token[128];
};

struct channels {
    struct channels_request request; /* its plan is a copy of ours */
    const struct transport *transport;
    struct channel_ends *ends; /* [request.count] */
    void *state;               /* the transport's */
    /* The records of the step: the transport appends under its own lock, through channels_record. */
    struct transfer *transfers; /* [request.transfers_a_step] */
    int transfer_count;
    bool step_is_over; /* the next post begins a new list */
};

void channels_record(struct channels *channels, struct transfer transfer);

/* greet.c: one greeting through every channel that is not local, over `communicator`. tokens: [count], NULL
   or what the sender of each channel hands to its receiver: read on the one, written on the other. Fails the
   job where two ranks disagree about a channel. */
void channels_greet(const struct channels *channels, MPI_Comm communicator, unsigned char (*tokens)[128]);
