/* The double's NCCL: the functions of nccl.h that the program calls, over MPI, for communicators of one or
   two ranks. What is kept of the real one: no tags, but a FIFO for each communicator and direction;
   rendezvous; the first use connects and blocks both hosts; nothing of a group starts before its end; sends
   to self only within a group; two ranks on one GPU are refused; an internal stream for each communicator. */
#include "nccl_parts.h"
#include "failure.h"
#include "streams.h"
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace
{

/* A group of this thread: what was called since ncclGroupStart. */
struct group {
    int depth = 0;
    ncclResult_t error = ncclSuccess; /* the first of its calls */
    std::vector<std::pair<ncclComm *, ncclComm_t *>> inits;
    std::vector<std::shared_ptr<transfers>> launches; /* one a communicator, in the order of first use */
};
thread_local group current;

char last_error[1024];
std::atomic<int> communicators;
std::atomic<bool> tolerate;

void record(const char *format, va_list list)
{
    const double_lock held;
    vsnprintf(last_error, sizeof last_error, format, list);
    if (getenv("NCCL_DEBUG")) complaint("NCCL: %s", last_error);
}

void end_of_comm(ncclComm *comm)
{
    if (comm->internal) cudaStreamDestroy(comm->internal);
    if (comm->event) cudaEventDestroy(comm->event);
    delete comm;
}

/* A communicator is born at the end of the group that it is made in. */
ncclResult_t make(const std::vector<std::pair<ncclComm *, ncclComm_t *>> &inits)
{
    std::vector<ncclComm *> comms;
    for (auto &i : inits) comms.push_back(i.first);
    ncclResult_t result = nccl_meet(comms);
    for (ncclComm *comm : comms) {
        if (result != ncclSuccess) break;
        if (cudaStreamCreateWithFlags(&comm->internal, cudaStreamNonBlocking) != cudaSuccess ||
            cudaEventCreateWithFlags(&comm->event, cudaEventDisableTiming) != cudaSuccess)
            result = nccl_error(ncclUnhandledCudaError, "no stream or event for the communicator");
        comm->ready = true;
    }
    for (auto &i : inits) {
        if (result == ncclSuccess) {
            communicators++;
        } else {
            *i.second = nullptr;
            end_of_comm(i.first);
        }
    }
    return result;
}

ncclResult_t launch(const std::vector<std::shared_ptr<transfers>> &launches)
{
    for (auto &l : launches)
        if (ncclResult_t result = nccl_check_own(*l)) return result;
    std::vector<ncclComm *> first_uses;
    for (auto &l : launches) {
        bool first = false;
        for (const transfer &t : l->list) {
            if (t.peer == l->comm->rank) continue;
            l->comm->asked[t.is_send] = true;
            first |= !l->comm->connected[t.is_send];
        }
        if (first) first_uses.push_back(l->comm);
    }
    if (!first_uses.empty()) nccl_connect(first_uses);
    for (auto &l : launches) nccl_enqueue(l);
    return ncclSuccess;
}

/* Every call within a group, and a call on its own, which is a group of one. */
ncclResult_t in_group(ncclResult_t result)
{
    if (current.error == ncclSuccess) current.error = result;
    const ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

ncclResult_t check_config(const ncclConfig_t &c)
{
    const int undefined = NCCL_CONFIG_UNDEF_INT;
    if (c.magic != 0xcafebeef)
        return nccl_error(ncclInvalidArgument, "ncclConfig_t not initialised by NCCL_CONFIG_INITIALIZER");
    const struct {
        const char *name;
        int value, least, most;
    } ranges[] = { { "blocking", c.blocking, 0, 1 }, { "cgaClusterSize", c.cgaClusterSize, 0, 8 },
        { "minCTAs", c.minCTAs, 1, 64 }, { "maxCTAs", c.maxCTAs, 1, 64 },
        { "splitShare", c.splitShare, 0, 1 } };
    for (auto &r : ranges)
        if (r.value != undefined && (r.value < r.least || r.value > r.most))
            return nccl_error(
                ncclInvalidArgument, "config: %s=%d is not in %d..%d", r.name, r.value, r.least, r.most);
    if (c.minCTAs != undefined && c.maxCTAs != undefined && c.minCTAs > c.maxCTAs)
        return nccl_error(ncclInvalidArgument, "config: minCTAs=%d > maxCTAs=%d", c.minCTAs, c.maxCTAs);
    if (!c.blocking) return nccl_error(ncclInvalidUsage, "the double has blocking communicators only");
    return ncclSuccess;
}

ncclResult_t init(ncclComm_t *comm, int ranks, const ncclUniqueId &id, int rank, const ncclConfig_t *config)
{
    const ncclConfig_t standard = NCCL_CONFIG_INITIALIZER;
    if (!comm || ranks < 1 || rank < 0 || rank >= ranks || !nccl_is_id(id))
        return nccl_error(
            ncclInvalidArgument, "communicator of %d ranks, rank %d: no such, or not an id", ranks, rank);
    if (ranks > 2)
        return nccl_error(ncclInvalidUsage, "the double has communicators of 1 or 2 ranks, not %d", ranks);
    if (ncclResult_t result = check_config(config ? *config : standard)) return result;
    int device;
    if (cudaGetDevice(&device) != cudaSuccess) return nccl_error(ncclUnhandledCudaError, "no CUDA device");
    ncclComm *c = *comm = new ncclComm;
    c->id = id;
    c->device = device;
    c->config = config ? *config : standard;
    c->rank = rank;
    c->count = ranks;
    current.inits.push_back({ c, comm });
    return ncclSuccess;
}

ncclResult_t add(bool is_send, void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
    cudaStream_t stream)
{
    const char *name = is_send ? "ncclSend" : "ncclRecv";
    if (!comm) return nccl_error(ncclInvalidArgument, "%s: no communicator", name);
    if (!comm->ready) return nccl_error(ncclInvalidArgument, "%s: the communicator is not made yet", name);
    if (comm->error != ncclSuccess) return comm->error;
    const size_t size = nccl_type_size(type), most = (size_t)INT_MAX - sizeof(message_head);
    if (!size) return nccl_error(ncclInvalidArgument, "%s: no such type: %d", name, type);
    if (peer < 0 || peer >= comm->count)
        return nccl_error(
            ncclInvalidArgument, "%s: rank %d of a communicator of %d", name, peer, comm->count);
    if (count > most / size)
        return nccl_error(ncclInternalError, "%s: the double moves less than 2 GiB at a time", name);
    if (count && !double_is_device(buffer, count * size) && !double_is_pinned(buffer, count * size))
        return nccl_error(ncclInvalidArgument,
            "%s: not %zu bytes of the device's memory, or of pinned memory", name, count * size);

    transfer t = {};
    t.is_send = is_send;
    t.buffer = buffer;
    t.count = count;
    t.bytes = count * size;
    t.type = type;
    t.peer = peer;
    t.stream = stream;
    t.request = MPI_REQUEST_NULL;
    for (auto &l : current.launches)
        if (l->comm == comm) {
            l->list.push_back(t);
            return ncclSuccess;
        }
    current.launches.push_back(std::make_shared<transfers>());
    current.launches.back()->comm = comm;
    current.launches.back()->list.push_back(t);
    return ncclSuccess;
}

void wait_for(ncclComm *comm)
{
    double_wait([comm] { return comm->pending == 0; });
}

} // namespace

size_t nccl_type_size(ncclDataType_t type)
{
    static const size_t sizes[ncclNumTypes] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };
    return type >= 0 && type < ncclNumTypes ? sizes[type] : 0;
}

