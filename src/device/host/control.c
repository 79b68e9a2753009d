#include "device/host/control.h"
#include "base/base.h"
#include "device/team.h"
#include <fenv.h>
#include <float.h>
#include <omp.h>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

struct flag {
    uint64_t mask;
    const char *problem;
};

#if defined(__x86_64__) || defined(__i386__)
static const struct flag flags[] = { /* MXCSR; Intel SDM volume 1, 10.2.3 */
    { 1u << 15, "flushes denormal results to zero (FTZ)" },
    { 1u << 6, "takes denormal operands for zero (DAZ)" }, { 3u << 13, "does not round to nearest" }
};
static uint64_t control_register(void)
{
    return _mm_getcsr();
}
#elif defined(__aarch64__)
static const struct flag flags[] = { /* FPCR; Arm ARM, C5.2 */
    { 1u << 24, "flushes denormals to zero (FZ)" }, { 3u << 22, "does not round to nearest" }
};
static uint64_t control_register(void)
{
    uint64_t fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    return fpcr;
}
#else
/* Another machine: what arithmetic does says what the register holds. */
static const struct flag flags[] = { { 1, "flushes denormals to zero" }, { 2, "does not round to nearest" } };
static uint64_t control_register(void)
{
    volatile float smallest = FLT_MIN;
    const volatile float half = smallest * 0.5f;
    return (half == 0.0f ? 1u : 0u) | (fegetround() != FE_TONEAREST ? 2u : 0u);
}
#endif

const char *control_problem(void)
{
    const uint64_t control = control_register();
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (control & flags[i].mask) return flags[i].problem;
    return NULL;
}

/* This thread's problem, if it has one and is the first that has. */
static void check_thread(const char **found, int *thread)
{
    const char *problem = control_problem();
    if (!problem) return;
#pragma omp critical(pipeleaf_control)
    {
        if (!*found || omp_get_thread_num() < *thread) {
            *found = problem;
            *thread = omp_get_thread_num();
        }
    }
}

void control_check(int threads)
{
    const char *found = NULL;
    int thread = 0;
    IN_TEAM(threads, check_thread(&found, &thread));
    if (found) {
        fail("thread %d: the floating-point control register %s, so results would not have the bits they "
             "must have; a "
             "library built with -Ofast or -ffast-math sets this when it is loaded: run without it",
            thread, found);
    }
}
