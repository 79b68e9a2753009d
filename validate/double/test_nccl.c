/* The double's NCCL keeps the promises of the real one, and none that it does not make. Two ranks; a third,
   where there is one, makes the ids and only watches. */
#include "nccl_test.h"
#include "channel/job.h"

static struct job job;
static int me, other;

static ncclUniqueId new_id(void)
{
    ncclUniqueId id;
    memset(&id, 0, sizeof id);
    if (job.rank == job.size - 1) DONE(ncclGetUniqueId(&id));
    job_broadcast(&job, &id, sizeof id, job.size - 1);
    return id;
}

static ncclComm_t new_pair(void)
{
    const ncclUniqueId id = new_id();
    ncclComm_t comm = NULL;
    if (me < 2) DONE(ncclCommInitRank(&comm, 2, id, me));
    return comm;
}

/* What races on purpose is left out where a sanitizer reports it. */
#if defined(__SANITIZE_THREAD__)
static const bool races_are_reported = true;
#else
static const bool races_are_reported = false;
#endif

/* Communicators whose two directions are connected. */
static void connect(ncclComm_t a, ncclComm_t b)
{
    float *const memory[4] = { one, two, three, three + COUNT / 2 };
    ncclComm_t comms[2] = { a, b };
    DONE(ncclGroupStart());
    for (int c = 0; c < 2; c++) {
        DONE(ncclSend(memory[2 * c], 1, ncclFloat32, other, comms[c], first));
        DONE(ncclRecv(memory[2 * c + 1], 1, ncclFloat32, other, comms[c], first));
    }
    DONE(ncclGroupEnd());
    DONE(cudaStreamSynchronize(first));
}

static void send(float *memory, int count, ncclComm_t comm, cudaStream_t stream)
{
    DONE(ncclSend(memory, (size_t)count, ncclFloat32, other, comm, stream));
}

static void receive(float *memory, int count, ncclComm_t comm, cudaStream_t stream)
{
    DONE(ncclRecv(memory, (size_t)count, ncclFloat32, other, comm, stream));
}

static void check_same_gpu(void)
{
    unsetenv("NCCL_HOSTID");
    DONE(cudaSetDevice(0));
    ncclComm_t comm = NULL;
    ncclUniqueId id = new_id();
    if (me < 2) {
        CHECK(ncclCommInitRank(&comm, 2, id, me) == ncclInvalidUsage, "two ranks on one GPU");
        CHECK(!comm && strstr(ncclGetLastError(NULL), "Duplicate GPU"), "%s", ncclGetLastError(NULL));
    }
    int devices = 0;
    DONE(cudaGetDeviceCount(&devices));
    if (devices > 1) { /* two GPUs of one host */
        DONE(cudaSetDevice(me % devices));
        comm = new_pair();
        if (me < 2) DONE(ncclCommDestroy(comm));
        DONE(cudaSetDevice(0));
    }
    setenv("NCCL_HOSTID", me ? "right" : "left", 1);
    comm = new_pair();
    if (me < 2) {
        int rank = -1, count = -1, device = -1;
        DONE(ncclCommUserRank(comm, &rank));
        DONE(ncclCommCount(comm, &count));
        DONE(ncclCommCuDevice(comm, &device));
        CHECK(rank == me && count == 2 && device == 0, "rank %d of %d on %d", rank, count, device);
        DONE(ncclCommDestroy(comm));
    }
}

static void check_made_in_a_group(void)
{
    const ncclUniqueId a = new_id(), b = new_id();
    if (me > 1) return;
    ncclComm_t comms[2];
    DONE(ncclGroupStart());
    DONE(ncclCommInitRank(
        &comms[0], 2, me ? b : a, me)); /* in another order on each rank: that is what groups are for */
    DONE(ncclCommInitRank(&comms[1], 2, me ? a : b, me));
    DONE(ncclGroupEnd());
    CHECK(double_nccl_communicators() == 2, "%d communicators", double_nccl_communicators());
    ncclUniqueId own;
    DONE(ncclGetUniqueId(&own));
    ncclComm_t early;
    DONE(ncclGroupStart());
    DONE(ncclCommInitRank(&early, 1, own, 0));
    CHECK(ncclSend(one, 1, ncclFloat32, 0, early, first) == ncclInvalidArgument, "used before it is made");
    CHECK(ncclGroupEnd() == ncclInvalidArgument, "a group fails with its first failure");
    for (int c = 0; c < 2; c++) DONE(ncclCommDestroy(comms[c]));
}

