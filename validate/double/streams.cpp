#include "state.h"
#include <algorithm>
#include <cstdio>
#include <string>

namespace
{
/* ---- the streams ---- */
/* Never destroyed: at exit other parts may still call. */
auto &streams = *new std::vector<CUstream_st *>;
auto &hardware_queues = *new std::vector<std::deque<queued *>>;
int streams_made;
bool running; /* an operation */

struct fibre host;   /* left for a stream's */
CUstream_st *acting; /* the stream that is asked to do one of: */
enum { ASK_READY, RUN } act;
bool answer;

void run_operation(CUstream_st *stream, queued &operation)
{
    if (operation.kind == queued::WAIT) order_after(operation.record.get());
    if (operation.operation.run) operation.operation.run();
    if (operation.kind == queued::RECORD) {
        operation.record->seconds = clock_seconds();
        order_before(operation.record.get());
    }
    operation.operation.run = nullptr;
    operation.operation.ready = nullptr;
    order_before(&stream->ran);
}

void act_once()
{
    queued &front = *acting->waiting.front();
    order_after(&front);
    if (act == RUN)
        run_operation(acting, front);
    else
        answer = front.operation.ready();
}

void stream_loop()
{
    for (struct fibre *here = fibre_here();;) {
        act_once();
        fibre_switch(here, &host);
    }
}

/* As the stream: under ThreadSanitizer on a fibre of its own, so that what streams do is ordered by events
 * alone. */
void as_stream(CUstream_st *stream)
{
    running = true;
    acting = stream;
    if (!under_tsan()) {
        act_once();
    } else {
        fibre_switch(&host, stream->fibre);
    }
    running = false;
}

bool is_ready(CUstream_st *stream)
{
    const queued &front = *stream->waiting.front();
    if (front.kind == queued::WAIT) return front.record->done.load();
    if (!front.operation.ready) return true;
    act = ASK_READY;
    as_stream(stream);
    return answer;
}

/* Operations leave their hardware queue in order, once those before them in their stream have run; one that
   waits for an event only when that has come. */
void start_operations()
{
    for (size_t q = 0; q < hardware_queues.size(); q++) {
        auto &queue = hardware_queues[q];
        while (!queue.empty()) {
            queued *front = queue.front();
            const bool first = std::any_of(streams.begin(), streams.end(),
                [=](CUstream_st *s) { return !s->waiting.empty() && s->waiting.front().get() == front; });
            if (!first || (front->kind == queued::WAIT && !front->record->done.load())) break;
            front->started = true;
            queue.pop_front();
        }
    }
}

bool can_run(CUstream_st *stream)
{
    if (stream->waiting.empty()) return false;
    const queued &front = *stream->waiting.front();
    return (hardware_queues.empty() || front.started) && is_ready(stream);
}

void run_front(CUstream_st *stream)
{
    act = RUN;
    as_stream(stream);
    const queued &front = *stream->waiting.front();
    if (front.kind == queued::RECORD) front.record->done.store(true);
    stream->waiting.pop_front();
}

void free_destroyed()
{
    for (size_t i = 0; i < streams.size(); i++) {
        CUstream_st *stream = streams[i];
        if (!stream->destroyed || !stream->waiting.empty()) continue;
        if (stream->fibre) fibre_free(stream->fibre);
        if (stream->grid_fibres) grid_fibres_free(stream->grid_fibres);
        streams.erase(streams.begin() + (long)i--);
        delete stream;
    }
}

/* The stream whose front must run for `stream` to move: itself, or the one that a wait or a hardware queue
   points to. NULL: none can. */
CUstream_st *mover(CUstream_st *stream, size_t depth)
{
    if (std::find(streams.begin(), streams.end(), stream) == streams.end())
        return nullptr; /* none, or ended */
    if (stream->waiting.empty() || depth > streams.size()) return nullptr;
    if (can_run(stream)) return stream;
    const queued &front = *stream->waiting.front();
    for (auto &queue : hardware_queues) {
        if (front.started || std::find(queue.begin(), queue.end(), &front) == queue.end()) continue;
        for (CUstream_st *other : streams)
            for (auto &operation : other->waiting)
                if (operation.get() == queue.front() && operation.get() != &front)
                    return mover(other, depth + 1);
    }
    if (front.kind == queued::WAIT && !front.record->done.load())
        return mover(front.record->stream, depth + 1);
    return nullptr;
}

/* Runs one operation, the goal's if the order is lazy. */
bool step(CUstream_st *goal)
{
    if (running) return false;
    start_operations();
    CUstream_st *chosen = nullptr;
    if (stream_order() == ORDER_LAZY) chosen = mover(goal, 0);
    const size_t n = streams.size(), first = double_random((unsigned)n);
    for (size_t k = 0; !chosen && k < n; k++) {
        CUstream_st *stream = streams[(first + k) % n];
        if (can_run(stream)) chosen = stream;
    }
    if (!chosen) return false;
    run_front(chosen);
    free_destroyed();
    return true;
}

bool outside_pending()
{
    for (const CUstream_st *stream : streams) {
        if (stream->waiting.empty()) continue;
        const queued &front = *stream->waiting.front();
        if (front.operation.ready && front.operation.outside && (hardware_queues.empty() || front.started))
            return true;
    }
    return false;
}

__attribute__((noreturn)) void deadlock()
{
    std::string text;
    for (const CUstream_st *stream : streams) {
        if (stream->waiting.empty()) continue;
        const queued &front = *stream->waiting.front();
        text += text.empty() ? " " : "; ";
        text += "stream " + std::to_string(stream->number) + " (" + std::to_string(stream->waiting.size()) +
                " waiting) is at '" + front.operation.name + "'";
        if (front.kind == queued::WAIT && front.record->stream)
            text += " recorded in stream " + std::to_string(front.record->stream->number);
        if (!hardware_queues.empty() && !front.started)
            text += " in hardware queue " + std::to_string((size_t)stream->number % hardware_queues.size());
    }
    failure("deadlock between streams:%s", text.c_str());
}

/* Lets streams progress until done(); `goal` is the stream that it waits for. */
void wait_until(CUstream_st *goal, bool outside, const std::function<bool()> &done)
{
    int idle = 0;
    while (!done()) {
        if (running) failure("an operation of a stream waits for a stream");
        if (step(goal))
            idle = 0;
        else if (outside || outside_pending())
            nap(idle);
        else if (!done())
            deadlock();
    }
}
} // namespace

