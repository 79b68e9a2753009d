/* 1F1B (PipeDream-Flush, Narayanan et al., 2021): rank r runs p-1-r forwards ahead, then a forward and a
   backward in turn, then the remaining backwards. The bubble is GPipe's, the memory that of at most p
   microbatches. */
#include "generators.h"

bool one_f_one_b_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    if (!plain_case(schedule, "1f1b", "interleaved-1f1b", chunks_per_rank, error)) return false;
    const int m = schedule->microbatches;
    place_round_robin(schedule);
    for (int rank = 0; rank < schedule->ranks; rank++) {
        struct compute *action = schedule->order[rank] = allocate((size_t)m * 2, sizeof *action);
        schedule->count[rank] = 2 * m;
        const int ahead = schedule->ranks - 1 - rank;
        const int warm_up = ahead < m ? ahead : m;
        for (int i = 0; i < warm_up; i++) *action++ = (struct compute){ COMPUTE_F, rank, i };
        for (int i = 0; i < m; i++) {
            if (i + warm_up < m) *action++ = (struct compute){ COMPUTE_F, rank, i + warm_up };
            *action++ = (struct compute){ COMPUTE_B, rank, i };
        }
    }
    return true;
}
