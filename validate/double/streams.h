/* Streams of the double: queues of operations on the host, run one at a time, in the order that the
   environment asks for:

   DOUBLE_ORDER=random:SEED  any legal order (the default, with seed 1)
   DOUBLE_ORDER=eager        each operation as soon as it may run: most of them while they are enqueued
   DOUBLE_ORDER=lazy         none before the host waits for it, and then only what that needs
   DOUBLE_QUEUES=N           streams share N in-order hardware queues, assigned in turn: an operation that
   cannot start blocks all that were enqueued behind it in its queue. Default: one queue a stream.
   DOUBLE_LAUNCH_LIMIT=K     an enqueue on a stream with K operations waiting blocks the host until one ran

   Operations run in whichever host thread enqueues, queries or synchronises, under one lock, on the stream's
   own stack. Nothing runs while no host thread calls. */
#pragma once
#include "counters.h"
#include <cuda_runtime_api.h>
#include <functional>

struct double_operation {
    const char *name; /* for messages; not copied */
    /* Whether the operation can be done now; NULL: at once. Called from time to time, from any host thread,
       once all that was enqueued on the stream before has run; not after it was true. It may start and poll
       transfers. */
    std::function<bool()> ready;
    std::function<void()> run; /* after which the next operation of the stream may run. NULL: nothing */
    /* What `ready` waits for comes from outside the process; where false, from its own streams alone, so that
       nothing else being able to run is a deadlock. */
    bool outside = true;
};
/* Neither may wait for what a host thread can hold while it calls CUDA, nor call a CUDA function that waits.
 */

/* Adds at the stream's end. NULL is the legacy default stream. */
void double_enqueue(cudaStream_t stream, double_operation operation);

/* Lets at most one operation run; whether one did. */
bool double_progress();

/* Blocks the calling host thread, letting streams progress, until done() (called under the lock). What done()
   waits for comes from outside the process: this never ends as a deadlock. */
void double_wait(const std::function<bool()> &done);

/* Under ThreadSanitizer: the host now follows all that has run on the stream. (cudaStreamSynchronize does
 * it.) */
void double_follow(cudaStream_t stream);

/* Whether all of [memory, memory + bytes) is one allocation of the device's; of pinned host memory. */
bool double_is_device(const void *memory, size_t bytes);
bool double_is_pinned(const void *memory, size_t bytes);

/* The double's lock, recursive; unknown to ThreadSanitizer, so that it orders nothing there. */
struct double_lock {
    double_lock();
    ~double_lock();
    double_lock(const double_lock &) = delete;
    double_lock &operator=(const double_lock &) = delete;
};

/* A number below `limit`, from the generator of DOUBLE_ORDER=random; 0 in the other orders. Under the lock.
 */
unsigned double_random(unsigned limit);
