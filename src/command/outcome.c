#include "command/outcome.h"
#include "command/run_state.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double slow_share = 0.95; /* of the median's speed */

void outcomes_judge(struct outcome *outcomes, int count)
{
    double *speed = allocate((size_t)count, sizeof *speed);
    size_t measured = 0;
    for (int k = 0; k < count; k++)
        if (outcomes[k].step > 0) speed[measured++] = 1 / outcomes[k].step;
    const double median = spread_of(speed, measured).median;
    for (int k = 0; k < count; k++) {
        struct outcome *o = &outcomes[k];
        o->of_median = o->step > 0 ? 1 / o->step / median : NAN;
        o->is_slow = o->of_median < slow_share;
    }
    free(speed);
}

/* --- Hosts --- */

/* What one pipeline says of a host where it has ranks. here: the first of its ranks there that matters. */
struct finding {
    enum node_status status;
    struct text text;
};

static const char *device_of(const struct place *place)
{
    return place->uuid[0] ? place->uuid : place->device;
}

/* Whether some pipeline was verified, so that the program and the reference are known to be right. */
static bool some_are_right(const struct outcome *outcomes, int count)
{
    for (int k = 0; k < count; k++)
        if (outcomes[k].verdict == SUCCESSFUL) return true;
    return false;
}

/* place: of all ranks of the pipeline, whose rank 0 is rank `first` of the job. who: "pipeline 3", "the run".
 */
static struct finding find(const struct outcome *o, const char *who, const struct place *place, int first,
    const char *host, bool others_right)
{
    struct finding f = { .status = NODE_PASS };
    if (!o->ended) {
        f.status = NODE_FAIL;
        text_add(&f.text, "%s did not come to its end", who);
    } else if (o->code == EXIT_WRONG && o->wrong_rank >= 0) {
        const struct place *wrong = &place[o->wrong_rank];
        const bool here = strcmp(wrong->host, host) == 0;
        f.status = here && others_right && !o->injected ? NODE_HW_FAIL : NODE_FAIL;
        text_add(&f.text, "%s is wrong%s, first on rank %d %s%s (%s)", who, o->injected ? " (INJECTED)" : "",
            first + o->wrong_rank, here ? "here" : "on ", here ? "" : wrong->host, device_of(wrong));
        if (f.status == NODE_HW_FAIL) text_add(&f.text, "; the same program is right in another pipeline");
    } else if (o->code == EXIT_WRONG) {
        f.status = NODE_FAIL;
        text_add(&f.text, "%s is wrong%s", who, o->injected ? " (INJECTED)" : "");
    } else if (o->verdict != SUCCESSFUL) {
        f.status = NODE_FAIL;
        text_add(&f.text, "%s is not verified", who);
    } else if (o->missed_target) {
        f.status = NODE_PERF_FAIL;
        text_add(&f.text, "%s is right but missed the target", who);
    } else if (o->is_slow) {
        f.status = NODE_PERF_FAIL;
        text_add(&f.text, "%s is right but %.1f %% below the median", who, 100 * (1 - o->of_median));
    } else {
        text_add(&f.text, "%s is right", who);
    }
    return f;
}

/* The index of the host among the first *hosts nodes; a new one is added. */
static int node_of(struct node *nodes, int *hosts, const char *host)
{
    for (int i = *hosts; i-- > 0;) /* ranks of a host mostly stand together */
        if (strcmp(nodes[i].host, host) == 0) return i;
    nodes[*hosts] = (struct node){ .host = host, .status = NODE_PASS };
    return (*hosts)++;
}

/* The worst finding stands; of equal ones the first, and how many more. */
static void add_finding(struct node *node, int *more, struct finding f)
{
    if (node->message.length && f.status <= node->status) {
        if (f.status == node->status) ++*more;
        text_free(&f.text);
        return;
    }
    text_free(&node->message);
    node->message = f.text;
    node->status = f.status;
    *more = 0;
}

struct node *nodes_judge(
    const struct outcome *outcomes, int count, int ranks, const struct place *place, int *hosts)
{
    const size_t all = (size_t)count * (size_t)ranks;
    struct node *nodes = allocate(all, sizeof *nodes);
    int *more = allocate(all, sizeof *more), *last = allocate(all, sizeof *last); /* pipelines, from 1 */
    const bool others_right = some_are_right(outcomes, count);
    *hosts = 0;
    for (int k = 0; k < count; k++) {
        char who[32] = "the run";
        if (count > 1) snprintf(who, sizeof who, "pipeline %d", k);
        const struct place *of_pipeline = &place[(size_t)k * (size_t)ranks];
        for (int r = 0; r < ranks; r++) {
            const int i = node_of(nodes, hosts, of_pipeline[r].host);
            if (last[i] == k + 1) continue;
            last[i] = k + 1;
            add_finding(&nodes[i], &more[i],
                find(&outcomes[k], who, of_pipeline, k * ranks, of_pipeline[r].host, others_right));
        }
    }
    for (int i = 0; i < *hosts; i++)
        if (more[i]) text_add(&nodes[i].message, "; %d more pipeline%s too", more[i], more[i] > 1 ? "s" : "");
    free(more);
    free(last);
    return nodes;
}

void nodes_free(struct node *nodes, int hosts)
{
    for (int i = 0; i < hosts; i++) text_free(&nodes[i].message);
    free(nodes);
}
