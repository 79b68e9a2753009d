/* What the benchmarks share: a rate is measured in turn with what bounds it, mostly the device's FMA peak, so
   that both see the same machine, and reported as the median of the rounds. They are no tests: what they
   print depends on who else uses the machine. */
#pragma once
#include "device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 7, MOST_RESULTS = 512 };

/* One line of the table; rates in FLOP/s or bytes/s, peak: of what bounds them. */
struct result {
    char what[64];
    char variant[16];
    int threads;
    double rate, slowest, fastest, peak;       /* medians; slowest and fastest round */
    double share, least_share, greatest_share; /* of the peak of the same round: median, least, greatest */
};

struct results {
    struct result line[MOST_RESULTS];
    int count;
};

static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double values[ROUNDS])
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

/* What bounds a rate, measured now for about so many seconds. */
struct bound {
    double (*now)(struct device *device, void *argument, double seconds);
    void *argument;
};

/* Runs work(argument), which does `amount` operations or moves so many bytes, often enough to take some 60 ms
 * a round, the bound measured before and after it for as long together, and adds the line. */
static inline void measure_against(struct bound bound, struct results *results, struct device *device,
    const char *what, double amount, void (*work)(struct device *, void *), void *argument)
{
    work(device, argument); /* once for page faults and caches */
    double begin = seconds_now();
    work(device, argument);
    const double half = 0.03; /* seconds */
    const int repeats = 1 + (int)(2 * half / (seconds_now() - begin + 1e-9));
    double rate[ROUNDS], peak[ROUNDS], share[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        const double before = bound.now(device, bound.argument, half);
        begin = seconds_now();
        for (int i = 0; i < repeats; i++) work(device, argument);
        rate[round] = amount * repeats / (seconds_now() - begin);
        peak[round] = (before + bound.now(device, bound.argument, half)) / 2;
        share[round] = rate[round] / peak[round];
    }
    if (results->count == MOST_RESULTS) fail("a benchmark has more than %d lines", MOST_RESULTS);
    struct result *line = &results->line[results->count++];
    snprintf(line->what, sizeof line->what, "%s", what);
    snprintf(line->variant, sizeof line->variant, "%s", device->variant);
    line->threads = device->threads;
    line->rate = median(rate), line->slowest = rate[0], line->fastest = rate[ROUNDS - 1];
    line->peak = median(peak), line->share = median(share);
    line->least_share = share[0], line->greatest_share = share[ROUNDS - 1];
    printf("%-34s %-8s %7d %9.1f %6.1f-%-6.1f %8.1f %6.3f\n", line->what, line->variant, line->threads,
        line->rate / 1e9, line->slowest / 1e9, line->fastest / 1e9, line->peak / 1e9, line->share);
    fflush(stdout);
}

static inline double fma_peak(struct device *device, void *nothing, double seconds)
{
    (void)nothing;
    return device->measure_now(device, seconds);
}

/* As measure_against the FMA peak, of work that does so many operations. */
static inline void measure(struct results *results, struct device *device, const char *what, double flops,
    void (*work)(struct device *, void *), void *argument)
{
    measure_against((struct bound){ fma_peak, NULL }, results, device, what, flops, work, argument);
}

static inline void print_heading(const char *title, const char *unit, const char *bound)
{
    printf("%s; medians of %d rounds, each beside its bound (%s) of the moment\n", title, ROUNDS, bound);
    printf("%-34s %-8s %7s %9s %13s %8s %6s\n", "", "variant", "threads", unit, "min-max", bound, "share");
}

/* The results as JSON, where a path is given. */
static inline void write_results(const struct results *results, const char *benchmark, const char *path)
{
    if (!path) return;
    struct text text = { 0 };
    text_add(&text,
        "{\n  \"benchmark\": \"%s\",\n  \"version\": \"%s\",\n  \"commit\": \"%s\",\n  \"results\": [",
        benchmark, pipeleaf_version, pipeleaf_commit);
    for (int i = 0; i < results->count; i++) {
        const struct result *r = &results->line[i];
        text_add(&text,
            "%s\n    {\"what\": \"%s\", \"variant\": \"%s\", \"threads\": %d, \"rate\": %.6e, "
            "\"slowest\": %.6e, "
            "\"fastest\": %.6e, \"peak\": %.6e, \"share_of_peak\": %.4f, \"least_share\": %.4f, "
            "\"greatest_share\": %.4f}",
            i ? "," : "", r->what, r->variant, r->threads, r->rate, r->slowest, r->fastest, r->peak, r->share,
            r->least_share, r->greatest_share);
    }
    text_add(&text, "\n  ]\n}\n");
    write_whole_file(path, text.data, text.length);
    text_free(&text);
}

/* The command line: [--threads N] [--json PATH]; by default 1 thread, then 2. */
struct command {
    int threads[2], count;
    const char *json;
};

static inline struct command read_command(int count, char **arguments)
{
    struct command c = { .threads = { 1, 2 }, .count = 2 };
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--threads") == 0 && i + 1 < count && atoi(arguments[i + 1]) > 0) {
            c.threads[0] = atoi(arguments[++i]);
            c.count = 1;
        } else if (strcmp(arguments[i], "--json") == 0 && i + 1 < count) {
            c.json = arguments[++i];
        } else {
            fail("%s: '%s': usage: %s [--threads N] [--json PATH]; PIPELEAF_INSTRUCTION_SET chooses the "
                 "variant",
                arguments[0], arguments[i], arguments[0]);
        }
    }
    return c;
}

static inline struct device *open_device(struct device_request request, int threads)
{
    struct device *device;
    struct text error = { 0 };
    request.kind = "host";
    request.threads = threads;
    if (!device_open(&request, &device, &error)) fail("%s", error.data);
    return device;
}

/* Numbers of [-1, 1) in device memory. */
static inline float *numbers(struct device *device, size_t count)
{
    float *x = device->allocate(device, count * sizeof(float));
    device->random(device, &(struct random){ .seed = 1, .deviation = 0.57f }, count, x);
    return x;
}
