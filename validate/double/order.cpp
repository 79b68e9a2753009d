/* The order that the environment asks for, and the lock under which host threads use the double. */
#include "state.h"
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sched.h>
#include <unistd.h>

/* ---- the lock ---- */
static std::atomic<const char *> lock_owner; /* NULL: free */
static int lock_depth;
static thread_local char me; /* its address stands for the host thread */

static void entered(int depth)
{
    if (lock_depth == 0) look_away(true);
    lock_depth += depth;
}

static void take_lock(int depth)
{
    const char *nobody = nullptr;
    for (int tries = 0; lock_owner.load() != &me && !lock_owner.compare_exchange_weak(nobody, &me);
         nobody = nullptr) {
        if (tries++ < 100)
            sched_yield();
        else
            usleep(20);
    }
    entered(depth);
}

static void give_lock(int depth)
{
    lock_depth -= depth;
    if (lock_depth > 0) return;
    look_away(false);
    lock_owner.store(nullptr);
}

double_lock::double_lock()
{
    take_lock(1);
}

double_lock::~double_lock()
{
    give_lock(1);
}

bool try_lock()
{
    const char *nobody = nullptr;
    if (lock_owner.load() != &me && !lock_owner.compare_exchange_strong(nobody, &me)) return false;
    entered(1);
    return true;
}

void unlock()
{
    give_lock(1);
}

void nap(int &idle)
{
    const int depth = lock_depth;
    give_lock(depth);
    if (idle++ < 20)
        sched_yield();
    else
        usleep(50);
    take_lock(depth);
}

/* ---- the order ---- */
namespace
{
struct settings {
    enum order order = ORDER_RANDOM;
    unsigned long state = 1; /* of the random numbers; odd to begin with, then never 0 */
    long queues = 0, limit = 0;
    settings()
    {
        const char *text = getenv("DOUBLE_ORDER");
        char *end = nullptr;
        if (text && strcmp(text, "eager") == 0)
            order = ORDER_EAGER;
        else if (text && strcmp(text, "lazy") == 0)
            order = ORDER_LAZY;
        else if (text && strncmp(text, "random:", 7) == 0 && text[7])
            state = strtoul(text + 7, &end, 10);
        else if (text && *text)
            end = const_cast<char *>(text);
        if (end && *end) failure("DOUBLE_ORDER=%s is none of random:SEED, eager, lazy", text);
        /* Ranks of one job should not all draw the same numbers. */
        for (const char *name : { "OMPI_COMM_WORLD_RANK", "PMI_RANK" })
            if (const char *rank = getenv(name)) state += 1000003ul * strtoul(rank, nullptr, 10);
        state = 2 * state + 1;
        for (int i = 0; i < 20; i++) draw(); /* neighbouring seeds are far apart by then */
        queues = environment_number("DOUBLE_QUEUES", 1, 1024, 0);
        limit = environment_number("DOUBLE_LAUNCH_LIMIT", 1, 1l << 30, 0);
    }

    /* Marsaglia's xorshift64 (Journal of Statistical Software 8, 14, 2003). */
    unsigned long draw()
    {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return state;
    }
};

} // namespace

static settings &asked()
{
    static settings s;
    return s;
}

long asked_queues()
{
    return asked().queues;
}

long asked_limit()
{
    return asked().limit;
}

enum order stream_order()
{
    return asked().order;
}

unsigned double_random(unsigned limit)
{
    if (asked().order != ORDER_RANDOM || limit < 2) return 0;
    return (unsigned)((asked().draw() >> 20) % limit);
}

double clock_seconds()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
