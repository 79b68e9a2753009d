/* Runs the blocks of a grid one after the other, the threads of a block as fibres that change places at
   barriers and at exchanges within a warp. */
#include "state.h"
#include <algorithm>
#include <cstdio>
#include <cstring>

double_thread *double_self;
uint3 double_block;
dim3 double_block_size, double_grid_size;

enum { STACK_BYTES = 64 << 10, WARPS = MAX_THREADS / 32, FIBRE_SETS = 2 };

/* The stacks on which GPU threads run. Under ThreadSanitizer each stream has its own, since one fibre's work
   is ordered and that of two streams is not. */
struct grid_fibres {
    std::vector<struct fibre *> idle, sets[FIBRE_SETS];
    unsigned long blocks = 0; /* of the grid, run so far */
};

namespace
{

struct thread : double_thread {
    struct fibre *on;
    const char *file; /* where it waits */
    int line;
};

struct warp_exchange {
    unsigned arrived; /* lanes, of the exchange that gathers */
    unsigned came[2]; /* lanes, of the last two that were complete */
    unsigned long count;
    double_exchange_kind kind;
    const char *file;
    int line;
    unsigned long long value[2][32];
};

thread threads[MAX_THREADS];
warp_exchange warps[WARPS];
volatile unsigned ready[WARPS], alive[WARPS]; /* lanes; volatile, lest copying them becomes a memcpy that
                                                ThreadSanitizer sees */
int count, left, started, at_barrier;
unsigned long barriers;
const char *barrier_file; /* where the first one waits */
int barrier_line;
bool backwards; /* the order in which threads get their turn */
const double_launch *launch;
double_body *body;
grid_fibres *fibres;
struct fibre caller;

/* What orders threads under ThreadSanitizer: addresses only. */
struct order_points {   /* of a block */
    char barrier[2][8]; /* in turn: else one late out of a barrier would follow what others did before the
                           next */
    char warp[WARPS][2][8];
};
alignas(8) order_points points;
alignas(8) char grid_start[8], grid_end[8], grid_fence[8];

bool same_place(const char *file, int line, const char *other_file, int other_line)
{
    return line == other_line && (file == other_file || strcmp(file, other_file) == 0);
}

const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

__attribute__((noreturn)) void fail_in_kernel(const char *what)
{
    failure("kernel '%s', block (%u, %u, %u) of %u threads: %s", kernel_name(*launch), double_block.x,
        double_block.y, double_block.z, count, what);
}

/* Not part of its callers, whose every call would make room for the text. */
__attribute__((noreturn, noinline)) void fail_apart(
    int warp, const char *file, int line, const char *other_file, int other_line)
{
    char who[64] = "threads wait at different barriers,", text[512];
    if (warp >= 0) snprintf(who, sizeof who, "lanes of warp %d are in different warp functions, at", warp);
    snprintf(text, sizeof text, "%s %s:%d and %s:%d", who, base_name(file), line, base_name(other_file),
        other_line);
    fail_in_kernel(text);
}

__attribute__((noreturn)) void stuck()
{
    char text[1024];
    int length = snprintf(text, sizeof text, "a barrier or shuffle that not every thread reaches:");
    for (int i = 0, places = 0; i < count && places < 4; i++) {
        if (!(alive[i / 32] >> (i % 32) & 1)) continue;
        bool first = true;
        int same = 0;
        for (int j = 0; j < count; j++) {
            if (!(alive[j / 32] >> (j % 32) & 1)) continue;
            if (!same_place(threads[i].file, threads[i].line, threads[j].file, threads[j].line)) continue;
            same++;
            first = first && j >= i;
        }
        if (!first) continue;
        places++;
        length += snprintf(text + length, sizeof text - (size_t)length,
            " %d wait at %s:%d (thread %d first),", same, base_name(threads[i].file), threads[i].line, i);
    }
    snprintf(text + length, sizeof text - (size_t)length, " %d have ended", count - left);
    fail_in_kernel(text);
}

int nth_thread(int n)
{
    return backwards ? count - 1 - n : n;
}

/* The ready thread that comes after thread i in turn, i itself last; -1: none. */
int next_ready(int i)
{
    const int w = i / 32, lane = i % 32, used = (count + 31) / 32;
    const unsigned after = backwards ? (1u << lane) - 1 : ~(lane == 31 ? ~0u : (2u << lane) - 1);
    for (int k = 0, v = w; k <= used; k++) {
        const unsigned lanes = k == 0 ? ready[v] & after : k == used ? ready[v] & ~after : ready[v];
        if (lanes) return v * 32 + (backwards ? 31 - __builtin_clz(lanes) : __builtin_ctz(lanes));
        if (backwards)
            v = v == 0 ? used - 1 : v - 1;
        else
            v = v == used - 1 ? 0 : v + 1;
    }
    return -1;
}

void thread_loop();

struct fibre *fibre_for_next()
{
    if (!under_tsan()) {
        if (fibres->idle.empty()) fibres->idle.push_back(fibre_new(STACK_BYTES, thread_loop, "GPU thread"));
        struct fibre *fibre = fibres->idle.back();
        fibres->idle.pop_back();
        return fibre;
    }
    return fibres->sets[fibres->blocks % FIBRE_SETS][(size_t)nth_thread(started)];
}

/* Leaves the fibre for the thread whose turn it is. */
void give_way(struct fibre *from, int i)
{
    if (started < count) {
        fibre_switch(from, fibre_for_next());
        return;
    }
    const int next = next_ready(i);
    if (next < 0) stuck();
    double_self = &threads[next];
    if (threads[next].on != from) fibre_switch(from, threads[next].on);
}

void release_barrier()
{
    at_barrier = 0;
    barriers++;
    for (int w = 0; w * 32 < count; w++) ready[w] = alive[w];
}

void release_warp(int w)
{
    warp_exchange &warp = warps[w];
    warp.came[warp.count % 2] = warp.arrived;
    warp.arrived = 0;
    warp.count++;
    ready[w] = alive[w];
}

void finish(int i)
{
    const int w = i / 32;
    alive[w] = alive[w] & ~(1u << i % 32);
    ready[w] = ready[w] & alive[w];
    left--;
    /* A thread that has ended is not waited for. */
    if (left > 0 && at_barrier == left)
        release_barrier();
    else if (alive[w] && warps[w].arrived == alive[w])
        release_warp(w);
}

/* What a fibre does: threads to their ends, for ever. */
void thread_loop()
{
    struct fibre *here = nullptr;
    for (;;) {
        const int i = nth_thread(started++);
        thread &self = threads[i];
        here = self.on = here ? here : fibre_here();
        double_self = &self;
        body->run();
        finish(i);
        if (left == 0) {
            if (!under_tsan()) fibres->idle.push_back(here);
            fibre_switch(here, &caller);
        } else if (under_tsan() || started == count) {
            if (!under_tsan()) fibres->idle.push_back(here);
            give_way(here, i);
        }
    }
}

/* The threads of all blocks follow what the stream did before the grid; the stream what they did. Once a
   fibre, not once a thread: it is what takes longest. */
void order_grid(unsigned long blocks, bool start)
{
    if (!under_tsan()) return;
    void *const stream = __tsan_get_current_fiber();
    if (start) __tsan_release(grid_start);
    for (unsigned long set = 0; set < FIBRE_SETS && set < blocks; set++)
        for (int i = 0; i < count; i++) {
            __tsan_switch_to_fiber(fibres->sets[set][(size_t)i]->tsan, 1);
            if (start)
                __tsan_acquire(grid_start);
            else
                __tsan_release(grid_end);
        }
    __tsan_switch_to_fiber(stream, 1);
    if (!start) __tsan_acquire(grid_end);
}

void run_block(const kernel_facts &facts)
{
    clear_shared(facts, launch->shared_bytes);
    forget(&points, sizeof points);
    left = count;
    started = at_barrier = 0;
    for (int w = 0; w * 32 < count; w++) {
        alive[w] = count - w * 32 >= 32 ? ~0u : (1u << (count - w * 32)) - 1;
        ready[w] = alive[w];
        warps[w].arrived = 0;
    }
    fibre_switch(&caller, fibre_for_next());
    fibres->blocks++;
}

unsigned long common_divisor(unsigned long a, unsigned long b)
{
    while (b) {
        const unsigned long rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}
} // namespace

void grid_fibres_free(grid_fibres *of_stream)
{
    for (auto &set : of_stream->sets)
        for (struct fibre *fibre : set) fibre_free(fibre);
    delete of_stream;
}

/* Blocks run in ascending order where streams are eager, descending where lazy, else from a random one on, by
   a random step: no kernel may depend on it. Likewise the threads of a block. */
void run_grid(const double_launch &to_run, double_body &its_body, CUstream_st *stream)
{
    static grid_fibres &shared_fibres = *new grid_fibres; /* never freed: fibres wait in it at exit */
    const kernel_facts &facts = kernel_of(to_run.kernel);
    launch = &to_run;
    body = &its_body;
    double_block_size = to_run.block;
    double_grid_size = to_run.grid;
    count = (int)(to_run.block.x * to_run.block.y * to_run.block.z);
    fibres = &shared_fibres;
    if (under_tsan()) {
        if (!stream->grid_fibres) stream->grid_fibres = new grid_fibres;
        fibres = stream->grid_fibres;
        char name[48];
        snprintf(name, sizeof name, "GPU thread of stream %d", stream->number);
        for (auto &set : fibres->sets)
            while (set.size() < (size_t)count) set.push_back(fibre_new(STACK_BYTES, thread_loop, name));
    }
    for (int i = 0; i < count; i++) {
        const unsigned n = (unsigned)i, x = to_run.block.x, y = to_run.block.y;
        threads[i].index = { n % x, n / x % y, n / (x * y) };
        threads[i].lane = n % 32;
        threads[i].warp = n / 32;
    }
    take_dynamic(to_run.shared_bytes);

    const unsigned long gx = to_run.grid.x, gy = to_run.grid.y, blocks = gx * gy * to_run.grid.z;
    const unsigned some = blocks < ~0u ? (unsigned)blocks : ~0u;
    unsigned long at = 0, step = 1;
    backwards = stream_order() == ORDER_LAZY || double_random(2) == 1;
    if (stream_order() == ORDER_LAZY) {
        at = blocks - 1;
        step = blocks - 1;
    } else if (stream_order() == ORDER_RANDOM) {
        at = double_random(some);
        step = 1 + double_random(some);
    }
    while (common_divisor(step, blocks) != 1) step++;
    fibres->blocks = 0;
    order_grid(blocks, true);
    for (unsigned long k = 0; k < blocks; k++, at = (at + step) % blocks) {
        double_block = { (unsigned)(at % gx), (unsigned)(at / gx % gy), (unsigned)(at / (gx * gy)) };
        run_block(facts);
    }
    if (!give_dynamic(to_run.shared_bytes)) fail_in_kernel("it wrote past its dynamic shared memory");
    order_grid(blocks, false);
}

void double_barrier(const char *file, int line)
{
    thread &self = static_cast<thread &>(*double_self);
    const unsigned long mine = barriers % 2;
    order_before(points.barrier[mine]);
    if (at_barrier == 0) {
        barrier_file = file;
        barrier_line = line;
    } else if (!same_place(file, line, barrier_file, barrier_line)) {
        fail_apart(-1, barrier_file, barrier_line, file, line);
    }
    self.file = file;
    self.line = line;
    ready[self.warp] = ready[self.warp] & ~(1u << self.lane);
    if (++at_barrier == left) release_barrier();
    if (!(ready[self.warp] >> self.lane & 1)) give_way(self.on, (int)(self.warp * 32 + self.lane));
    order_after(points.barrier[mine]);
}

/* A shuffle orders no memory (CUDA C++ programming guide, warp shuffle functions); __syncwarp does. */
unsigned long long double_exchange(double_exchange_kind kind, unsigned mask, unsigned long long value,
    unsigned from, const char *file, int line)
{
    thread &self = static_cast<thread &>(*double_self);
    const unsigned w = self.warp, bit = 1u << self.lane;
    warp_exchange &warp = warps[w];
    const unsigned long mine = warp.count % 2;
    if (mask != ~0u) fail_in_kernel("a warp function with a mask other than 0xffffffff");
    if (kind == DOUBLE_SYNCWARP) order_before(points.warp[w][mine]);
    if (warp.arrived == 0) {
        warp.kind = kind;
        warp.file = file;
        warp.line = line;
    } else if (warp.kind != kind || !same_place(file, line, warp.file, warp.line)) {
        fail_apart((int)w, warp.file, warp.line, file, line);
    }
    self.file = file;
    self.line = line;
    warp.value[mine][self.lane] = value;
    warp.arrived |= bit;
    ready[w] = ready[w] & ~bit;
    if (warp.arrived == alive[w]) release_warp((int)w);
    if (!(ready[w] & bit)) give_way(self.on, (int)(w * 32 + self.lane));
    if (kind == DOUBLE_SYNCWARP) order_after(points.warp[w][mine]);
    return warp.came[mine] >> (from & 31) & 1 ? warp.value[mine][from & 31] : ~0ull;
}

unsigned double_votes(void)
{
    const warp_exchange &warp = warps[double_self->warp];
    const unsigned long last = (warp.count - 1) % 2;
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++)
        if ((warp.came[last] >> lane & 1) && warp.value[last][lane]) votes |= 1u << lane;
    return votes;
}

/* Fences are there for protocols by atomic operations, which ThreadSanitizer does not see as such: each is
   taken to follow all before it. */
void double_fence(void)
{
    order_after(grid_fence);
    order_before(grid_fence);
}
