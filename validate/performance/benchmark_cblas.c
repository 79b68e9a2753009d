/* The matrix product beside that of CBLAS libraries, which are opened at run time: nothing of the program is
   linked to one. For each shape, in each round, every side computes the same product in turn, on one thread;
   the ratio is our rate over that of the library that is fastest at this shape. Times are of the process's
   CPUs, so that a library that starts a second thread pays for it, and others' work on the machine counts for
   less.

   usage: benchmark_cblas [--rounds N] [--hidden LEAST-MOST] [--tokens N] [--json PATH] --library 'NAME=VALUE
   ... PATH' ... NAME=VALUE: set in the environment while the library is loaded (OPENBLAS_CORETYPE=SkylakeX).
   Every library is to be told to use one thread. */
#include "benchmark.h"
#include "gemm_shapes.h"
#include <dlfcn.h>
#include <math.h>
#include <time.h>

enum { MOST_LIBRARIES = 6, MOST_ROUNDS = 25, ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

/* cblas_sgemm with int arguments, and with 64-bit ones. */
typedef void sgemm_int(int order, int a_as, int b_as, int m, int n, int k, float alpha, const float *a,
    int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void sgemm_long(int order, int a_as, int b_as, int64_t m, int64_t n, int64_t k, float alpha,
    const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

struct library {
    char name[96]; /* what it says of itself */
    sgemm_int *of_int;
    sgemm_long *of_long;
};

/* Functions come out of dlsym as data pointers: POSIX makes the conversion right, ISO C has none. */
static bool find(void *library, const char *name, void *function)
{
    void *const found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* "OpenBLAS 0.3.29 ... SkylakeX", "oneMKL 2025.0 ...", "BLIS 0.9.0"; the path where it says nothing. */
static void name_library(struct library *library, void *handle, const char *path)
{
    static const char *const prefixes[] = { "", "scipy_" }, *const suffixes[] = { "", "64_" };
    char *(*text)(void);
    void (*mkl)(char *, int);
    const char *const file = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    snprintf(library->name, sizeof library->name, "%.60s", file);
    for (int i = 0; i < 4; i++) {
        char config[64], core[64];
        snprintf(config, sizeof config, "%sopenblas_get_config%s", prefixes[i / 2], suffixes[i % 2]);
        snprintf(core, sizeof core, "%sopenblas_get_corename%s", prefixes[i / 2], suffixes[i % 2]);
        if (!find(handle, config, &text)) continue;
        char version[16];
        snprintf(version, sizeof version, "%s", text() + strcspn(text(), "0123456789"));
        version[strcspn(version, " ")] = 0;
        snprintf(library->name, sizeof library->name, "OpenBLAS %s %.40s", version,
            find(handle, core, &text) ? text() : "");
    }
    if (find(handle, "mkl_get_version_string", &mkl) || find(handle, "MKL_Get_Version_String", &mkl)) {
        char version[200] = "";
        mkl(version, sizeof version - 1);
        const char *number = strstr(version, "Version");
        number = number ? number + 8 : "";
        snprintf(library->name, sizeof library->name, "MKL %.*s", (int)strcspn(number, " -"), number);
    }
    if (find(handle, "bli_info_get_version_str", &text))
        snprintf(library->name, sizeof library->name, "BLIS %.40s", text());
}

/* settings_and_path: 'NAME=VALUE ... PATH'. */
static struct library open_library(char *settings_and_path)
{
    struct library library = { 0 };
    const char *path = "";
    for (char *word = strtok(settings_and_path, " "); word; word = strtok(NULL, " ")) {
        char *const equals = strchr(word, '=');
        path = word;
        if (!equals) continue;
        *equals = 0;
        if (setenv(word, equals + 1, 1) != 0) fail("cannot set '%s'", word);
    }
    void *const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) fail("%s", dlerror());
    if (!find(handle, "cblas_sgemm", &library.of_int) &&
        !find(handle, "scipy_cblas_sgemm", &library.of_int) &&
        !find(handle, "cblas_sgemm64_", &library.of_long) &&
        !find(handle, "scipy_cblas_sgemm64_", &library.of_long))
        fail("'%s' has no cblas_sgemm", path);
    name_library(&library, handle, path);
    return library;
}

static void multiply(const struct library *library, struct device *device, struct gemm *g)
{
    const int a_as = g->form == GEMM_TN ? TRANSPOSED : AS_IT_IS,
              b_as = g->form == GEMM_NT ? TRANSPOSED : AS_IT_IS;
    const size_t lda = g->form == GEMM_TN ? g->m : g->k, ldb = g->form == GEMM_NT ? g->k : g->n;
    const float beta = g->accumulate ? 1 : 0;
    if (!library)
        device->gemm(device, g);
    else if (library->of_int)
        library->of_int(ROW_MAJOR, a_as, b_as, (int)g->m, (int)g->n, (int)g->k, 1, g->a, (int)lda, g->b,
            (int)ldb, beta, g->c, (int)g->n);
    else
        library->of_long(ROW_MAJOR, a_as, b_as, (int64_t)g->m, (int64_t)g->n, (int64_t)g->k, 1, g->a,
            (int64_t)lda, g->b, (int64_t)ldb, beta, g->c, (int64_t)g->n);
}

static double cpu_seconds(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) != 0) fail("no clock of the process's CPU time");
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Fails unless the library makes our product but for rounding. */
static void compare(const struct library *library, struct device *device, struct gemm *g, float *theirs)
{
    float *const ours = g->c;
    const size_t count = g->m * g->n;
    memcpy(theirs, ours, count * sizeof *ours);
    multiply(NULL, device, g);
    g->c = theirs;
    multiply(library, device, g);
    g->c = ours;
    double difference = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        difference += ((double)ours[i] - (double)theirs[i]) * ((double)ours[i] - (double)theirs[i]);
        size += (double)ours[i] * (double)ours[i];
    }
    if (!(sqrt(difference) <= 1e-5 * sqrt(size)))
        fail("%s: m=%zu n=%zu k=%zu: another product: they differ by %g of its norm", library->name, g->m,
            g->n, g->k, sqrt(difference / size));
}

struct line {
    char what[64], best[96];
    bool of_layer;
    double ours, rate[MOST_LIBRARIES]; /* medians, FLOP/s */
    double ratio, least, greatest;     /* our rate over the best library's, in the same round */
};

static double middle(const double *values, int count, double *least, double *greatest)
{
    double sorted[MOST_CASES];
    memcpy(sorted, values, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    *least = sorted[0], *greatest = sorted[count - 1];
    return count % 2 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

static struct line measure_case(
    struct device *device, const struct library *libraries, int count, const struct gemm_case *c, int rounds)
{
    struct line line = { .of_layer = c->of_layer };
    gemm_case_name(c, line.what, sizeof line.what);
    float *a = numbers(device, c->m * c->k), *b = numbers(device, c->n * c->k),
          *out = numbers(device, c->m * c->n), *other = numbers(device, c->m * c->n);
    struct gemm g = { .form = c->form,
        .m = c->m,
        .n = c->n,
        .k = c->k,
        .a = a,
        .b = b,
        .c = out,
        .accumulate = c->accumulate };
    const double flops = 2.0 * (double)c->m * (double)c->n * (double)c->k;
    for (int i = 0; i < count; i++) compare(&libraries[i], device, &g, other);

    double seconds[MOST_LIBRARIES + 1][MOST_ROUNDS]; /* the first is ours */
    double begin = cpu_seconds();
    multiply(NULL, device, &g);
    const int repeats = 1 + (int)(0.02 / (cpu_seconds() - begin + 1e-9));
    for (int round = 0; round < rounds; round++) {
        for (int side = 0; side <= count; side++) {
            /* Who comes first changes from round to round. */
            const int who = (side + round) % (count + 1);
            begin = cpu_seconds();
            for (int i = 0; i < repeats; i++) multiply(who ? &libraries[who - 1] : NULL, device, &g);
            seconds[who][round] = (cpu_seconds() - begin) / repeats;
        }
    }
    double least, greatest;
    line.ours = flops / middle(seconds[0], rounds, &least, &greatest);
    int best = 0;
    for (int i = 0; i < count; i++) {
        line.rate[i] = flops / middle(seconds[i + 1], rounds, &least, &greatest);
        if (line.rate[i] > line.rate[best]) best = i;
    }
    double ratio[MOST_ROUNDS];
    for (int round = 0; round < rounds; round++) ratio[round] = seconds[best + 1][round] / seconds[0][round];
    line.ratio = middle(ratio, rounds, &line.least, &line.greatest);
    snprintf(line.best, sizeof line.best, "%s", libraries[best].name);
    float *const all[] = { a, b, out, other };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) device->release(device, all[i]);
    return line;
}

static void write_lines(const char *path, const struct line *lines, int count,
    const struct library *libraries, int library_count, int rounds)
{
    struct text text = { 0 };
    text_add(&text, "{\n  \"benchmark\": \"cblas\",\n  \"rounds\": %d,\n  \"libraries\": [", rounds);
    for (int i = 0; i < library_count; i++) text_add(&text, "%s\"%s\"", i ? ", " : "", libraries[i].name);
    text_add(&text, "],\n  \"results\": [");
    for (int i = 0; i < count; i++) {
        text_add(&text,
            "%s\n    {\"what\": \"%s\", \"of_layer\": %s, \"flops_per_second\": %.6e, \"best\": \"%s\", "
            "\"ratio\": %.4f, \"least\": %.4f, \"greatest\": %.4f, \"libraries_flops_per_second\": [",
            i ? "," : "", lines[i].what, lines[i].of_layer ? "true" : "false", lines[i].ours, lines[i].best,
            lines[i].ratio, lines[i].least, lines[i].greatest);
        for (int l = 0; l < library_count; l++) text_add(&text, "%s%.6e", l ? ", " : "", lines[i].rate[l]);
        text_add(&text, "]}");
    }
    text_add(&text, "\n  ]\n}\n");
    write_whole_file(path, text.data, text.length);
    text_free(&text);
}

/* Median, least and greatest of the ratios, of all shapes or of a layer's alone. */
static void print_median(const char *what, const struct line *lines, int count, bool of_layer)
{
    double ratio[MOST_CASES], least, greatest;
    int used = 0;
    for (int i = 0; i < count; i++)
        if (lines[i].of_layer || !of_layer) ratio[used++] = lines[i].ratio;
    if (used == 0) return;
    const double median_ratio = middle(ratio, used, &least, &greatest);
    printf("%s: median ratio %.3f, least %.3f, greatest %.3f, of %d shapes\n", what, median_ratio, least,
        greatest, used);
}

int main(int argument_count, char **arguments)
{
    struct library libraries[MOST_LIBRARIES];
    int library_count = 0, rounds = 7;
    size_t least = 0, most = SIZE_MAX, tokens = TOKENS;
    const char *json = NULL;
    for (int i = 1; i < argument_count; i++) {
        const bool valued = i + 1 < argument_count;
        if (valued && strcmp(arguments[i], "--library") == 0 && library_count < MOST_LIBRARIES)
            libraries[library_count++] = open_library(arguments[++i]);
        else if (valued && strcmp(arguments[i], "--json") == 0)
            json = arguments[++i];
        else if (valued && strcmp(arguments[i], "--rounds") == 0 && atoi(arguments[i + 1]) > 0 &&
                 atoi(arguments[i + 1]) <= MOST_ROUNDS)
            rounds = atoi(arguments[++i]);
        else if (valued && strcmp(arguments[i], "--hidden") == 0 &&
                 sscanf(arguments[i + 1], "%zu-%zu", &least, &most) == 2)
            i++;
        else if (valued && strcmp(arguments[i], "--tokens") == 0 && atoi(arguments[i + 1]) > 0)
            tokens = (size_t)atoi(arguments[++i]);
        else
            fail("%s: '%s': usage: %s [--rounds 1..%d] [--hidden LEAST-MOST] [--tokens N] [--json PATH] "
                 "--library "
                 "'NAME=VALUE "
                 "... PATH' (1 to %d of them)",
                arguments[0], arguments[i], arguments[0], MOST_ROUNDS, MOST_LIBRARIES);
    }
    if (library_count == 0) fail("%s: no --library to compare with", arguments[0]);

    const struct device_request request = {
        .microbatch_size = 1, .sequence = 512, .hidden = 1024, .heads = 16, .ffn = 4096
    };
    struct device *device = open_device(request, 1);
    struct gemm_case cases[MOST_CASES];
    static struct line lines[MOST_CASES];
    const int count = gemm_cases(cases, tokens, least, most);
    if (count == 0) fail("no hidden size of a shape is in %zu-%zu", least, most);
    printf("C[m,n] = A B on one thread, GFLOP/s; +: continued; medians of %d rounds in turn; ours: %s\n%-30s "
           "%8s",
        rounds, device->name, "", "ours");
    for (int i = 0; i < library_count; i++) printf("  %24.24s", libraries[i].name);
    printf("  %s\n", "ours/best (min-max)");
    for (int i = 0; i < count; i++) {
        lines[i] = measure_case(device, libraries, library_count, &cases[i], rounds);
        printf("%-30s %8.1f", lines[i].what, lines[i].ours / 1e9);
        for (int l = 0; l < library_count; l++) printf("  %24.1f", lines[i].rate[l] / 1e9);
        printf("  %.3f (%.3f-%.3f)\n", lines[i].ratio, lines[i].least, lines[i].greatest);
        fflush(stdout);
    }
    print_median("a layer's shapes", lines, count, true);
    print_median("all shapes", lines, count, false);
    if (json) write_lines(json, lines, count, libraries, library_count, rounds);
    device->close(device);
    return 0;
}
