/* Every device that this machine can open: each variant of the host device with each number of threads. */
#pragma once
#include "device/device.h"
#include "device/arithmetic.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16 };

struct devices {
    int count;
    struct device *device[MOST_DEVICES];
};

/* threads: numbers of threads, ended by 0. Variants that this CPU lacks are named on standard output. */
static inline struct devices open_devices(struct device_request request, const int *threads)
{
    static const char *const variants[] = { "avx512", "avx2", "generic" };
    struct devices devices = { 0 };
    request.kind = "host";
    request.grain = 1; /* the smallest shapes are shared out, too */
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        setenv("PIPELEAF_INSTRUCTION_SET", variants[v], 1);
        for (const int *t = threads; *t; t++) {
            request.threads = *t;
            struct text error = { 0 };
            if (device_open(&request, &devices.device[devices.count], &error)) {
                devices.count++;
            } else {
                printf("not tested here: %s\n", error.data);
                text_free(&error);
                break;
            }
        }
    }
    unsetenv("PIPELEAF_INSTRUCTION_SET");
    return devices;
}

static inline void close_devices(struct devices *devices)
{
    for (int i = 0; i < devices->count; i++) devices->device[i]->close(devices->device[i]);
}

/* Equal bits; two NaNs are equal whatever their payloads, which differ by machine. The first difference is in
 * *at. */
static inline bool same_bits(const float *a, const float *b, size_t count, size_t *at)
{
    for (*at = 0; *at < count; ++*at)
        if (pl_canonical_bits(a[*at]) != pl_canonical_bits(b[*at])) return false;
    return true;
}

/* A sequence of 32-bit words for making test data (splitmix64, S. Vigna). */
static inline uint32_t next_word(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

/* How wild test data is: numbers of [-1, 1); these with zeros of both signs, denormals and large numbers
   among them; or with infinities and NaN too. */
enum wildness { TAME, WILD, BROKEN };

static inline void fill(float *x, size_t count, enum wildness wildness, uint64_t *state)
{
    static const float special[] = { -0.0f, 0.0f, 1e-45f, -1e-45f, 3e-39f, -1.17549435e-38f, 1e30f, -3e38f,
        1e-30f, -88.0f, 13.0f, -INFINITY, INFINITY, NAN };
    const uint32_t specials = wildness == BROKEN ? 14 : 11;
    for (size_t i = 0; i < count; i++) {
        x[i] = pl_uniform(next_word(state));
        const uint32_t word = next_word(state);
        if (wildness != TAME && word % 16 == 0) x[i] = special[word / 16 % specials];
    }
}
