/* The double's NCCL on the streams. A group's transfers on one communicator are two operations of its first
   stream: one starts them, one waits until all are complete. Events order them as NCCL's launches do
   (enqueue.cc, ncclLaunchPrepare and ncclLaunchFinish): the group waits for all of its streams and for the
   communicator's internal stream, and they wait for it.

   The data travel by copies of their own. So the buffers are touched only by the streams' operations, in
   their order, where a race detector sees it; and a buffer that is written while it is being sent is noticed.
   A buffer to receive into is filled with NaNs when the receive starts, for from then on until it is complete
   nothing is known of it. */
#include "nccl_parts.h"
#include "failure.h"
#include "streams.h"
#include "touch.h"
#include <cstdlib>

std::atomic<unsigned long> nccl_completed;

namespace
{

void cuda(cudaError_t result)
{
    if (result != cudaSuccess) failure("NCCL: %s", cudaGetErrorString(result));
}

void after(cudaStream_t stream, cudaStream_t other, cudaEvent_t event)
{
    cuda(cudaEventRecord(event, other));
    cuda(cudaStreamWaitEvent(stream, event, 0));
}

char *data_of(const transfer &t)
{
    return t.message + sizeof(message_head);
}

/* Whether a buffer holds something else than when its send started. */
bool has_changed(const transfer &t)
{
    touch_read(t.buffer, t.bytes);
    return memcmp(data_of(t), t.buffer, t.bytes) != 0;
}

bool is_own(const transfers &group, const transfer &t)
{
    return t.peer == group.comm->rank;
}

/* The receive that a send to the own rank meets: the one with as many of its kind before it. */
transfer *other_half(transfers &group, const transfer &send)
{
    size_t before = 0, seen = 0;
    for (const transfer *t = &group.list[0]; t != &send; t++) before += t->is_send && is_own(group, *t);
    for (transfer &t : group.list)
        if (!t.is_send && is_own(group, t) && seen++ == before) return &t;
    return nullptr;
}

void start(transfers &group)
{
    if (group.comm->aborted) return;
    for (transfer &t : group.list)
        if (t.is_send) copy_in(data_of(t), t.buffer, t.bytes);
    for (transfer &t : group.list)
        if (t.is_send && is_own(group, t)) {
            transfer *receive = other_half(group, t);
            if (receive->buffer != t.buffer) fill_with_nans(receive->buffer, receive->bytes);
            memcpy(data_of(*receive), data_of(t), t.bytes);
            t.state = receive->state = transfer::COMPLETE;
        } else if (!t.is_send && !is_own(group, t)) {
            fill_with_nans(t.buffer, t.bytes);
        }
    group.started = true;
}

void finish(transfers &group)
{
    ncclComm *comm = group.comm;
    if (!comm->aborted) {
        for (transfer &t : group.list)
            if (t.is_send && has_changed(t))
                nccl_mistake(comm, "a buffer of %zu %s was written while it was being sent by rank %d",
                    t.count, nccl_type_name(t.type), comm->rank);
        for (transfer &t : group.list) {
            if (!t.is_send && !t.mismatched) copy_out(t.buffer, data_of(t), t.bytes);
            free(t.message);
        }
        nccl_completed += group.list.size();
    }
    comm->pending--;
}

} // namespace

ncclResult_t nccl_check_own(const transfers &group)
{
    transfers copy = group;
    size_t sends = 0, receives = 0;
    for (transfer &t : copy.list)
        if (is_own(group, t)) (t.is_send ? sends : receives)++;
    if (sends > receives)
        return nccl_error(ncclInvalidUsage, "Trying to send to self without a matching recv");
    if (sends < receives)
        return nccl_error(ncclInvalidUsage, "Trying to recv to self without a matching send");
    for (transfer &t : copy.list) {
        if (!t.is_send || !is_own(group, t)) continue;
        const transfer *other = other_half(copy, t);
        if (other->count != t.count || other->type != t.type)
            return nccl_error(ncclInvalidUsage, "send of %zu %s to self meets receive of %zu %s", t.count,
                nccl_type_name(t.type), other->count, nccl_type_name(other->type));
    }
    return ncclSuccess;
}

void nccl_enqueue(std::shared_ptr<transfers> group)
{
    ncclComm *comm = group->comm;
    std::vector<cudaStream_t> streams;
    for (transfer &t : group->list) {
        bool known = false;
        for (cudaStream_t s : streams) known |= s == t.stream;
        if (!known) streams.push_back(t.stream);
        t.message = (char *)malloc(sizeof(message_head) + t.bytes);
    }
    comm->pending++;

    for (size_t s = 1; s < streams.size(); s++) after(streams[0], streams[s], comm->event);
    after(streams[0], comm->internal, comm->event);

    double_enqueue(streams[0], { "NCCL: start", nullptr, [group] { start(*group); }, false });
    double_enqueue(
        streams[0], { "NCCL: end", [group] { return group->comm->aborted || nccl_progress(*group); },
                        [group] { finish(*group); }, true });

    cuda(cudaEventRecord(comm->event, streams[0]));
    cuda(cudaStreamWaitEvent(comm->internal, comm->event, 0));
    for (size_t s = 1; s < streams.size(); s++) cuda(cudaStreamWaitEvent(streams[s], comm->event, 0));
}
