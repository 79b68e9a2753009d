/* An MPI program that does nothing: what start and end of MPI alone take, to be taken off the time of those
   that do. usage: benchmark_start [CODE]     CODE: its exit code, after which a launcher may take its time to
   end */
#include <mpi.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int level;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS) return 1;
    MPI_Comm duplicate;
    MPI_Comm_dup(MPI_COMM_WORLD, &duplicate);
    MPI_Comm_free(&duplicate);
    return MPI_Finalize() == MPI_SUCCESS ? argc > 1 ? atoi(argv[1]) : 0 : 1;
}
