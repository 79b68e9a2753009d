#include "device/ordinary.h"
#include "device/host/control.h"
#include "device/team.h"
#include <assert.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 256, HUGE_PAGE = 2 << 20 };

struct event {
    double seconds;
    bool recorded;
};

/* The thread's share of `bytes`, in whole pages: from *first up to the result. */
static size_t share_of_thread(size_t bytes, size_t *first)
{
    const size_t page = 4096, pages = (bytes + page - 1) / page;
    const size_t thread = (size_t)omp_get_thread_num(), threads = (size_t)omp_get_num_threads();
    const size_t begin = pages * thread / threads * page, end = pages * (thread + 1) / threads * page;
    *first = begin < bytes ? begin : bytes;
    return end < bytes ? end : bytes;
}

static void zero_share(void *memory, size_t bytes)
{
    size_t first;
    const size_t end = share_of_thread(bytes, &first);
    memset((char *)memory + first, 0, end - first);
}

static void zero(struct device *device, void *memory, size_t bytes)
{
    IN_TEAM(device->threads, zero_share(memory, bytes));
}

void *ordinary_block(size_t bytes)
{
    const size_t alignment = bytes >= HUGE_PAGE ? HUGE_PAGE : ALIGNMENT;
    const size_t rounded = bytes + (alignment - bytes % alignment) % alignment;
    void *block = rounded >= bytes ? aligned_alloc(alignment, rounded ? rounded : alignment) : NULL;
#if defined(MADV_HUGEPAGE)
    if (block && alignment == HUGE_PAGE)
        (void)madvise(block, rounded, MADV_HUGEPAGE); /* advice: may be refused */
#endif
    return block;
}

/* Zeroed, its pages first touched by the threads that will use them. The size lies in front, in a block of
 * its own. */
static void *allocate_memory(struct device *device, size_t bytes)
{
    const size_t rounded = bytes + (ALIGNMENT - bytes % ALIGNMENT) % ALIGNMENT;
    char *block =
        rounded < SIZE_MAX - ALIGNMENT && rounded >= bytes ? ordinary_block(rounded + ALIGNMENT) : NULL;
    if (!block) fail("device '%s': out of memory: %zu bytes", device->kind, bytes);
    memcpy(block, &bytes, sizeof bytes);
    zero(device, block + ALIGNMENT, rounded);
    ((struct ordinary_device *)device)->held += bytes;
    return block + ALIGNMENT;
}

static void release_memory(struct device *device, void *memory)
{
    if (!memory) return;
    char *block = (char *)memory - ALIGNMENT;
    size_t bytes;
    memcpy(&bytes, block, sizeof bytes);
    struct ordinary_device *ordinary = (struct ordinary_device *)device;
    assert(ordinary->held >= bytes);
    ordinary->held -= bytes;
    free(block);
}

static size_t held(const struct device *device)
{
    return ((const struct ordinary_device *)device)->held;
}

static void copy_share(void *to, const void *from, size_t bytes)
{
    size_t first;
    const size_t end = share_of_thread(bytes, &first);
    memcpy((char *)to + first, (const char *)from + first, end - first);
}

static void copy(struct device *device, void *to, const void *from, size_t bytes)
{
    IN_TEAM(bytes > 1 << 20 ? device->threads : 1, copy_share(to, from, bytes));
}

static struct event *event_create(struct device *device)
{
    (void)device;
    return allocate(1, sizeof(struct event));
}

static void event_destroy(struct device *device, struct event *event)
{
    (void)device;
    free(event);
}

static void event_record(struct device *device, struct event *event)
{
    (void)device;
    *event = (struct event){ .seconds = seconds_now(), .recorded = true };
}

static bool event_reached(struct device *device, struct event *event)
{
    (void)device;
    return event->recorded;
}

static double event_seconds(struct device *device, struct event *event)
{
    (void)device;
    assert(event->recorded);
    return event->seconds;
}

static void synchronize(struct device *device)
{
    (void)device;
}

static void *allocate_pinned(struct device *device, size_t bytes)
{
    (void)device;
    return allocate(bytes, 1);
}

static void release_pinned(struct device *device, void *memory)
{
    (void)device;
    free(memory);
}

static void start_clock(struct device *device)
{
    (void)device;
}

static void store_word(struct device *device, int *word, int value)
{
    (void)device;
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

static void range_push(struct device *device, const char *name)
{
    (void)device, (void)name;
}

static void range_pop(struct device *device)
{
    (void)device;
}

/* Nothing of reduced precision is computed in the process's own memory. */
static size_t operand_bytes(const struct device *device, size_t count)
{
    (void)device, (void)count;
    return 0;
}

static void operand_make(struct device *device, size_t count, const float *weights, void *operand)
{
    (void)device, (void)count, (void)weights, (void)operand;
}

static void round_boundary(struct device *device, size_t count, float *x)
{
    (void)device, (void)count, (void)x;
}

static void pack_message(struct device *device, size_t count, const float *x, void *message)
{
    copy(device, message, x, count * sizeof *x);
}

static void unpack_message(struct device *device, size_t count, const void *message, float *x)
{
    copy(device, x, message, count * sizeof *x);
}

static void describe(const struct device *device, struct text *lines)
{
    (void)device, (void)lines;
}

static void check_arithmetic(struct device *device)
{
    control_check(device->threads);
}

static void flip_bit(struct device *device, float *x, uint64_t element, int bit)
{
    (void)device;
    assert(bit >= 0 && bit < 32);
    uint32_t bits;
    memcpy(&bits, x + element, sizeof bits);
    bits ^= 1u << bit;
    memcpy(x + element, &bits, sizeof bits);
}

/* The best of the passes that fit into 0.1 s, over arrays larger than most caches. */
static double measure_copy(struct device *device)
{
    const size_t bytes = (size_t)64 << 20;
    void *from = allocate_memory(device, bytes), *to = allocate_memory(device, bytes);
    double best = 0.0;
    const double begin = seconds_now();
    for (double start = begin, end; start < begin + 0.1; start = end) {
        copy(device, to, from, bytes);
        end = seconds_now();
        const double rate = 2.0 * (double)bytes / (end - start);
        best = rate > best ? rate : best;
    }
    release_memory(device, to);
    release_memory(device, from);
    return best;
}

void ordinary_functions(struct ordinary_device *ordinary)
{
    struct device *device = &ordinary->device;
    device->precision = PRECISION_FP32;
    device->is_host = true;
    snprintf(device->arithmetic, sizeof device->arithmetic, "portable");
    device->describe = describe;
    device->allocate = allocate_memory;
    device->release = release_memory;
    device->held = held;
    device->copy = device->download = device->upload = copy;
    device->zero = zero;
    device->allocate_pinned = allocate_pinned;
    device->release_pinned = release_pinned;
    device->event_create = event_create;
    device->event_destroy = event_destroy;
    device->event_record = event_record;
    device->event_reached = event_reached;
    device->event_seconds = event_seconds;
    device->synchronize = synchronize;
    device->start_clock = start_clock;
    device->store_word = store_word;
    device->range_push = range_push;
    device->range_pop = range_pop;
    device->operand_bytes = operand_bytes;
    device->operand_make = operand_make;
    device->round_boundary = round_boundary;
    device->pack_message = pack_message;
    device->unpack_message = unpack_message;
    device->check_arithmetic = check_arithmetic;
    device->flip_bit = flip_bit;
    device->measure_copy = measure_copy;
}