cudaStream_t stream_new(int device, unsigned flags, int priority)
{
    const double_lock lock;
    if (hardware_queues.empty() && asked_queues() > 0) hardware_queues.resize((size_t)asked_queues());
    CUstream_st *stream = new CUstream_st;
    stream->device = device;
    stream->flags = flags;
    stream->priority = priority;
    stream->number = streams_made++;
    if (under_tsan()) {
        /* Now: a fibre follows what the one that makes it has seen. */
        char name[32];
        snprintf(name, sizeof name, "stream %d", stream->number);
        stream->fibre = fibre_new(1 << 20, stream_loop, name);
    }
    streams.push_back(stream);
    return stream;
}

void stream_destroy(cudaStream_t stream)
{
    const double_lock lock;
    stream->destroyed = true;
    free_destroyed();
}

CUstream_st *stream_of(cudaStream_t handle)
{
    static auto &legacy = *new std::vector<CUstream_st *>; /* of each device */
    const double_lock lock;
    if (handle == nullptr || handle == cudaStreamLegacy) {
        const size_t device = (size_t)current_device();
        if (legacy.size() <= device) legacy.resize(device + 1);
        if (!legacy[device]) legacy[device] = stream_new((int)device, cudaStreamDefault, 0);
        legacy[device]->legacy = true;
        return legacy[device];
    }
    const auto found = std::find(streams.begin(), streams.end(), handle);
    return found == streams.end() || handle->destroyed ? nullptr : handle;
}

static void append(CUstream_st *stream, std::unique_ptr<queued> operation)
{
    const size_t limit = (size_t)asked_limit();
    if (limit && !running) wait_until(stream, false, [=] { return stream->waiting.size() < limit; });
    if (!hardware_queues.empty())
        hardware_queues[(size_t)stream->number % hardware_queues.size()].push_back(operation.get());
    order_before(operation.get());
    stream->waiting.push_back(std::move(operation));
}

