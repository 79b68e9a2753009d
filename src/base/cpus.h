/* Where this process may run. */
#pragma once
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

/* The CPUs of the process, in *cpus: the affinity mask that it was started with. Not that of the calling
   thread, for OpenMP binds the initial one to a single place before main (OMP_PROC_BIND, GOMP_CPU_AFFINITY);
   there it is the places that threads are given. False, and CPU 0 alone, where the system does not say. */
bool process_cpus(cpu_set_t *cpus);

/* The CPUs, in *cpus, of an OpenMP team of so many threads that the caller would begin: the union of their
   masks. Fewer than those of the process where OpenMP binds them. */
void team_cpus(int threads, cpu_set_t *cpus);

/* pthread_create for a thread that may run on all of them: it would inherit the binding of the calling one.
   Returns 0 or the error's number. */
int start_thread(pthread_t *thread, void *(*work)(void *), void *argument);
