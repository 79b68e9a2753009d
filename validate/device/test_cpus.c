/* Where OpenMP binds threads, it binds the initial one before main: a process still knows which CPUs it has,
   which of them a team computes on, and starts other threads on all of them. Needs two CPUs. */
#include "../check.h"
#include "base/base.h"
#include "base/cpus.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *mask_of_thread(void *mask)
{
    sched_getaffinity(0, sizeof(cpu_set_t), mask);
    return NULL;
}

/* Called anew with the environment of a case; the words: CPUs of the process, of a team of two, of one. */
static int see(char **words)
{
    cpu_set_t process, two, one, aside;
    CPU_ZERO(&aside);
    CHECK(process_cpus(&process), "the system does not say");
    team_cpus(2, &two);
    team_cpus(1, &one);
    pthread_t thread;
    const int bad = start_thread(&thread, mask_of_thread, &aside);
    CHECK(bad == 0, "%s", strerror(bad));
    if (!bad) pthread_join(thread, NULL);
    CHECK(CPU_COUNT(&process) == atoi(words[0]), "%d CPUs of the process", CPU_COUNT(&process));
    CHECK(CPU_EQUAL(&aside, &process), "a thread beside has %d CPUs", CPU_COUNT(&aside));
    CHECK(CPU_COUNT(&two) == atoi(words[1]), "%d CPUs of two threads", CPU_COUNT(&two));
    CHECK(CPU_COUNT(&one) == atoi(words[2]), "%d CPUs of one thread", CPU_COUNT(&one));
    return check_result();
}

static void where(const char *name, const char *value, char *process, char *two, char *one)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv(name, value, 1);
        setenv("OMP_NUM_THREADS", "2", 1);
        execl("/proc/self/exe", "test_cpus", process, two, one, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0, "where %s=%s", name, value);
}

int main(int count, char **words)
{
    if (count == 4) return see(words + 1);
    static const char *const binding[] = { "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY" };
    for (size_t i = 0; i < sizeof binding / sizeof *binding; i++) unsetenv(binding[i]);
    cpu_set_t all, two;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return 77;
    CPU_ZERO(&two);
    for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&two) < 2; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &two);
    CHECK(sched_setaffinity(0, sizeof two, &two) == 0, "cannot be bound to two CPUs");
    where("OMP_PROC_BIND", "false", "2", "2", "2");
    where("OMP_PROC_BIND", "close", "2", "2", "1");
    where("OMP_PROC_BIND", "spread", "2", "2", "1");
    where("OMP_PROC_BIND", "master", "1", "1", "1");
    return check_result();
}
