#include "command/recheck.h"
#include <stdlib.h>
#include <string.h>

/* 2: the rank of the same number, 1: another rank on the same GPU, 0: another. */
static int kinship(const struct computed_by *by, int rank, const struct computed_by *checker, int other)
{
    if (rank == other) return 2;
    return by[rank].uuid[0] && strcmp(by[rank].uuid, checker[other].uuid) == 0;
}

int recheck_assign(const struct partition *partition, const int *rank_of, const struct computed_by *by,
    int checkers, const struct computed_by *checker, int *checker_of)
{
    int own = 0;
    int64_t *load = allocate((size_t)checkers, sizeof *load);
    for (int chunk = 0; chunk < partition->chunks; chunk++) {
        const int rank = rank_of[chunk];
        int best = -1, best_kinship = 0;
        for (int i = 0; i < checkers; i++) {
            const int other = (int)(((int64_t)rank + 1 + i) % checkers),
                      kin = kinship(by, rank, checker, other);
            if (best >= 0 && (kin > best_kinship || (kin == best_kinship && load[other] >= load[best])))
                continue;
            best = other;
            best_kinship = kin;
        }
        checker_of[chunk] = best;
        load[best] += partition_layers(partition, chunk);
        own += best_kinship > 0;
    }
    free(load);
    return own;
}
