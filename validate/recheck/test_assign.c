/* Who computes which chunk again. */
#include "check.h"
#include "command/recheck.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct computed_by *places(int count, int gpus)
{
    struct computed_by *place = allocate((size_t)count, sizeof *place);
    for (int i = 0; i < count; i++) {
        snprintf(place[i].host, sizeof place[i].host, "node%d", i);
        if (gpus) snprintf(place[i].uuid, sizeof place[i].uuid, "GPU-%d", i % gpus);
    }
    return place;
}

/* Usual placement, or that of a V, of so many layers in all; the recheck's ranks have the run's GPUs (0:
 * none). */
static void check_case(int ranks, int chunks_per_rank, int layers, int checkers, int gpus, bool v)
{
    char text[128];
    snprintf(text, sizeof text, "p=%d v=%d L=%d by %d ranks with %d GPUs%s", ranks, chunks_per_rank, layers,
        checkers, gpus, v ? " V" : "");
    const int chunks = ranks * chunks_per_rank;
    struct partition partition = partition_make(layers, chunks, NULL);
    int *rank_of = allocate((size_t)chunks, sizeof(int)), *checker_of = allocate((size_t)chunks, sizeof(int));
    int *load = allocate((size_t)checkers, sizeof(int));
    for (int c = 0; c < chunks; c++) rank_of[c] = v && c >= ranks ? chunks - 1 - c : c % ranks;
    struct computed_by *by = places(ranks, gpus), *checker = places(checkers, gpus);
    const int own = recheck_assign(&partition, rank_of, by, checkers, checker, checker_of);
    int same = 0;
    for (int c = 0; c < chunks; c++) {
        CHECK(checker_of[c] >= 0 && checker_of[c] < checkers, "%s: chunk %d by %d", text, c, checker_of[c]);
        load[checker_of[c]] += partition_layers(&partition, c);
        same += checker_of[c] == rank_of[c] ||
                (gpus && strcmp(by[rank_of[c]].uuid, checker[checker_of[c]].uuid) == 0);
        if (ranks == checkers && ranks > 1 && !gpus && !v && layers % chunks == 0)
            CHECK(checker_of[c] == (rank_of[c] + 1) % ranks, "%s: chunk %d of rank %d by %d", text, c,
                rank_of[c], checker_of[c]);
    }
    CHECK(own == same, "%s: %d chunks have no other, and %d are said to", text, same, own);
    CHECK(checkers == 1 || gpus == 1 || own == 0, "%s: %d chunks by their own", text, own);
    CHECK(checkers > 1 || gpus || own == chunks_per_rank, "%s: alone it has %d of its own", text, own);
    if (layers % chunks == 0 && chunks % checkers == 0 && gpus != 1 && (checkers > 2 || ranks == checkers))
        for (int r = 0; r < checkers; r++)
            CHECK(load[r] <= 2 * layers / checkers, "%s: rank %d has %d of %d layers", text, r, load[r],
                layers);
    free(rank_of);
    free(checker_of);
    free(load);
    free(by);
    free(checker);
    partition_free(&partition);
}

int main(void)
{
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int chunks = 1; chunks <= 3; chunks++)
            for (int checkers = 1; checkers <= 9; checkers++)
                for (int layers = 1; layers <= 48; layers += 47) {
                    check_case(ranks, chunks, layers, checkers, 0, false);
                    check_case(ranks, chunks, layers, checkers, 1, false);
                    if (checkers > 1) check_case(ranks, chunks, layers, checkers, checkers, false);
                    if (chunks == 2) check_case(ranks, chunks, layers, checkers, 0, true);
                }
    return check_result();
}
