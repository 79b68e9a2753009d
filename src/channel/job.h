/* The MPI job: who we are, and what all ranks do together. Every MPI call of the program is in this folder.

   MPI is started with MPI_THREAD_SERIALIZED. After start-up several threads take turns under one lock
   (job_lock): the main thread, the communication thread, the watchdog. Nothing here blocks inside MPI with
   the lock held: collective operations are started and then tested, the lock free in between, so that
   messages and the watchdog go on. */
#pragma once
#include "base/base.h"
#include <mpi.h>

/* All ranks, or (job_split) one of several equal parts of them: what works over one works over the other. */
struct job {
    int rank, size;            /* in this job */
    int host_rank, host_ranks; /* among all ranks of this host (MPI_COMM_TYPE_SHARED), of whatever part */
    int part, parts;           /* which part of the world this is, of how many; 0 of 1: all of it */
    struct job *world;         /* the job of all ranks: this one, but where it is a part */
    char host[128];            /* MPI_Get_processor_name */
    char library[160];         /* first line of MPI_Get_library_version, and the MPI standard's version */
    double started;            /* seconds_now() when MPI_Init_thread returned */
    MPI_Comm communicator;     /* of its ranks, for the collective operations below */
};

/* MPI_Init_thread; fails where the library gives less than MPI_THREAD_SERIALIZED, and where the MPI size is 1
   while the launcher's environment (OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS under srun, ...) says more:
   the wrong mpirun. Sets fail_hook and fail_identity so that any fail() ends all ranks. */
void job_start(struct job *job, int *argc, char ***argv);
void job_end(struct job *job); /* MPI_Finalize */

/* The world cut into parts of `ranks` each, which must divide its size: part k has the ranks k*ranks to
   k*ranks + ranks - 1, so that neighbours stay neighbours. *part is this rank's, and must not outlive
   `world`. All ranks call it, and job_leave before job_end. What fail says of this rank does not change. */
void job_split(struct job *world, int ranks, struct job *part);
void job_leave(struct job *part);

/* Ends the job from any thread with `code`: MPI_Abort where the lock can be had within a second, else _exit.
 */
_Noreturn void job_abort(int code);

void job_lock(void);
void job_unlock(void);

/* All ranks call these in the same order. Buffers are the caller's. */
void job_barrier(struct job *job);
void job_broadcast(struct job *job, void *data, size_t bytes, int root);
/* Text of the root on all ranks (others' *text is replaced). */
void job_broadcast_text(struct job *job, struct text *text, int root);
double job_max(struct job *job, double value); /* on all ranks */
double job_min(struct job *job, double value);
double job_sum(struct job *job, double value);
/* bytes from every rank, concatenated in rank order, on rank 0 (NULL elsewhere); free() it. total: the bytes,
   where not NULL. offsets: [size + 1], where not NULL. More than 2 GiB in all works. */
void *job_gather(struct job *job, const void *data, size_t bytes, size_t *total, size_t *offsets);
/* count doubles each, maximum element by element, on all ranks, in place. */
void job_max_list(struct job *job, double *values, int count);

/* The offset of this rank's monotonic clock: seconds to add to it to get rank 0's, by ping-pong (the shortest
   of `rounds` round trips, Cristian's method). All ranks call it. error: half that round trip, where not
   NULL. */
double job_clock_offset(struct job *job, int rounds, double *error);
