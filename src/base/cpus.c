#include "base/cpus.h"
#include "base/base.h"
#include <omp.h>
#include <stdlib.h>

/* Adds the CPUs of the places that OpenMP gives to threads. Those bound to the primary one's place have no
 * other. */
static void add_places(cpu_set_t *cpus)
{
    const omp_proc_bind_t binding = omp_get_proc_bind();
    if (binding == omp_proc_bind_false || binding == omp_proc_bind_master) return;
    for (int place = 0; place < omp_get_num_places(); place++) {
        const int count = omp_get_place_num_procs(place);
        int *of_place = allocate((size_t)count, sizeof *of_place);
        omp_get_place_proc_ids(place, of_place);
        for (int i = 0; i < count; i++)
            if (of_place[i] >= 0 && of_place[i] < CPU_SETSIZE) CPU_SET(of_place[i], cpus);
        free(of_place);
    }
}

bool process_cpus(cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
    if (sched_getaffinity(0, sizeof *cpus, cpus) != 0) {
        CPU_SET(0, cpus);
        return false;
    }
    add_places(cpus);
    return true;
}

void team_cpus(int threads, cpu_set_t *cpus)
{
    CPU_ZERO(cpus);
#pragma omp parallel num_threads(threads) if (threads > 1)
    {
        cpu_set_t of_thread;
        if (sched_getaffinity(0, sizeof of_thread, &of_thread) != 0) CPU_ZERO(&of_thread);
#pragma omp critical
        CPU_OR(cpus, cpus, &of_thread);
    }
    if (CPU_COUNT(cpus) == 0) CPU_SET(0, cpus);
}

int start_thread(pthread_t *thread, void *(*work)(void *), void *argument)
{
    cpu_set_t cpus;
    pthread_attr_t attributes;
    if (!process_cpus(&cpus) || pthread_attr_init(&attributes))
        return pthread_create(thread, NULL, work, argument);
    const bool bad = pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus) ||
                     pthread_create(thread, &attributes, work, argument);
    pthread_attr_destroy(&attributes);
    return bad ? pthread_create(thread, NULL, work, argument) : 0;
}
