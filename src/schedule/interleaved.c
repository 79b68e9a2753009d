/* Interleaved 1F1B (Narayanan et al., SC 2021), in the form on which Megatron-LM and PyTorch agree. With
   groups of N microbatches and T = m*v, the forward table is: for each group, for each local chunk, for each
   microbatch of the group. The backward table is the same with the chunks reversed. Rank r runs w forwards of
   the table ahead, then F(k+w) and B(k) in turn, then the remaining backwards; w = min(2(p-1-r) + (v-1)N, T),
   and min(p-1-r, T), that is 1F1B, where v = 1.

   The last group may be short. With a remainder between 1 and p-1 the order can be a true cycle, in which
   ranks wait for one another whatever the buffers (first at p=4 v=3 m=5 N=4), so that such N are not legal.
 */
#include "generators.h"

static bool legal_group(int group, int ranks, int microbatches)
{
    if (microbatches < ranks) return group == microbatches;
    return group >= ranks && (microbatches % group == 0 || microbatches % group >= ranks);
}

/* The legal group nearest to `group`, the smaller of two: N = m is always one. */
static int nearest_legal_group(int group, int ranks, int microbatches)
{
    if (microbatches < ranks) return microbatches;
    for (int distance = 0;; distance++) {
        if (legal_group(group - distance, ranks, microbatches)) return group - distance;
        if (legal_group(group + distance, ranks, microbatches)) return group + distance;
    }
}

/* The k-th row of the forward table, as a compute of `rank`; for the backward table count the chunks from the
 * end. */
struct compute table_row(const struct schedule *schedule, enum compute_kind kind, int rank, int k)
{
    const int group = schedule->group, chunks_per_rank = schedule->chunks / schedule->ranks;
    const long long whole = (long long)group * chunks_per_rank; /* rows of a whole group */
    const int first = (int)(k / whole) * group;                 /* the group's first microbatch */
    const int left = schedule->microbatches - first;
    const int size = left < group ? left : group;
    const int in_group = (int)(k % whole);
    const int local = in_group / size;
    const int chunk = kind == COMPUTE_F ? local : chunks_per_rank - 1 - local;
    return (struct compute){ kind, chunk * schedule->ranks + rank, first + in_group % size };
}

bool choose_group(struct schedule *schedule, struct text *error)
{
    const int p = schedule->ranks, m = schedule->microbatches;
    if (schedule->group == 0) schedule->group = nearest_legal_group(0, p, m); /* that is the smallest */
    if (legal_group(schedule->group, p, m)) return true;
    const int nearest = nearest_legal_group(schedule->group, p, m);
    if (m < p)
        text_add(error,
            "group=%d: with fewer microbatches (%d) than ranks (%d) the group is all of them: "
            "the nearest legal group is %d",
            schedule->group, m, p, nearest);
    else
        text_add(error,
            "group=%d: must be at least ranks=%d, and divide microbatches=%d or leave a remainder of at "
            "least %d: the nearest legal group is %d",
            schedule->group, p, m, p, nearest);
    return false;
}

bool interleaved_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    const int p = schedule->ranks, m = schedule->microbatches, v = chunks_per_rank, total = m * v;
    if (!choose_group(schedule, error)) return false;
    /* A group of more than all microbatches is one group, whose warm-up covers everything sooner. */
    const long long group = schedule->group;
    place_round_robin(schedule);
    for (int rank = 0; rank < p; rank++) {
        struct compute *action = schedule->order[rank] = allocate((size_t)total * 2, sizeof *action);
        schedule->count[rank] = 2 * total;
        const long long ahead = v > 1 ? 2LL * (p - 1 - rank) + (v - 1) * group : p - 1 - rank;
        const int warm_up = ahead < total ? (int)ahead : total;
        for (int k = 0; k < warm_up; k++) *action++ = table_row(schedule, COMPUTE_F, rank, k);
        for (int k = 0; k < total; k++) {
            if (k + warm_up < total) *action++ = table_row(schedule, COMPUTE_F, rank, k + warm_up);
            *action++ = table_row(schedule, COMPUTE_B, rank, k);
        }
    }
    return true;
}
