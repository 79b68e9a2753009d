/* The waits of one place can be left out, and the places listed. This test is built as the program's C files
   are, with double_sites.h. */
#include "../check.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static float *from, *to;
static cudaStream_t producer, consumer;
static cudaEvent_t event;

static void consume(void)
{
    cudaStreamWaitEvent(consumer, event, 0);
    cudaMemcpyAsync(to, from, sizeof *to, cudaMemcpyHostToHost, consumer);
}
enum { CONSUME_LINE = __LINE__ - 3 };

static void end_of_step(void)
{
    cudaStreamSynchronize(consumer);
}

/* What the host finds: 2 where every wait was made; lazily, 1 without consume's, 0 without end_of_step's. */
static int step(void)
{
    float *two;
    cudaHostAlloc((void **)&from, sizeof *from, 0);
    cudaHostAlloc((void **)&to, sizeof *to, 0);
    cudaHostAlloc((void **)&two, sizeof *two, 0);
    cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&consumer, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    *from = 1;
    *to = 0;
    *two = 2;
    cudaMemcpyAsync(from, two, sizeof *two, cudaMemcpyHostToHost, producer);
    cudaEventRecord(event, producer);
    consume();
    end_of_step();
    return (int)*to;
}

/* The step's result in a child with the waits of `drop` left out. */
static int step_without(const char *drop, const char *list)
{
    const pid_t child = fork();
    if (child == 0) {
        setenv("DOUBLE_ORDER", "lazy", 1);
        setenv("DOUBLE_DROP_WAIT", drop, 1);
        if (list) setenv("DOUBLE_LIST_WAITS", list, 1);
        _exit(step());
    }
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void)
{
    char place[64], list[] = "test_sites.XXXXXX", text[256] = "";
    snprintf(place, sizeof place, "consume:%d", CONSUME_LINE);
    close(mkstemp(list));
    CHECK(step_without("", list) == 2, "all waits made");
    CHECK(step_without("consume", list) == 1, "without the wait of consume");
    CHECK(step_without(place, NULL) == 1, "without the wait of %s", place);
    CHECK(step_without("end_of_step", NULL) == 0, "without the wait of end_of_step");
    CHECK(step_without("consume:1", NULL) == 2, "no wait stands there");
    CHECK(step_without("other", NULL) == 2, "no wait of that name");
    FILE *file = fopen(list, "r");
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    remove(list);
    const char *found = strstr(text, place);
    CHECK(found && strstr(found + 1, place), "listed by each process: %s", text);
    CHECK(strstr(text, "end_of_step:"), "listed: %s", text);
    return check_result();
}
