/* Work by several OpenMP threads. */
#pragma once

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
