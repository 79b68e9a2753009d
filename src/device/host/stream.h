/* Results of which caches would keep little are streamed: written to memory past the caches. Then memory is
   not read first for what is overwritten, which of a kernel that reads one tensor and writes one is a third
   of the traffic. A part of the result is computed in the first cache and goes out from there. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum {
    STREAMED_FROM = 8 << 20, /* floats, 32 MiB: a last cache that eight cores of today share */
    STREAM_LINE = 16,        /* floats of a cache line */
    STREAM_PART = 256        /* floats computed before they go out */
};

/* Whether a result of `count` floats is streamed, in rows of `row`: all of them begin with a cache line. */
static inline bool is_streamed(size_t count, size_t row, const float *result)
{
#if defined(__SSE2__)
    return count >= STREAMED_FROM && row % STREAM_LINE == 0 && (uintptr_t)result % (4 * STREAM_LINE) == 0;
#else
    (void)count, (void)row, (void)result;
    return false;
#endif
}

/* to[i] = from[i], i < count: whole lines past the caches, the rest as ever. Both begin with a line. */
static inline void stream(size_t count, float *to, const float *from)
{
    const size_t lines = count - count % STREAM_LINE;
#if defined(__AVX512F__)
    for (size_t i = 0; i < lines; i += 16) _mm512_stream_ps(to + i, _mm512_load_ps(from + i));
#elif defined(__AVX__)
    for (size_t i = 0; i < lines; i += 8) _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
#elif defined(__SSE2__)
    for (size_t i = 0; i < lines; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
#else
    memcpy(to, from, lines * sizeof *to);
#endif
    if (lines < count) memcpy(to + lines, from + lines, (count - lines) * sizeof *to);
}

/* By each thread after its last stream(), before it tells another that the result is there. */
static inline void stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}