/* The peer comes 0.3 s late: both directions are connected apart, each once. */
static void check_first_use(ncclComm_t comm)
{
    for (int use = 0; use < 4; use++) {
        const int sender = use / 2;
        job_barrier(&job);
        if (me > 1) continue;
        if (me) usleep(300000);
        const double start = seconds_now();
        if (me == sender)
            send(one, 1, comm, first);
        else
            receive(two, 1, comm, first);
        const double seconds = seconds_now() - start;
        if (!me)
            CHECK(use % 2 ? seconds < 0.1 : seconds > 0.2, "use %d blocks the host for %g s", use, seconds);
        DONE(cudaStreamSynchronize(first));
    }
}

static void check_rendezvous(ncclComm_t comm, ncclComm_t gate)
{
    job_barrier(&job);
    if (me == 0) {
        set(one, 100);
        send(one, 1, comm, first);
        CHECK(busy_for(first, 0.2), "a send without its receive is complete");
        job_barrier(&job); /* the receive is now behind the gate */
        CHECK(busy_for(first, 0.2), "a send is complete before its receive has been reached");
        send(two, 1, gate, second);
        DONE(cudaStreamSynchronize(second));
        DONE(cudaStreamSynchronize(first));
    } else if (me == 1) {
        usleep(300000);
        receive(three, 1, gate, first);
        receive(two, 1, comm, first);
        CHECK(busy_for(first, 0.05), "the gate is open");
        job_barrier(&job);
        DONE(cudaStreamSynchronize(first));
        CHECK(holds(two, 100, 1), "what was sent");
    } else {
        job_barrier(&job);
    }
}

/* Sends keep their order, whatever stream they are on: the second one's is free, the first one's is not yet.
 */
static void check_order(ncclComm_t comm, ncclComm_t gate)
{
    job_barrier(&job);
    if (me == 0) {
        set(one, 1000);
        set(two, 2000);
        receive(three, 1, gate, first);
        send(one, COUNT, comm, first);
        send(two, COUNT, comm, second);
        CHECK(busy_for(second, 0.2), "the second send overtakes the first");
        job_barrier(&job);
        DONE(cudaStreamSynchronize(first));
        DONE(cudaStreamSynchronize(second));
    } else if (me == 1) {
        receive(two, COUNT, comm, first); /* the program that is wrong: it wants the second one here */
        receive(one, COUNT, comm, first);
        CHECK(busy_for(first, 0.1), "nothing is sent yet");
        job_barrier(&job);
        send(three, 1, gate, second);
        DONE(cudaStreamSynchronize(second));
        DONE(cudaStreamSynchronize(first));
        CHECK(holds(two, 1000, COUNT) && holds(one, 2000, COUNT), "swapped receives get swapped messages");
    } else {
        job_barrier(&job);
    }
}

/* A group on two streams is one operation, that waits for both. */
static void check_streams_of_a_group(ncclComm_t comm, ncclComm_t gate)
{
    job_barrier(&job);
    if (me == 0) {
        set(one, 10);
        set(two, 20);
        receive(three, 1, gate, second);
        DONE(ncclGroupStart());
        send(one, 1, comm, first);
        send(two, 1, comm, second);
        DONE(ncclGroupEnd());
        CHECK(busy_for(first, 0.2), "the group does not wait for its second stream");
        job_barrier(&job);
        DONE(cudaStreamSynchronize(first));
        DONE(cudaStreamSynchronize(second));
    } else if (me == 1) {
        DONE(ncclGroupStart());
        receive(one, 1, comm, first);
        receive(two, 1, comm, first);
        DONE(ncclGroupEnd());
        CHECK(busy_for(first, 0.1), "half of a group is sent");
        job_barrier(&job);
        send(three, 1, gate, second);
        DONE(cudaStreamSynchronize(second));
        DONE(cudaStreamSynchronize(first));
        CHECK(holds(one, 10, 1) && holds(two, 20, 1), "a group's receives keep their order");
    } else {
        job_barrier(&job);
    }
}

