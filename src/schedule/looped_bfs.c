/* Breadth-first pipeline parallelism (Lamy-Poirier, 2023; PyTorch's LoopedBFS): for each local chunk all
   forwards, then for each local chunk, the last first, all backwards. The backwards run in ascending
   microbatch order, not in the descending one of PyTorch: the sum of the weight gradients must have the order
   that a single device has. The bubble is that of the interleaved schedule, the memory that of all
   microbatches. */
#include "generators.h"

bool looped_bfs_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    if (!groupless_case(schedule, "looped-bfs", error)) return false;
    const int p = schedule->ranks, m = schedule->microbatches, total = m * chunks_per_rank;
    place_round_robin(schedule);
    for (int rank = 0; rank < p; rank++) {
        struct compute *action = schedule->order[rank] = allocate((size_t)total * 2, sizeof *action);
        schedule->count[rank] = 2 * total;
        for (int local = 0; local < chunks_per_rank; local++)
            for (int i = 0; i < m; i++) *action++ = (struct compute){ COMPUTE_F, local * p + rank, i };
        for (int local = chunks_per_rank - 1; local >= 0; local--)
            for (int i = 0; i < m; i++) *action++ = (struct compute){ COMPUTE_B, local * p + rank, i };
    }
    return true;
}
