/* ZB-H1 (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024): 1F1B with the backward in halves. I takes
   B's place, so that gradients travel up the ranks without waiting for the weight gradients in between; rank
   r puts its W off by r microbatches, and runs those left at the end, where 1F1B has a bubble. Every rank
   then keeps at most p microbatches, what 1F1B keeps on rank 0. With chunk times F, I and W the bubble is
   (p-1)(F + I - W), 1F1B's being (p-1)(F + I + W).

   In the paper the last W's may also move past the optimizer's step; here a step ends with all gradients. */
#include "generators.h"

bool zb_h1_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    if (!plain_case(schedule, "zb-h1", "interleaved-zb", chunks_per_rank, error)) return false;
    const int p = schedule->ranks, m = schedule->microbatches;
    place_round_robin(schedule);
    for (int rank = 0; rank < p; rank++) {
        struct compute *action = schedule->order[rank] = allocate((size_t)m * 3, sizeof *action);
        schedule->count[rank] = 3 * m;
        const int ahead = p - 1 - rank, warm_up = ahead < m ? ahead : m;
        for (int i = 0; i < warm_up; i++) *action++ = (struct compute){ COMPUTE_F, rank, i };
        for (int i = 0; i < m; i++) {
            if (i + warm_up < m) *action++ = (struct compute){ COMPUTE_F, rank, i + warm_up };
            *action++ = (struct compute){ COMPUTE_I, rank, i };
            if (i >= rank) *action++ = (struct compute){ COMPUTE_W, rank, i - rank };
        }
        for (int i = m > rank ? m - rank : 0; i < m; i++) *action++ = (struct compute){ COMPUTE_W, rank, i };
    }
    return true;
}
