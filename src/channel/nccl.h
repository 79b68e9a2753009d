/* What the files of the NCCL transport share: nccl.c (a step), nccl_start.c (open and close), nccl_probe.c
   (the probe at the start), nccl_accepts.c (what is refused, and what is said of the environment). Nobody
   else's header. */
#pragma once
#include "channel/transport.h"
#include "device/cuda/cuda_device.h"
#include <nccl.h>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error "NCCL 2.18 or newer is needed: older ones cannot be given a number of thread blocks and splitShare"
#endif

/* Fails the job where an NCCL call did not succeed, with the call, its place and what NCCL says of its last
 * error. */
#define NCCL_CALL(call) nccl_result((call), #call, __FILE__, __LINE__)
void nccl_result(ncclResult_t result, const char *call, const char *file, int line);

/* One transfer of the step. posted: the compute stream's work that must be done before it starts; complete:
   its end, on the channel's stream. */
struct move {
    int channel, buffer;
    bool is_send;
    struct event *posted, *complete;
};

/* The moves of a channel to itself whose other half has not been posted yet, first in first out. */
struct halves {
    struct move **move; /* [buffers of that end] */
    int first, count, room;
};

/* This rank's part of a channel that is not local: a communicator and a stream of its own. Rank 0 of the
   communicator sends and rank 1 receives; a channel from a rank to itself has one rank. */
struct link {
    ncclComm_t comm; /* NULL: this rank has no part in the channel, or it is local */
    cudaStream_t stream;
    bool to_self;
    void **registered;              /* [buffers of both ends] NCCL's handles, NULL where it gave none */
    struct move **received, **sent; /* [buffers] the move of the step that used the buffer last, or NULL */
    struct halves receives, sends;  /* to_self alone */
};

struct nccl {
    struct channels *channels;
    struct cuda_device *device;
    struct link *links; /* [request.count] */
    int link_count;     /* those of them with a communicator */
    int version;        /* of the library that runs, as NCCL_VERSION_CODE */
    struct move *moves; /* [request.transfers_a_step]: of the step, in the order of the posts */
    int move_count;
    struct event *probed,
        *half_open; /* of the probe: the compute stream's work so far; the end of a transfer */
};

/* One message between a buffer and the other rank, enqueued on the channel's stream. */
void nccl_send(const struct nccl *nccl, int channel, int buffer, size_t bytes);
void nccl_receive(const struct nccl *nccl, int channel, int buffer, size_t bytes);
/* Both ends of a channel to itself, which NCCL takes only together. */
void nccl_send_to_self(
    const struct nccl *nccl, int channel, int send_buffer, int receive_buffer, size_t bytes);

/* The host waits until all that was enqueued on the channels' streams and on the compute stream is done. It
   polls, and fails the job where a communicator reports an error. False where that takes longer than
   `seconds`. half_open: NULL, or [count], the channels that are not waited for; of compute what comes before
   `probed` is, then. */
bool nccl_drain(const struct nccl *nccl, const bool *half_open, double seconds);

/* nccl_start.c */
void nccl_open(struct channels *channels);
void nccl_close(struct channels *channels);

/* nccl_probe.c: fails the job where streams do not progress independently. */
void nccl_probe(const struct nccl *nccl);

/* nccl_accepts.c */
bool nccl_fits(const struct channels_request *request);
bool nccl_accepts(const struct channels_request *request, struct text *error);
void nccl_describe(const struct channels *channels, struct text *lines);
