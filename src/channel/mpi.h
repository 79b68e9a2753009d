/* The transport over MPI, between its two threads. The compute thread (mpi.c) puts transfers into a ring,
   from which they are started, and moved, by whoever polls (mpi_progress.c): the compute thread when it posts
   and while it waits, so that no message waits for a thread to wake up; the communication thread while the
   rank computes, for without it a large message would not move, unless the compute thread itself has done so
   between two kernels, which is cheaper. With overlap off there is no communication thread. Nobody else's
   header. */
#pragma once
#include "channel/call.h"
#include "channel/transport.h"
#include <pthread.h>

/* One buffer of one end of a channel.

   On a device whose memory MPI cannot read, a message goes through `pinned` host memory. A send: the compute
   thread enqueues the copy to it, behind the work that fills the buffer; `staged` is the end of that copy,
   and MPI starts there. A receive: MPI fills it, then the communication thread enqueues the copy from it; the
   message has then arrived as far as the host is concerned, and the compute stream waits for `staged`. */
struct spot {
    int channel, buffer;
    bool is_send;
    float *memory;
    void *pinned;         /* NULL where MPI reads and writes memory itself */
    struct event *event;  /* the compute stream's work that must be done before the transfer starts */
    struct event *staged; /* the end of the copy between memory and pinned */
    bool in_flight;       /* guarded by mpi.mutex: posted, and the host must still wait for it */
    /* Theirs who poll. */
    double posted;
    bool is_copying; /* the message has come, its copy to the device has not ended */
};

/* How often a thread polls while something is under way and the rank computes. */
struct pace {
    double cost;  /* seconds that a poll which moves nothing takes of a core; 0: none yet */
    double pause; /* seconds to the next one */
};

struct mpi {
    struct channels *channels;
    MPI_Comm communicator; /* messages only; the tag is the channel */
    int words;             /* of a message, 4 bytes each */
    /* MPI_Isend or, with overlap off, MPI_Issend: else what MPI's or the network's buffers hold would travel
       behind compute all the same. */
    int (*send)(
        const void *, int, MPI_Datatype, int to, int tag, MPI_Comm communicator, MPI_Request *request);
    struct spot **receives, **sends; /* [channel][buffer], parts of spots */
    struct spot *spots;
    int spot_count;
    bool cores_to_spare;
    struct pace pace; /* of the compute thread, between two kernels and within long ones */
    double next_look; /* the compute thread's: before that it does not ask whether to poll */

    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t work; /* something for the communication thread */
    pthread_cond_t done; /* the communication thread has polled, and the compute thread waits */
    /* Guarded by the mutex. */
    struct spot **ring; /* [spot_count]: a spot is in it once at most */
    int ring_first, ring_length;
    int incomplete;  /* posted and not yet in the records */
    bool is_waiting; /* the compute thread, which then polls */
    bool is_polling; /* some thread: what follows the mutex's is its own for so long */
    bool is_dozing;  /* the communication thread, for nothing is under way */
    bool is_new;     /* a send was posted that the communication thread has not heard of */
    unsigned looks;  /* polls of the compute thread while it computed */
    bool closing;
    double polled; /* when last somebody did */

    /* Theirs who poll: what MPI works on, and what is copied to the device, each in the order of starting. */
    MPI_Request *requests; /* [spot_count] */
    struct spot **active, **copying, **ready;
    int active_count, copying_count;
    int *indices;
    MPI_Status *statuses;
};

/* With the mutex held (let go for a while) and nobody polling: starts what is ready and hands back what is
   complete; how much that was. */
int mpi_poll(struct mpi *mpi);
/* The compute thread, between two kernels: polls where its pace says so. */
void mpi_meanwhile(void *mpi);
/* Makes the mutex and the conditions and, with overlap, the communication thread; ends them, when nothing is
   incomplete. */
void mpi_thread_start(struct mpi *mpi);
void mpi_thread_stop(struct mpi *mpi);
