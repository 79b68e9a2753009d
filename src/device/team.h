/* Work by several OpenMP threads. */
#pragma once
#include <stddef.h>

/* The call by a team of so many threads, all of which make it. One thread needs no team: OpenMP would
   allocate one each time. */
#define IN_TEAM(threads, call)                                                                               \
    do {                                                                                                     \
        const int in_team = (threads);                                                                       \
        if (in_team == 1) {                                                                                  \
            call;                                                                                            \
        } else {                                                                                             \
            _Pragma("omp parallel num_threads(in_team)") call;                                               \
        }                                                                                                    \
    } while (0)

/* A range [0, count) cut into `parts`, nearly equal: where part `index` begins. */
static inline size_t part_begin(size_t count, size_t parts, size_t index)
{
    return count / parts * index + count % parts * index / parts;
}
