/* Loaded before the MPI library (LD_PRELOAD), between it and the program: notes who allocates, and between
   which two of the job's barriers, of which each step has one before it. MPI_Finalize writes what was found
   to the file that PIPELEAF_ALLOCATIONS names, followed by a dot and the rank:

       stretch 20            the longest row of intervals in which the program allocated nothing
       unnoted 0             allocations that the log had no room for: with any, the rest means nothing
       mpi main OBJECT 12    what an object of the MPI library did in them; openmp: of OpenMP's
       program main OBJECT 3 in interval 2      what any other object did in an interval

   A step that allocated would show in every interval of its loop, and the stretch would be 0. What the two
   libraries do within their calls is theirs, and is counted apart by the object that called the allocator. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* glibc's own, under the names that nobody stands before. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

/* --- the log --- */

enum { ROOM = 1 << 19 };
struct note {
    void *caller;
    int interval;
    bool on_main;
};
static struct note notes[ROOM];
static atomic_int noted, interval; /* interval: barriers so far; 0, before the first, is not noted */

static void note(void *caller)
{
    const int now = atomic_load_explicit(&interval, memory_order_relaxed);
    if (now == 0) return;
    const int place = atomic_fetch_add(&noted, 1);
    if (place < ROOM)
        notes[place] =
            (struct note){ .caller = caller, .interval = now, .on_main = syscall(SYS_gettid) == getpid() };
}

/* --- between the program and the C library --- */

void *malloc(size_t size)
{
    note(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

void *memalign(size_t alignment, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    note(__builtin_return_address(0));
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
    note(__builtin_return_address(0));
    void *block = __libc_memalign(alignment, size);
    if (!block) return ENOMEM;
    *memory = block;
    return 0;
}

void *mmap(void *address, size_t length, int protection, int flags, int file, off_t offset)
{
    note(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int file, off64_t offset)
{
    note(__builtin_return_address(0));
    return (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset);
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request *request)
{
    atomic_fetch_add(&interval, 1);
    return PMPI_Ibarrier(communicator, request);
}

/* --- what was found --- */

/* The file that the code at an address came from. */
static const char *object_of(void *address)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "unknown";
}

enum owner { PROGRAM, MPI, OPENMP };
static const char *const owner_name[] = { [PROGRAM] = "program", [MPI] = "mpi", [OPENMP] = "openmp" };

static enum owner owner_of(const char *object)
{
    static const struct {
        const char *part;
        enum owner owner;
    } known[] = { { "/libgomp", OPENMP }, { "/libomp", OPENMP }, { "/libiomp", OPENMP }, { "/libmpi", MPI },
        { "/libopen-", MPI }, { "/mca_", MPI }, { "/openmpi/", MPI }, { "/libpmix", MPI }, { "/pmix", MPI },
        { "/libprrte", MPI }, { "/libevent", MPI }, { "/libhwloc", MPI }, { "/libucp", MPI },
        { "/libuct", MPI }, { "/libucs", MPI }, { "/libucm", MPI }, { "/libfabric", MPI }, { "/libpsm", MPI },
        { "/libibverbs", MPI } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(object, known[i].part)) return known[i].owner;
    return PROGRAM;
}

/* One line: an object's allocations on one kind of thread, in one interval (0: in the stretch). */
struct count {
    const char *object;
    int interval, count;
    bool on_main;
};
enum { LINES = 4096 };
struct counts {
    struct count line[LINES];
    int used;
};

static void count_one(struct counts *counts, struct count one)
{
    for (int i = 0; i < counts->used; i++) {
        struct count *line = &counts->line[i];
        if (line->interval == one.interval && line->on_main == one.on_main &&
            !strcmp(line->object, one.object)) {
            line->count++;
            return;
        }
    }
    if (counts->used < LINES) counts->line[counts->used++] = one;
}

static void write_counts(FILE *file, const struct counts *counts)
{
    for (int i = 0; i < counts->used; i++) {
        const struct count *line = &counts->line[i];
        fprintf(file, "%s %s %s %d", owner_name[owner_of(line->object)], line->on_main ? "main" : "other",
            line->object, line->count);
        if (line->interval) fprintf(file, " in interval %d", line->interval);
        fprintf(file, "\n");
    }
}

static void write_found(FILE *file, int count, int intervals)
{
    static struct counts program, libraries;
    bool *dirty = calloc((size_t)intervals + 1, sizeof *dirty);
    if (!dirty) return;
    for (int i = 0; i < count; i++) {
        const char *object = object_of(notes[i].caller);
        if (owner_of(object) != PROGRAM) continue;
        dirty[notes[i].interval] = true;
        count_one(&program, (struct count){ object, notes[i].interval, 1, notes[i].on_main });
    }
    int longest = 0, first = 0;
    for (int i = 1, length = 0; i < intervals;
         i++) { /* what comes after the last barrier lies between no two */
        length = dirty[i] ? 0 : length + 1;
        if (length > longest) longest = length, first = i - length + 1;
    }
    for (int i = 0; i < count; i++) {
        const char *object = object_of(notes[i].caller);
        if (owner_of(object) != PROGRAM && notes[i].interval >= first && notes[i].interval < first + longest)
            count_one(&libraries, (struct count){ object, 0, 1, notes[i].on_main });
    }
    free(dirty);
    const int all = atomic_load(&noted);
    fprintf(file, "stretch %d\nunnoted %d\n", longest, all > ROOM ? all - ROOM : 0);
    write_counts(file, &libraries);
    write_counts(file, &program);
}

int MPI_Finalize(void)
{
    const char *name = getenv("PIPELEAF_ALLOCATIONS");
    const int count = atomic_load(&noted) < ROOM ? atomic_load(&noted) : ROOM;
    const int intervals = atomic_exchange(&interval, 0); /* nothing is noted any more */
    int rank = 0;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (name) {
        char path[4096];
        snprintf(path, sizeof path, "%s.%d", name, rank);
        FILE *file = fopen(path, "w");
        if (file) {
            write_found(file, count, intervals);
            fclose(file);
        }
    }
    return PMPI_Finalize();
}
