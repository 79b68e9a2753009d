/* GPipe (Huang et al., 2019): all forwards, then all backwards. The backwards run in ascending microbatch
   order, not in the reverse order of the paper: the sum of the weight gradients must have the order that a
   single device has. */
#include "generators.h"

bool gpipe_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    if (!plain_case(schedule, "gpipe", "interleaved-1f1b", chunks_per_rank, error)) return false;
    const int m = schedule->microbatches;
    place_round_robin(schedule);
    for (int rank = 0; rank < schedule->ranks; rank++) {
        struct compute *action = schedule->order[rank] = allocate((size_t)m * 2, sizeof *action);
        schedule->count[rank] = 2 * m;
        for (int i = 0; i < m; i++) {
            action[i] = (struct compute){ COMPUTE_F, rank, i };
            action[m + i] = (struct compute){ COMPUTE_B, rank, i };
        }
    }
    return true;
}