const char *nccl_type_name(ncclDataType_t type)
{
    static const char *const names[ncclNumTypes] = { "int8", "uint8", "int32", "uint32", "int64", "uint64",
        "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2" };
    return type >= 0 && type < ncclNumTypes ? names[type] : "?";
}

ncclResult_t nccl_error(ncclResult_t result, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    record(format, list);
    va_end(list);
    return result;
}

void nccl_mistake(ncclComm *comm, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    record(format, list);
    va_end(list);
    comm->error = ncclInvalidUsage;
    if (!tolerate) failure("NCCL: %s", last_error);
}

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
    if (version) *version = NCCL_VERSION_CODE;
    return version ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    if (!id) return ncclInvalidArgument;
    nccl_new_id(id);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(
    ncclComm_t *comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    ncclGroupStart();
    return in_group(init(comm, ranks, id, rank, config));
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

ncclResult_t ncclGroupStart()
{
    current.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd()
{
    if (!current.depth) return nccl_error(ncclInvalidUsage, "ncclGroupEnd: not in a group");
    if (--current.depth) return ncclSuccess;
    group ended;
    std::swap(ended, current);
    if (ended.error == ncclSuccess && !ended.inits.empty() && !ended.launches.empty())
        ended.error = nccl_error(ncclInvalidUsage, "communicators are made and used in one group");
    if (ended.error != ncclSuccess) {
        for (auto &i : ended.inits) {
            *i.second = nullptr;
            end_of_comm(i.first);
        }
        return ended.error;
    }
    return ended.inits.empty() ? launch(ended.launches) : make(ended.inits);
}

ncclResult_t ncclSend(
    const void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    ncclGroupStart();
    return in_group(add(true, const_cast<void *>(buffer), count, type, peer, comm, stream));
}

ncclResult_t ncclRecv(
    void *buffer, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)
{
    ncclGroupStart();
    return in_group(add(false, buffer, count, type, peer, comm, stream));
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (!comm) return ncclInvalidArgument;
    wait_for(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm) return ncclSuccess;
    wait_for(comm);
    nccl_settle();
    communicators--;
    end_of_comm(comm);
    return ncclSuccess;
}

/* What is under way may still be looked at by the streams and by MPI: it is left to them. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm) return ncclSuccess;
    comm->aborted = true;
    communicators--;
    if (!comm->pending) end_of_comm(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!comm || !error) return ncclInvalidArgument;
    *error = comm->error;
    return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    if (!comm || !count) return ncclInvalidArgument;
    *count = comm->count;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    if (!comm || !rank) return ncclInvalidArgument;
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    if (!comm || !device) return ncclInvalidArgument;
    *device = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
    if (!comm || !buffer || !size || !handle)
        return nccl_error(ncclInvalidArgument, "ncclCommRegister: nothing");
    comm->registered.push_back(*handle = buffer);
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    if (!comm) return ncclInvalidArgument;
    auto found = std::find(comm->registered.begin(), comm->registered.end(), handle);
    if (found == comm->registered.end())
        return nccl_error(ncclInvalidUsage, "ncclCommDeregister: not registered");
    comm->registered.erase(found);
    return ncclSuccess;
}

ncclResult_t ncclMemAlloc(void **memory, size_t size)
{
    if (!memory) return ncclInvalidArgument;
    return cudaMalloc(memory, size) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void *memory)
{
    return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const names[ncclNumResults] = { "no error", "unhandled CUDA error",
        "unhandled system error", "internal error", "invalid argument", "invalid usage", "remote error",
        "operation in progress" };
    return result >= 0 && result < ncclNumResults ? names[result] : "unknown result";
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error;
}

ncclConfig_t double_nccl_config(ncclComm_t comm)
{
    return comm->config;
}

int double_nccl_communicators(void)
{
    return communicators;
}

int double_nccl_registered(ncclComm_t comm)
{
    return (int)comm->registered.size();
}

unsigned long double_nccl_transfers(void)
{
    return nccl_completed;
}

void double_nccl_tolerate(int yes)
{
    tolerate = yes;
}

} /* extern "C" */
