/* Loaded before the MPI library (LD_PRELOAD), between it and the program: rank 1's tenth message of a step or
   later changes on its way. A network that does so must not go unnoticed. */
#include <mpi.h>
#include <stdint.h>

int MPI_Isend(const void *data, int count, MPI_Datatype datatype, int destination, int tag,
    MPI_Comm communicator, MPI_Request *request)
{
    static int messages;
    int rank;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    /* Tensors travel as words; the greeting of a channel does not. The sixth word of a stamp is the
     * microbatch.
     */
    if (rank == 1 && datatype == MPI_UINT32_T && ++messages == 10) ((uint32_t *)(uintptr_t)data)[5] ^= 1u;
    return PMPI_Isend(data, count, datatype, destination, tag, communicator, request);
}
