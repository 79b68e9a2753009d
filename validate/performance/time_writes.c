/* Loaded before the C library (LD_PRELOAD) by benchmark_output.py: how long the kernel takes what a process
   writes by pwrite and puts on the disk by sync_file_range and fsync. At the process's end "seconds bytes" of
   all together are written to the file that PIPELEAF_WRITES names. HDF5's default driver writes by pwrite
   alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double seconds, bytes;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static ssize_t note(double begin, ssize_t wrote)
{
    seconds += now() - begin;
    if (wrote > 0) bytes += (double)wrote;
    return wrote;
}

ssize_t pwrite64(int file, const void *data, size_t count, off64_t at)
{
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pwrite64");
    const double begin = now();
    return note(begin, next(file, data, count, at));
}

ssize_t pwrite(int file, const void *data, size_t count, off_t at)
{
    return pwrite64(file, data, count, at);
}

int sync_file_range(int file, off64_t from, off64_t count, unsigned flags)
{
    static int (*next)(int, off64_t, off64_t, unsigned);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "sync_file_range");
    const double begin = now();
    const int result = next(file, from, count, flags);
    note(begin, 0);
    return result;
}

int fsync(int file)
{
    static int (*next)(int);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "fsync");
    const double begin = now();
    const int result = next(file);
    note(begin, 0);
    return result;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("PIPELEAF_WRITES");
    FILE *file = path && bytes > 0 ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%.6f %.0f\n", seconds, bytes);
    fclose(file);
}
