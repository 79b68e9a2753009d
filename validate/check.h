/* How a test speaks: CHECK states a fact about the world and counts it; the program ends with check_result(), which is 0
   only where at least one fact was stated and none was false. */
#pragma once
#include <stdio.h>

static unsigned long check_count, check_failures;

#define CHECK(fact, ...)                                                                                               \
    do {                                                                                                               \
        check_count++;                                                                                                 \
        if (!(fact) && check_failures++ < 20) {                                                                        \
            fprintf(stderr, "%s:%d: false: %s: ", __FILE__, __LINE__, #fact);                                          \
            fprintf(stderr, __VA_ARGS__);                                                                              \
            fputc('\n', stderr);                                                                                       \
        }                                                                                                              \
    } while (0)

static inline int check_result(void)
{
    printf("%lu facts checked, %lu false\n", check_count, check_failures);
    return check_count == 0 || check_failures != 0;
}
