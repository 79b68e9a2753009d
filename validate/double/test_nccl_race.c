/* A consumer that waits for the wrong channel is a race, even where all happens in an order that is kind:
   this program is wrong, and a build with ThreadSanitizer must say so. With an argument it waits for the
   right one as well, and is right. To be run with DOUBLE_ORDER=eager. */
#include "nccl_test.h"

static ncclComm_t comms[3];

/* A message to self. */
static void pass(ncclComm_t comm, const float *from, float *to, cudaStream_t stream)
{
    DONE(ncclGroupStart());
    DONE(ncclSend(from, COUNT, ncclFloat32, 0, comm, stream));
    DONE(ncclRecv(to, COUNT, ncclFloat32, 0, comm, stream));
    DONE(ncclGroupEnd());
}

int main(int argc, char **argv)
{
    (void)argv;
    cudaStream_t compute;
    cudaEvent_t received;
    float *four, *five;
    open_device();
    DONE(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    DONE(cudaEventCreateWithFlags(&received, cudaEventDisableTiming));
    DONE(cudaMalloc((void **)&four, COUNT * sizeof *four));
    DONE(cudaMalloc((void **)&five, COUNT * sizeof *five));
    set(one, 1);
    for (int c = 0; c < 3; c++) {
        ncclUniqueId id;
        DONE(ncclGetUniqueId(&id));
        DONE(ncclCommInitRank(&comms[c], 1, id, 0));
    }
    pass(comms[0], one, two, first);
    if (argc > 1) {
        DONE(cudaEventRecord(received, first));
        DONE(cudaStreamWaitEvent(compute, received, 0));
    }
    pass(comms[0], one, three, first); /* the next message, already posted */
    pass(comms[1], one, four, second);
    DONE(cudaEventRecord(received, second));
    DONE(cudaStreamWaitEvent(compute, received, 0));
    pass(comms[2], two, five, compute); /* the consumer: any reader of the first message */
    DONE(cudaDeviceSynchronize());
    CHECK(holds(five, 1, COUNT), "the order was not kind");
    for (int c = 0; c < 3; c++) DONE(ncclCommDestroy(comms[c]));
    DONE(cudaFree(four));
    DONE(cudaFree(five));
    DONE(cudaEventDestroy(received));
    DONE(cudaStreamDestroy(compute));
    return close_device();
}
