/* The CUDA runtime's functions about streams and events. */
#include "state.h"
#include <sched.h>

std::shared_ptr<event_record> CUevent_st::last()
{
    while (busy.test_and_set()) sched_yield();
    const std::shared_ptr<event_record> found = newest;
    busy.clear();
    return found;
}

void CUevent_st::record(const std::shared_ptr<event_record> &record)
{
    while (busy.test_and_set()) sched_yield();
    newest = record;
    busy.clear();
}

extern "C" {

/* ---- streams ---- */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    if (flags & ~(unsigned)cudaStreamNonBlocking) return remember(cudaErrorInvalidValue);
    *stream = stream_new(current_device(), flags, priority);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
    if (!stream_of(stream)) return remember(cudaErrorInvalidResourceHandle);
    *priority = stream_of(stream)->priority;
    return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
    if (!stream_of(stream)) return remember(cudaErrorInvalidResourceHandle);
    *flags = stream_of(stream)->flags;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (!stream || !stream_of(stream)) return remember(cudaErrorInvalidResourceHandle);
    stream_destroy(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    CUstream_st *it = stream_of(stream);
    if (!it) return remember(cudaErrorInvalidResourceHandle);
    synchronizations++;
    if (it->legacy) default_stream_uses++;
    wait_for_stream(it);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (!try_lock()) return cudaErrorNotReady;
    CUstream_st *it = stream_of(stream);
    if (it) progress_by_query(it);
    const bool done = it && it->waiting.empty();
    if (done) order_after(&it->ran);
    unlock();
    return !it ? remember(cudaErrorInvalidResourceHandle) : done ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void)
{
    synchronizations++;
    wait_for_device(current_device());
    return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *argument)
{
    if (!stream_of(stream)) return remember(cudaErrorInvalidResourceHandle);
    double_enqueue(stream, { "host function", nullptr, [=] { function(argument); } });
    return cudaSuccess;
}

/* ---- events ---- */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new CUevent_st;
    (*event)->flags = flags;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event) return remember(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    CUstream_st *it = stream_of(stream);
    if (!event || !it) return remember(cudaErrorInvalidResourceHandle);
    const auto record = std::make_shared<event_record>();
    event->record(record);
    enqueue_record(it, record);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    CUstream_st *it = stream_of(stream);
    if (!event || !it) return remember(cudaErrorInvalidResourceHandle);
    if (const auto record = event->last()) enqueue_wait(it, record);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (!event) return remember(cudaErrorInvalidResourceHandle);
    const auto record = event->last();
    if (!record) return cudaSuccess;
    if (!record->done) progress_by_query(record->stream);
    if (!record->done) return cudaErrorNotReady;
    order_after(record.get());
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (!event) return remember(cudaErrorInvalidResourceHandle);
    synchronizations++;
    if (const auto record = event->last()) wait_for_record(record);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    if (!start || !end || ((start->flags | end->flags) & cudaEventDisableTiming))
        return remember(cudaErrorInvalidResourceHandle);
    const auto first = start->last(), last = end->last();
    if (!first || !last) return remember(cudaErrorInvalidResourceHandle);
    if (!first->done || !last->done) return cudaErrorNotReady;
    *milliseconds = (float)((last->seconds - first->seconds) * 1e3);
    return cudaSuccess;
}
}
