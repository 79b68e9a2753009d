/* Loaded before the MPI library (LD_PRELOAD), between it and the program: one bit of one message changes on
   its way. PIPELEAF_FLIP="RANK MESSAGE WORD BIT": of the rank's messages of tensors, counted from 1. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int MPI_Isend(const void *data, int count, MPI_Datatype datatype, int destination, int tag,
    MPI_Comm communicator, MPI_Request *request)
{
    static int messages;
    int rank, of = -1, message = 0, word = 0, bit = 0;
    const char *what = getenv("PIPELEAF_FLIP");
    if (!what || sscanf(what, "%d %d %d %d", &of, &message, &word, &bit) != 4) of = -1;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Tensors travel as words; the greeting of a channel does not. */
    if (rank == of && datatype == MPI_UINT32_T && ++messages == message)
        ((uint32_t *)(uintptr_t)data)[word] ^= 1u << bit;
    return PMPI_Isend(data, count, datatype, destination, tag, communicator, request);
}
