/* The double's NCCL between processes. Every MPI call is made under the job's lock, and none blocks: what is
   waited for is tested again and again, with the lock free and the streams moving in between, as GPUs move
   while a host waits. With the job's lock held nothing here calls CUDA or takes the double's lock; the other
   way round is usual. */
#include "nccl_parts.h"
#include "failure.h"
#include "sanitizers.h"
#include "streams.h"
#include <cstdlib>
#include <cstring>
#include <list>
#include <unistd.h>

extern "C" {
void job_lock(void); /* of src/channel/job.h */
void job_unlock(void);
/* Of ThreadSanitizer, where it is linked: what happens in between orders nothing. */
void AnnotateIgnoreSyncBegin(const char *file, int line) __attribute__((weak));
void AnnotateIgnoreSyncEnd(const char *file, int line) __attribute__((weak));
}

namespace
{

enum { HELLO_TAG = 30000, FIRST_TAG = 30001 };

/* The job's lock. Streams take it too, when their transfers are looked at; a GPU does not, so it must not
   seem to order them: a wait that the program forgot would go unnoticed. */
struct lock {
    lock()
    {
        look_away(true);
        if (AnnotateIgnoreSyncBegin) AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
        job_lock();
    }
    ~lock()
    {
        job_unlock();
        if (AnnotateIgnoreSyncEnd) AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
        look_away(false);
    }
};

void check(int code, const char *call)
{
    if (code == MPI_SUCCESS) return;
    failure("%.*s returned %d", (int)strcspn(call, "("), call, code);
}
#define MPI_CHECK(call) check((call), #call)

/* Small messages that are under way. Guarded by the lock, as is all that follows. */
struct parcel {
    std::vector<char> data;
    MPI_Request request;
};
std::list<parcel> parcels;

void send_parcel(const void *data, size_t bytes, int to, int tag)
{
    parcels.push_back(
        { std::vector<char>((const char *)data, (const char *)data + bytes), MPI_REQUEST_NULL });
    parcel &p = parcels.back();
    MPI_CHECK(MPI_Isend(p.data.data(), (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &p.request));
}

bool receive_parcel(void *data, size_t bytes, int from, int tag)
{
    int found = 0;
    MPI_Message message;
    MPI_CHECK(MPI_Improbe(from, tag, MPI_COMM_WORLD, &found, &message, MPI_STATUS_IGNORE));
    if (found) MPI_CHECK(MPI_Mrecv(data, (int)bytes, MPI_BYTE, &message, MPI_STATUS_IGNORE));
    return found;
}

/* --- Meeting --- */

/* Who makes an id need not be a member of its communicator, and nobody knows who the other member is: so each
   tells all others. */
struct hello {
    ncclUniqueId id;
    int rank, count, world, tag;
    char host[256];
    cudaUUID_t gpu;
};
std::list<hello> hellos; /* not yet looked for */

struct identity {
    char mark[8];
    int creator, process;
    long number;
};

/* Rank and size in MPI_COMM_WORLD; where MPI is not in use, those of a single process. */
void world(int *rank, int *size)
{
    lock held;
    int started = 0;
    *rank = 0;
    *size = 1;
    MPI_Initialized(&started);
    if (!started) return;
    MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, rank));
    MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, size));
}

hello introduce(ncclComm *comm, int world_rank)
{
    static std::atomic<int> next_tag{ FIRST_TAG };
    hello h = {};
    h.id = comm->id;
    h.rank = comm->rank;
    h.count = comm->count;
    h.world = world_rank;
    h.tag = comm->tag = next_tag.fetch_add(2);
    const char *host = getenv("NCCL_HOSTID");
    if (host)
        strncpy(h.host, host, sizeof h.host - 1);
    else
        gethostname(h.host, sizeof h.host - 1);
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, comm->device) == cudaSuccess) h.gpu = properties.uuid;
    return h;
}

/* Takes in what others said, and forgets what of ours has arrived. */
void hear_and_forget()
{
    hello h;
    while (receive_parcel(&h, sizeof h, MPI_ANY_SOURCE, HELLO_TAG)) hellos.push_back(h);
    for (auto p = parcels.begin(); p != parcels.end();) {
        int done = 0;
        MPI_CHECK(MPI_Test(&p->request, &done, MPI_STATUS_IGNORE));
        p = done ? parcels.erase(p) : std::next(p);
    }
}

/* The result of two members' meeting, or ncclInProgress where the other has not come yet. */
ncclResult_t find_peer(ncclComm *comm, const hello &mine)
{
    for (auto h = hellos.begin(); h != hellos.end(); h++) {
        if (memcmp(&h->id, &comm->id, sizeof h->id)) continue;
        const hello other = *h;
        hellos.erase(h);
        if (other.count != comm->count)
            return nccl_error(ncclInvalidArgument, "communicator of %d ranks here and %d ranks there",
                comm->count, other.count);
        if (other.rank == comm->rank)
            return nccl_error(
                ncclInvalidArgument, "two processes are rank %d of one communicator", comm->rank);
        comm->peer = other.world;
        comm->peer_tag = other.tag;
        if (!strcmp(other.host, mine.host) && !memcmp(&other.gpu, &mine.gpu, sizeof mine.gpu))
            return nccl_error(ncclInvalidUsage,
                "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", comm->rank, other.rank,
                comm->device);
        return ncclSuccess;
    }
    return ncclInProgress;
}