static void append_record(CUstream_st *from, const std::shared_ptr<event_record> &record)
{
    record->stream = from;
    append(from, std::unique_ptr<queued>(new queued{ queued::RECORD, { "event record", {}, {} }, record }));
}

static void append_wait(CUstream_st *stream, const std::shared_ptr<event_record> &record)
{
    append(
        stream, std::unique_ptr<queued>(new queued{ queued::WAIT, { "wait for an event", {}, {} }, record }));
}

/* The legacy default stream: what is enqueued on it follows all before it on the device's blocking streams,
   and goes before all after it there (CUDA runtime API, stream synchronization behavior). */
static void follow_others(CUstream_st *legacy, bool after)
{
    for (size_t i = 0; i < streams.size(); i++) {
        CUstream_st *other = streams[i];
        if (other == legacy || other->device != legacy->device || (other->flags & cudaStreamNonBlocking))
            continue;
        CUstream_st *first = after ? legacy : other, *second = after ? other : legacy;
        const auto record = std::make_shared<event_record>();
        append_record(first, record);
        append_wait(second, record);
    }
}

void enqueue(CUstream_st *stream, std::unique_ptr<queued> operation)
{
    const double_lock lock;
    if (stream->legacy) default_stream_uses++;
    if (stream->legacy) follow_others(stream, false);
    append(stream, std::move(operation));
    if (stream->legacy) follow_others(stream, true);
    if (running) return;
    if (stream_order() == ORDER_EAGER) {
        while (step(nullptr)) {
        }
    } else if (double_random(4) == 1) {
        for (unsigned n = double_random(8); n > 0 && step(nullptr); n--) {
        }
    }
}

void enqueue_record(CUstream_st *stream, const std::shared_ptr<event_record> &record)
{
    record->stream = stream;
    enqueue(
        stream, std::unique_ptr<queued>(new queued{ queued::RECORD, { "event record", {}, {} }, record }));
}

void enqueue_wait(CUstream_st *stream, const std::shared_ptr<event_record> &record)
{
    enqueue(
        stream, std::unique_ptr<queued>(new queued{ queued::WAIT, { "wait for an event", {}, {} }, record }));
}

void wait_for_stream(CUstream_st *stream)
{
    const double_lock lock;
    if (!stream->waiting.empty()) {
        const queued *last = stream->waiting.back().get(); /* other host threads may go on adding */
        wait_until(stream, false, [=] {
            return std::none_of(stream->waiting.begin(), stream->waiting.end(),
                [=](const std::unique_ptr<queued> &operation) { return operation.get() == last; });
        });
    }
    order_after(&stream->ran);
}

void wait_for_record(const std::shared_ptr<event_record> &record)
{
    if (!record->done.load()) {
        const double_lock lock;
        wait_until(record->stream, false, [=] { return record->done.load(); });
    }
    order_after(record.get());
}

void wait_for_device(int device)
{
    const double_lock lock;
    for (size_t i = 0; i < streams.size(); i++) {
        if (streams[i]->device != device) continue;
        const size_t before = streams.size();
        wait_for_stream(streams[i]);
        if (streams.size() < before) i = (size_t)-1; /* destroyed ones went away */
    }
}

void progress_by_query(CUstream_st *stream)
{
    if (!try_lock()) return; /* another host thread may be running something long: a query does not wait */
    if (!running) {
        unsigned some = stream_order() == ORDER_RANDOM ? double_random(8)
                        : stream_order() == ORDER_LAZY ? 1
                                                       : ~0u;
        while (some > 0 && step(stream)) some--;
    }
    unlock();
}

void double_enqueue(cudaStream_t handle, double_operation operation)
{
    CUstream_st *stream = stream_of(handle);
    if (!stream) failure("'%s' on a stream that does not exist", operation.name);
    enqueue(stream, std::unique_ptr<queued>(new queued{ queued::WORK, std::move(operation), nullptr }));
}

bool double_progress()
{
    const double_lock lock;
    return step(nullptr);
}

void double_wait(const std::function<bool()> &done)
{
    const double_lock lock;
    wait_until(nullptr, true, done);
}

void double_follow(cudaStream_t handle)
{
    CUstream_st *stream = stream_of(handle);
    if (stream) order_after(&stream->ran);
}