static void check_mistakes(void)
{
    double_nccl_tolerate(1);
    ncclComm_t comm = new_pair();
    if (me < 2) {
        ncclResult_t error = ncclSuccess;
        set(two, 5);
        if (me == 0) {
            send(one, 5, comm, first);
        } else {
            receive(two, 6, comm, first);
        }
        DONE(cudaStreamSynchronize(first));
        DONE(ncclCommGetAsyncError(comm, &error));
        CHECK(error == (me ? ncclInvalidUsage : ncclSuccess), "5 elements into 6: %d", error);
        if (me)
            CHECK(strstr(ncclGetLastError(comm), "send of 5 float32 meets receive of 6 float32"), "%s",
                ncclGetLastError(comm));
        if (me) CHECK(!holds(two, 5, 6) && !holds(two, 5, 1), "a receive that failed leaves no old data");
        if (me)
            CHECK(ncclSend(one, 1, ncclFloat32, 0, comm, first) == ncclInvalidUsage, "used after an error");
        DONE(ncclCommDestroy(comm));
    }
    double_nccl_tolerate(0);
}

static void check_written_while_sent(void)
{
    double_nccl_tolerate(1);
    ncclComm_t comm = new_pair();
    if (me == 0) {
        ncclResult_t error = ncclSuccess;
        send(one, 1, comm, first);
        DONE(cudaStreamSynchronize(first));
        set(one, 1);
        send(one, COUNT, comm, first);
        CHECK(busy_for(first, 0.1), "not received yet");
        set(one, 2);
        job_barrier(&job);
        DONE(cudaStreamSynchronize(first));
        DONE(ncclCommGetAsyncError(comm, &error));
        CHECK(error == ncclInvalidUsage, "a buffer is written while it is sent: %d", error);
    } else if (me == 1) {
        receive(two, 1, comm, first);
        DONE(cudaStreamSynchronize(first));
        job_barrier(&job);
        receive(two, COUNT, comm, first);
        DONE(cudaStreamSynchronize(first));
    } else {
        job_barrier(&job);
    }
    if (me < 2) DONE(ncclCommDestroy(comm));
    double_nccl_tolerate(0);
}

static void check_under_way_and_abort(ncclComm_t connected)
{
    job_barrier(&job);
    if (me == 1) {
        set(two, 7);
        receive(two, COUNT, connected, first);
        CHECK(busy_for(first, 0.1), "nothing was sent");
        if (!races_are_reported)
            CHECK(is_nan(two), "a buffer that is being received into still holds its old data");
        DONE(ncclCommAbort(connected));
        DONE(cudaStreamSynchronize(first));
    } else if (me == 0) {
        DONE(ncclCommAbort(connected));
    }
    job_barrier(&job);
}

int main(int argc, char **argv)
{
    job_start(&job, &argc, &argv);
    me = job.rank;
    other = 1 - me;
    open_device();
    check_same_gpu();
    check_made_in_a_group();
    ncclComm_t comm = new_pair();
    check_first_use(comm);
    ncclComm_t gate = new_pair();
    if (me < 2) connect(comm, gate);
    check_rendezvous(comm, gate);
    check_order(comm, gate);
    check_streams_of_a_group(comm, gate);
    check_mistakes();
    if (!races_are_reported) check_written_while_sent();
    check_under_way_and_abort(gate);
    if (me < 2) DONE(ncclCommDestroy(comm));
    const int result = (int)job_max(&job, close_device());
    job_end(&job);
    return result;
}
