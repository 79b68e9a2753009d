/* What the double's own files share. */
#pragma once
#include "double.h"
#include "streams.h"
#include "failure.h"
#include "fibres.h"
#include "sanitizers.h"
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

/* ---- streams.cpp ---- */
struct event_record { /* one cudaEventRecord */
    std::atomic<bool> done{ false };
    double seconds = 0; /* on the host's monotonic clock, when it ran */
    cudaStream_t stream = nullptr;
};

struct grid_fibres;

struct queued {
    enum kind { WORK, RECORD, WAIT } kind;
    double_operation operation;
    std::shared_ptr<event_record> record; /* of RECORD and WAIT */
    bool started = false;                 /* has left its hardware queue */
};

struct CUstream_st {
    int device = 0, number = 0, priority = 0;
    unsigned flags = 0;
    bool destroyed = false, legacy = false;
    std::deque<std::unique_ptr<queued>> waiting;
    struct fibre *fibre = nullptr; /* under ThreadSanitizer: that of its operations */
    struct grid_fibres *grid_fibres = nullptr;
    char ran = 0; /* its address orders the host after what has run */
};

struct CUevent_st {
    unsigned flags = 0;
    std::shared_ptr<event_record> last(); /* NULL: never recorded */
    void record(const std::shared_ptr<event_record> &record);

  private:
    std::atomic_flag busy = ATOMIC_FLAG_INIT; /* not the double's lock: a query waits for no operation */
    std::shared_ptr<event_record> newest;
};

cudaStream_t stream_new(int device, unsigned flags, int priority);
void stream_destroy(cudaStream_t stream);
/* The stream meant by a handle; NULL for one that does not exist. */
CUstream_st *stream_of(cudaStream_t handle);
void enqueue(CUstream_st *stream, std::unique_ptr<queued> operation);
void enqueue_record(CUstream_st *stream, const std::shared_ptr<event_record> &record);
void enqueue_wait(CUstream_st *stream, const std::shared_ptr<event_record> &record);
/* Waits until what is enqueued on the stream now has run; until the record has. */
void wait_for_stream(CUstream_st *stream);
void wait_for_record(const std::shared_ptr<event_record> &record);
void wait_for_device(int device);
/* What a query does before it looks: with the lock at hand, lets the stream progress a little. */
void progress_by_query(CUstream_st *stream);

/* ---- order.cpp ---- */
enum order { ORDER_RANDOM, ORDER_EAGER, ORDER_LAZY };
enum order stream_order();
long asked_queues(); /* 0: each stream has its own */
long asked_limit();  /* 0: none */
double clock_seconds();
/* double_lock, where no other host thread has it. */
bool try_lock();
void unlock();
/* Gives the lock to other host threads for a moment; a longer one where nothing has happened for `idle` naps.
 */
void nap(int &idle);

/* ---- grid.cpp ---- */
void run_grid(const double_launch &launch, double_body &body, CUstream_st *stream);
void grid_fibres_free(struct grid_fibres *fibres);

/* ---- kernel_table.cpp ---- */
struct shared_range {
    char *begin;
    size_t bytes;
};
struct kernel_facts {
    std::string name;
    size_t static_shared = 0;
    int max_dynamic = 48 << 10;          /* cudaFuncAttributeMaxDynamicSharedMemorySize */
    std::vector<shared_range> variables; /* its own, and those of device functions */
};
kernel_facts &kernel_of(const void *function);
/* As the program calls it, without its arguments' types. */
const char *kernel_name(const double_launch &launch);
/* The program's static data, in which all shared memory lies. */
shared_range program_data();

/* ---- shared_memory.cpp ---- */
/* Shared memory holds nothing when a block starts: NaNs, and for ThreadSanitizer no past. */
void clear_shared(const kernel_facts &facts, size_t dynamic_bytes);
void forget(void *begin, size_t bytes);
/* The grid's dynamic shared memory, before its first block and after its last one; false: it wrote past it.
 */
void take_dynamic(size_t bytes);
bool give_dynamic(size_t bytes);

/* ---- the limits of the GPU that is played: those of compute capability 9.0 ---- */
enum {
    MAX_THREADS = 1024,
    MAX_BLOCK_Z = 64,
    MAX_GRID_YZ = 65535,
    SHARED_PLAIN = 48 << 10,
    SHARED_OPT_IN = 227 << 10,
    SHARED_PER_SM = 228 << 10,
    SHARED_RESERVED = 1 << 10, /* a block */
    THREADS_PER_SM = 2048,
    BLOCKS_PER_SM = 32,
    SM_COUNT = 16
};

/* ---- runtime.cpp ---- */
extern std::atomic<unsigned long> default_stream_uses, allocations, synchronizations;
int current_device();
cudaError_t remember(cudaError_t error); /* for cudaGetLastError */
/* The value of an environment variable as a number from `least` to `most`, or `otherwise` where it is not
 * set. */
long environment_number(const char *name, long least, long most, long otherwise);