/* --- Transfers --- */

void post_send(ncclComm *comm, transfer &t)
{
    const message_head head = { comm->sent++, t.count, t.type };
    memcpy(t.message, &head, sizeof head);
    MPI_CHECK(MPI_Issend(t.message, (int)(sizeof head + t.bytes), MPI_BYTE, comm->peer, comm->peer_tag,
        MPI_COMM_WORLD, &t.request));
    t.state = transfer::POSTED;
}

/* Takes the next message of the communicator, if there is one: that it is taken completes the send. */
void try_receive(ncclComm *comm, transfer &t)
{
    int found = 0, bytes = 0;
    MPI_Message message;
    MPI_Status status;
    MPI_CHECK(MPI_Improbe(comm->peer, comm->tag, MPI_COMM_WORLD, &found, &message, &status));
    if (!found) return;
    MPI_CHECK(MPI_Get_count(&status, MPI_BYTE, &bytes));
    if ((size_t)bytes > sizeof(message_head) + t.bytes) t.message = (char *)realloc(t.message, (size_t)bytes);
    MPI_CHECK(MPI_Imrecv(t.message, bytes, MPI_BYTE, &message, &t.request));
    t.state = transfer::POSTED;
}

void check_head(ncclComm *comm, transfer &t)
{
    message_head head;
    memcpy(&head, t.message, sizeof head);
    const uint64_t number = comm->received++;
    t.mismatched = head.count != t.count || head.type != t.type;
    if (t.mismatched)
        nccl_mistake(comm,
            "send of %llu %s meets receive of %zu %s: message %llu of the communicator, to its rank %d",
            (unsigned long long)head.count, nccl_type_name((ncclDataType_t)head.type), t.count,
            nccl_type_name(t.type), (unsigned long long)number, comm->rank);
}

} // namespace

void nccl_new_id(ncclUniqueId *id)
{
    static std::atomic<long> number;
    int rank, size;
    world(&rank, &size);
    const identity i = { "double", rank, (int)getpid(), number++ };
    memset(id, 0, sizeof *id);
    memcpy(id, &i, sizeof i);
}

bool nccl_is_id(const ncclUniqueId &id)
{
    return !memcmp(&id, "double", 7);
}

ncclResult_t nccl_meet(const std::vector<ncclComm *> &comms)
{
    int rank, size;
    world(&rank, &size);
    std::vector<std::pair<ncclComm *, hello>> waiting;
    for (ncclComm *comm : comms)
        if (comm->count > 1) waiting.push_back({ comm, introduce(comm, rank) });
    if (waiting.empty()) return ncclSuccess;
    {
        lock held;
        for (auto &w : waiting)
            for (int r = 0; r < size; r++)
                if (r != rank) send_parcel(&w.second, sizeof w.second, r, HELLO_TAG);
    }
    ncclResult_t result = ncclSuccess;
    double_wait([&] {
        lock held;
        hear_and_forget();
        for (size_t i = 0; i < waiting.size();) {
            const ncclResult_t found = find_peer(waiting[i].first, waiting[i].second);
            if (found == ncclInProgress) {
                i++;
                continue;
            }
            waiting.erase(waiting.begin() + (long)i);
            if (result == ncclSuccess) result = found;
        }
        return waiting.empty();
    });
    return result;
}

void nccl_connect(const std::vector<ncclComm *> &comms)
{
    {
        lock held;
        for (ncclComm *comm : comms)
            for (char direction = 0; direction < 2; direction++)
                if (comm->asked[(int)direction] && !comm->connected[(int)direction])
                    send_parcel(&direction, 1, comm->peer, comm->peer_tag + 1);
    }
    double_wait([&] {
        lock held;
        bool all = true;
        for (ncclComm *comm : comms) {
            char theirs;
            while (receive_parcel(&theirs, 1, comm->peer, comm->tag + 1)) comm->offered[1 - theirs] = true;
            for (int direction = 0; direction < 2; direction++) {
                if (!comm->asked[direction]) continue;
                comm->connected[direction] = comm->offered[direction];
                all &= comm->connected[direction] || comm->aborted;
            }
        }
        hear_and_forget();
        return all;
    });
}

void nccl_settle()
{
    int started = 0, ended = 0;
    MPI_Initialized(&started);
    MPI_Finalized(&ended);
    if (!started || ended) return;
    lock held;
    hear_and_forget();
}

bool nccl_progress(transfers &group)
{
    if (!group.started || group.complete) return group.complete;
    lock held;
    bool all = true, earlier_received = true;
    for (transfer &t : group.list) {
        if (t.state == transfer::NOT_STARTED) {
            if (t.is_send) {
                post_send(group.comm, t);
            } else {
                if (earlier_received)
                    try_receive(group.comm, t); /* a FIFO: not before the receives ahead of it */
                earlier_received = t.state != transfer::NOT_STARTED;
            }
        }
        if (t.state == transfer::POSTED) {
            int done = 0;
            MPI_CHECK(MPI_Test(&t.request, &done, MPI_STATUS_IGNORE));
            if (done) {
                t.state = transfer::COMPLETE;
                if (!t.is_send) check_head(group.comm, t);
            }
        }
        all &= t.state == transfer::COMPLETE;
    }
    return group.complete = all;
}
