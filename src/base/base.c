#include "base.h"
#include <ctype.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void (*end_job_hook)(int code);
static char identity[240];

void fail_hook(void (*end_job)(int code))
{
    end_job_hook = end_job;
}

void fail_identity(const char *who)
{
    snprintf(identity, sizeof identity, "%s: ", who);
}

static _Noreturn void fail_list(enum exit_code code, const char *format, va_list arguments)
{
    /* One write, so that the lines of several ranks do not mix. */
    char line[2048];
    int used = snprintf(line, sizeof line, "pipeleaf: error: %s", identity);
    const int more = vsnprintf(line + used, sizeof line - (size_t)used - 1, format, arguments);
    used = more < (int)sizeof line - used - 2 ? used + more : (int)sizeof line - 2;
    line[used++] = '\n';
    fflush(stdout);
    fwrite(line, 1, (size_t)used, stderr);
    fflush(stderr);
    if (end_job_hook) end_job_hook(code);
    exit(code);
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_list(EXIT_FAILED, format, arguments);
}

void fail_with(enum exit_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fail_list(code, format, arguments);
}

size_t checked_product(size_t a, size_t b, const char *what)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product))
        fail("%s: %zu times %zu does not fit the memory of any machine", what, a, b);
    return product;
}

void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);
    if (!memory) fail("out of memory: %zu times %zu bytes", count, size);
    return memory;
}

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void text_add_list(struct text *text, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const int more = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (more < 0) fail("cannot format '%s'", format);
    const size_t need = text->length + (size_t)more + 1;
    if (need > text->capacity) {
        text->capacity = need < 128 ? 256 : 2 * need;
        text->data = realloc(text->data, text->capacity);
        if (!text->data) fail("out of memory: %zu bytes", text->capacity);
    }
    vsnprintf(text->data + text->length, (size_t)more + 1, format, arguments);
    text->length += (size_t)more;
}

void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    text_add_list(text, format, arguments);
    va_end(arguments);
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}

bool text_read_file(struct text *text, const char *path, struct text *error)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        text_add(error, "cannot open '%s': %s", path, strerror(errno));
        return false;
    }
    char block[16384];
    size_t got;
    text_add(text, "%s", "");
    while ((got = fread(block, 1, sizeof block, file)) > 0) {
        if (text->length + got + 1 > text->capacity) {
            text->capacity = 2 * (text->length + got + 1);
            text->data = realloc(text->data, text->capacity);
            if (!text->data) fail("out of memory: %zu bytes", text->capacity);
        }
        memcpy(text->data + text->length, block, got);
        text->data[text->length += got] = 0;
    }
    const bool bad = ferror(file);
    if (bad) text_add(error, "cannot read '%s': %s", path, strerror(errno));
    fclose(file);
    return !bad;
}

void write_whole_file(const char *path, const char *data, size_t length)
{
    struct text temporary = { 0 };
    text_add(&temporary, "%s.part", path);
    FILE *file = fopen(temporary.data, "wb");
    if (!file) fail("cannot create '%s': %s", temporary.data, strerror(errno));
    if (fwrite(data, 1, length, file) != length || fflush(file) || fsync(fileno(file)) || fclose(file)) {
        const int why = errno;
        unlink(temporary.data);
        fail("cannot write '%s': %s", temporary.data, strerror(why));
    }
    if (rename(temporary.data, path))
        fail("cannot rename '%s' to '%s': %s", temporary.data, path, strerror(errno));
    text_free(&temporary);
}

/* Damerau-Levenshtein distance, restricted form (no substring edited twice). */
static size_t edit_distance(const char *a, const char *b)
{
    enum { LONGEST = 63 };
    size_t d[LONGEST + 1][LONGEST + 1];
    const size_t m = strnlen(a, LONGEST), n = strnlen(b, LONGEST);
    for (size_t i = 0; i <= m; i++) d[i][0] = i;
    for (size_t j = 0; j <= n; j++) d[0][j] = j;
    for (size_t i = 1; i <= m; i++)
        for (size_t j = 1; j <= n; j++) {
            const int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            size_t best = d[i - 1][j - 1] + (x != y);
            if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    return d[m][n];
}

const char *nearest_name(const char *name, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t least = strlen(name) / 2 + 2;
    for (size_t i = 0; i < count; i++) {
        const size_t distance = edit_distance(name, names[i]);
        if (distance < least) {
            least = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

void sha256_hex(const void *data, size_t length, char hex[65])
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (!EVP_Digest(data, length, hash, &size, EVP_sha256(), NULL) || size != 32)
        fail("OpenSSL cannot compute SHA-256");
    for (unsigned int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", hash[i]);
}

const char *sha256_library(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
