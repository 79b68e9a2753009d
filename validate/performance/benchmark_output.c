/* How fast tensors reach the disk through report/output.c, against write() of the same bytes and against `cp`
   of the file that they made, all up to fsync and on the same file system, in turn. usage: benchmark_output
   DIRECTORY [MiB]   prints one line a round and the medians of the ratios; --json as in the others */
#include "report/listing.h"
#include "report/output.h"
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static double write_file(const char *path, const struct facts *facts, const float *data, int tensors)
{
    const double start = seconds_now();
    struct output *output = output_create(path, facts);
    for (int i = 0; i < tensors; i++) output_tensor(output, (struct tensor){ TENSOR_ACTIVATION, 0, i }, data);
    output_finish(output);
    return seconds_now() - start;
}

/* The same tensors with nothing around them. */
static double write_plainly(const char *path, const float *data, size_t bytes, int tensors)
{
    const double start = seconds_now();
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    bool good = file >= 0;
    for (int i = 0; i < tensors && good; i++)
        for (size_t at = 0; at < bytes && good;) {
            const ssize_t wrote = write(file, (const char *)data + at, bytes - at);
            good = wrote > 0;
            if (good) at += (size_t)wrote;
        }
    if (!good || fsync(file) != 0) fail("cannot write '%s'", path);
    close(file);
    return seconds_now() - start;
}

/* cp, then fsync of the copy. */
static double copy_file(const char *from, const char *to)
{
    const double start = seconds_now();
    const pid_t child = fork();
    if (child == 0) {
        execlp("cp", "cp", from, to, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("cp '%s' '%s' failed", from, to);
    const int file = open(to, O_RDONLY);
    if (file < 0 || fsync(file) != 0) fail("cannot fsync '%s'", to);
    close(file);
    return seconds_now() - start;
}

int main(int argc, char **argv)
{
    enum { ROUNDS = 7 };
    const char *directory = argc > 1 ? argv[1] : ".";
    const int mebibytes = argc > 2 ? atoi(argv[2]) : 512;
    const char *json = argc > 4 && strcmp(argv[3], "--json") == 0 ? argv[4] : NULL;
    struct facts facts = { .kind = "run",
        .run_id = "benchmark",
        .identity = "",
        .deck = "",
        .deck_sha256 = "",
        .host = "",
        .device = "",
        .device_uuid = "",
        .cpus = "",
        .compiler = "",
        .libraries = "",
        .ranks = 1,
        .chunks_per_rank = 1,
        .threads = 1,
        .recorded_step = 1,
        .model = { .layers = 1,
            .hidden = 1024,
            .heads = 16,
            .ffn = 4096,
            .sequence = 512,
            .microbatches = mebibytes / 2,
            .microbatch_size = 1 } };
    const size_t elements = boundary_size(&facts.model); /* 2 MiB */
    float *data = allocate(elements, sizeof *data);
    for (size_t i = 0; i < elements; i++) data[i] = (float)i;
    struct text from = { 0 }, to = { 0 }, plain = { 0 };
    text_add(&from, "%s/benchmark_output.h5", directory);
    text_add(&to, "%s/benchmark_output.copy", directory);
    text_add(&plain, "%s/benchmark_output.plain", directory);

    double of_plain[ROUNDS], of_copy[ROUNDS], written[ROUNDS], plainly[ROUNDS], copied[ROUNDS];
    const double bytes = (double)elements * sizeof(float) * facts.model.microbatches;
    for (int round = 0; round < ROUNDS; round++) {
        unlink(from.data);
        unlink(to.data);
        unlink(plain.data);
        plainly[round] =
            bytes / write_plainly(plain.data, data, elements * sizeof(float), facts.model.microbatches);
        written[round] = bytes / write_file(from.data, &facts, data, facts.model.microbatches);
        copied[round] = bytes / copy_file(from.data, to.data);
        of_plain[round] = written[round] / plainly[round];
        of_copy[round] = written[round] / copied[round];
        printf("round %d: HDF5 %.0f MB/s; write() %.0f MB/s, ratio %.2f; cp %.0f MB/s, ratio %.2f\n",
            round + 1, written[round] * 1e-6, plainly[round] * 1e-6, of_plain[round], copied[round] * 1e-6,
            of_copy[round]);
    }
    unlink(from.data);
    unlink(to.data);
    unlink(plain.data);
    const struct spread p = spread_of(of_plain, ROUNDS), r = spread_of(of_copy, ROUNDS),
                        w = spread_of(written, ROUNDS), q = spread_of(plainly, ROUNDS),
                        c = spread_of(copied, ROUNDS);
    printf("HDF5 output of %d MiB: median %.0f MB/s; write() %.0f MB/s, ratio median %.2f, min %.2f, max "
           "%.2f (at least "
           "0.80: %s); cp %.0f MB/s, ratio median %.2f, min %.2f, max %.2f\n",
        mebibytes, w.median * 1e-6, q.median * 1e-6, p.median, p.min, p.max,
        p.median >= 0.8 ? "met" : "MISSED", c.median * 1e-6, r.median, r.min, r.max);
    if (json) {
        struct text out = { 0 };
        text_add(&out,
            "{\"mebibytes\": %d, \"hdf5_bytes_per_second\": %.6g, \"write_bytes_per_second\": %.6g, "
            "\"cp_bytes_per_second\": %.6g, \"of_write_median\": %.4f, \"of_write_min\": %.4f, "
            "\"of_write_max\": %.4f, "
            "\"ratio_median\": %.4f, \"ratio_min\": %.4f, \"ratio_max\": %.4f}\n",
            mebibytes, w.median, q.median, c.median, p.median, p.min, p.max, r.median, r.min, r.max);
        write_whole_file(json, out.data, out.length);
        text_free(&out);
    }
    text_free(&plain);
    text_free(&from);
    text_free(&to);
    free(data);
    return 0;
}
