/* What every part needs: the exit codes, the one way to fail, checked memory, text, the clock. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" { /* CUDA sources are C++ */
#endif

enum exit_code {
    EXIT_DONE = 0,         /* done; where a verdict was asked for, it is SUCCESSFUL */
    EXIT_FAILED = 1,       /* bad deck, bad file, no device, MPI or NCCL error */
    EXIT_WRONG = 2,        /* VERIFICATION = UNSUCCESSFUL */
    EXIT_NOT_VERIFIED = 3, /* NOT PERFORMED though a verification was asked for by name */
    EXIT_TIMEOUT = 4,      /* the watchdog stopped a run that no longer moved */
    EXIT_SLOW = 5          /* right answer, below the deck's performance target */
};

/* Prints "pipeleaf: error: ..." as one line on standard error (the rank and host before the text once
   fail_identity was called) and ends the whole job with EXIT_FAILED, through the hook if one is set. */
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

/* The same, with another exit code. */
__attribute__((noreturn, format(printf, 2, 3))) void fail_with(enum exit_code code, const char *format, ...);

/* Sets how the job ends on failure (for example by MPI_Abort). The hook must not return. */
void fail_hook(void (*end_job)(int code));

/* Sets who speaks in fail's line: "rank 3 on node17". The text is copied. */
void fail_identity(const char *who);

/* count * size bytes, zeroed; an overflow or a lack of memory fails the job. Free with free(). */
void *allocate(size_t count, size_t size);

/* a * b, or failure of the job, naming what, where the product does not fit a size_t. */
size_t checked_product(size_t a, size_t b, const char *what);

/* Seconds on the monotonic clock of this host. */
double seconds_now(void);

/* Text that grows. Zero-initialise it; release it with text_free. `data` is never NULL after a text_add. */
struct text {
    char *data;
    size_t length, capacity;
};
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_list(struct text *text, const char *format, va_list arguments);
void text_free(struct text *text);

/* The whole file as text, or false with one line in *error ("cannot open 'x': No such file or directory"). */
bool text_read_file(struct text *text, const char *path, struct text *error);

/* Writes data to PATH under a temporary name beside it and renames it when whole; fails the job if it cannot.
 */
void write_whole_file(const char *path, const char *data, size_t length);

/* The nearest of `count` names to `name` by edit distance (Damerau-Levenshtein, case-insensitive), or NULL
   where none is near enough to be worth suggesting. */
const char *nearest_name(const char *name, const char *const *names, size_t count);

/* 64 hexadecimal digits and a zero: SHA-256 (FIPS 180-4, by OpenSSL) of the bytes. */
void sha256_hex(const void *data, size_t length, char hex[65]);

/* Whose it is: "OpenSSL 3.0.15 3 Sep 2024". */
const char *sha256_library(void);

extern const char *const pipeleaf_version; /* "0.1.0" */
extern const char
    *const pipeleaf_commit; /* "1a2b3c4d", with "+changes" where the tree was dirty, or "unknown" */
extern const char *const pipeleaf_date; /* of that commit: "2026-11-30", or "" where it is unknown */

#if defined(__cplusplus)
}
#endif
