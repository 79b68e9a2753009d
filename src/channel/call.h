/* How the files of this folder call MPI: every call checked, none that blocks while the lock is held. Nobody
 * else's header. */
#pragma once
#include "channel/job.h"

/* Fails the job where an MPI call did not succeed, naming the call, the place and MPI's own words for the
 * error. */
#define MPI_CALL(call) mpi_result((call), #call, __FILE__, __LINE__)
void mpi_result(int code, const char *call, const char *file, int line);

/* Tests the request under the lock until it is complete. The lock is free between the tests, and the caller
 * naps. */
void job_complete(MPI_Request *request);

/* The lock, if it can be had within so many seconds. */
bool job_lock_within(double seconds);

/* A duplicate of the job's communicator, as MPI_Comm_dup but without blocking inside MPI. All ranks call it.
 */
MPI_Comm job_duplicate(struct job *job);

void nap(double seconds);

/* The most bytes that one MPI call of job.c moves, since MPI counts in int. Tests make it small. */
extern size_t job_piece;
