/* What one rank sees of the double's NCCL: configurations, groups, and sends to self. It needs no MPI launch.
 */
#include "nccl_test.h"

static void check_configurations(void)
{
    const ncclConfig_t standard = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id, nothing;
    memset(&nothing, 0, sizeof nothing);
    DONE(ncclGetUniqueId(&id));
    ncclConfig_t config = standard;
    config.blocking = 1;
    config.splitShare = 0;
    config.cgaClusterSize = 0;
    config.minCTAs = config.maxCTAs = 4;
    ncclComm_t comm;
    DONE(ncclCommInitRankConfig(&comm, 1, id, 0, &config));
    const ncclConfig_t found = double_nccl_config(comm);
    CHECK(found.minCTAs == 4 && found.maxCTAs == 4 && found.blocking == 1 && found.splitShare == 0 &&
              found.cgaClusterSize == 0 && found.trafficClass == NCCL_CONFIG_UNDEF_INT,
        "the configuration is kept");
    CHECK(double_nccl_communicators() == 1, "%d communicators", double_nccl_communicators());
    void *handle = NULL;
    DONE(ncclCommRegister(comm, one, COUNT * sizeof *one, &handle));
    CHECK(double_nccl_registered(comm) == 1, "%d", double_nccl_registered(comm));
    DONE(ncclCommDeregister(comm, handle));
    CHECK(double_nccl_registered(comm) == 0, "%d", double_nccl_registered(comm));
    CHECK(ncclCommDeregister(comm, handle) == ncclInvalidUsage, "deregistered twice");
    DONE(ncclCommFinalize(comm));
    DONE(ncclCommDestroy(comm));
    CHECK(double_nccl_communicators() == 0, "%d communicators", double_nccl_communicators());

    const struct {
        int minimum, maximum, cluster, blocking;
        unsigned magic;
        ncclResult_t result;
    } wrong[] = { { 5, 4, 0, 1, standard.magic, ncclInvalidArgument },
        { 0, 4, 0, 1, standard.magic, ncclInvalidArgument },
        { 4, 4, 9, 1, standard.magic, ncclInvalidArgument },
        { 4, 4, 0, 2, standard.magic, ncclInvalidArgument }, { 4, 4, 0, 0, standard.magic, ncclInvalidUsage },
        { 4, 4, 0, 1, 0, ncclInvalidArgument } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        config = standard;
        config.minCTAs = wrong[i].minimum;
        config.maxCTAs = wrong[i].maximum;
        config.cgaClusterSize = wrong[i].cluster;
        config.blocking = wrong[i].blocking;
        config.magic = wrong[i].magic;
        const ncclResult_t result = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
        CHECK(result == wrong[i].result, "configuration %zu: %d", i, result);
    }
    CHECK(ncclCommInitRank(&comm, 1, nothing, 0) == ncclInvalidArgument, "an id that is none");
    CHECK(ncclCommInitRank(&comm, 2, id, 2) == ncclInvalidArgument, "rank 2 of 2");
    CHECK(ncclCommInitRank(&comm, 3, id, 0) == ncclInvalidUsage, "the double has no three ranks");
    CHECK(ncclGroupEnd() == ncclInvalidUsage, "the end of no group");
}

static void check_self(void)
{
    ncclUniqueId id;
    ncclComm_t comm;
    DONE(ncclGetUniqueId(&id));
    DONE(ncclCommInitRank(&comm, 1, id, 0));
    CHECK(
        ncclSend(one, 5, ncclFloat32, 0, comm, first) == ncclInvalidUsage, "a send to self outside a group");
    CHECK(ncclRecv(one, 5, ncclFloat32, 0, comm, first) == ncclInvalidUsage,
        "a receive from self outside a group");
    CHECK(strstr(ncclGetLastError(NULL), "without a matching send"), "%s", ncclGetLastError(NULL));
    CHECK(ncclSend(one, 5, ncclFloat32, 1, comm, first) == ncclInvalidArgument, "rank 1 of 1");

    float on_host[5];
    CHECK(ncclSend(on_host, 5, ncclFloat32, 0, comm, first) == ncclInvalidArgument, "memory of the host");
    CHECK(ncclSend(one, 2 * COUNT, ncclFloat32, 0, comm, first) == ncclInvalidArgument,
        "past the end of a buffer");

    for (int round = 0; round < 20; round++) {
        const float value = (float)(1000 * round);
        set(one, value);
        set(two, -1);
        set(three, 30);
        const unsigned long transfers = double_nccl_transfers();
        DONE(ncclGroupStart());
        DONE(ncclSend(one, COUNT, ncclFloat32, 0, comm, first));
        DONE(ncclRecv(two, COUNT, ncclFloat32, 0, comm, second));
        CHECK(!busy_for(first, 0), "nothing starts before the group's end");
        DONE(ncclGroupEnd());
        CHECK(holds(two, value, COUNT), "what comes next on the receive's stream sees it");
        DONE(cudaStreamSynchronize(first));
        CHECK(holds(two, value, COUNT) && holds(three, 30, COUNT), "what was sent to self");
        CHECK(double_nccl_transfers() == transfers + 2, "%lu transfers", double_nccl_transfers());
    }

    set(one, 10);
    DONE(ncclGroupStart()); /* the first send meets the first receive, whatever comes between them */
    DONE(ncclSend(one, 5, ncclFloat32, 0, comm, first));
    DONE(ncclSend(three, 5, ncclFloat32, 0, comm, first));
    DONE(ncclRecv(one + 5, 5, ncclFloat32, 0, comm, first));
    DONE(ncclRecv(two, 5, ncclFloat32, 0, comm, first));
    DONE(ncclGroupEnd());
    DONE(cudaStreamSynchronize(first));
    CHECK(holds(two, 30, 5) && holds(one, 10, 5) && holds(one + 5, 10, 5), "two messages to self");

    DONE(ncclGroupStart());
    DONE(ncclSend(one, 5, ncclFloat32, 0, comm, first));
    DONE(ncclRecv(two, 6, ncclFloat32, 0, comm, first));
    CHECK(ncclGroupEnd() == ncclInvalidUsage, "5 elements into 6");
    DONE(ncclCommDestroy(comm));
}

int main(void)
{
    int version = 0;
    DONE(ncclGetVersion(&version));
    CHECK(version == NCCL_VERSION_CODE, "%d", version);
    open_device();
    check_configurations();
    check_self();
    return close_device();
}
