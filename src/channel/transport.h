/* What channel.c and a transport (mpi.c) share. A transport moves messages; buffers, local channels and the
   records of a step are channel.c's. A further transport is one more table of functions in channel.c's list.
 */
#pragma once
#include "channel/channel.h"

/* As the functions of channel.h, for channels between two ranks only. */
struct transport {
    const char *name;
    /* Whether it can do what is asked; the same answer on all ranks, before anything is allocated. */
    bool (*accepts)(const struct channels_request *request, struct text *error);
    void (*open)(
        struct channels *channels); /* sets channels->state; all ranks call it; fails the job if it cannot */
    void (*close)(struct channels *channels);
    void (*receive)(struct channels *channels, int channel, int buffer);
    double (*await_receive)(struct channels *channels, int channel, int buffer);
    double (*send)(struct channels *channels, int channel, int buffer);
    double (*await_send)(struct channels *channels, int channel, int buffer);
    void (*finish_step)(struct channels *channels); /* all that was posted is complete and in the records */
};

extern const struct transport transport_mpi;

/* This rank's part of a channel. A local channel has the buffers of its receiving end only. */
struct channel_ends {
    bool is_local;
    int receive_buffers, send_buffers; /* on this rank; 0 where it has no such end */
    float **receive, **send;           /* [receive_buffers], [send_buffers], in device memory */
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
