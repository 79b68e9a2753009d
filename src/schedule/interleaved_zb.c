/* Interleaved zero bubble: interleaved 1F1B with the backward in halves, as in PyTorch's
   ScheduleInterleavedZeroBubble. The tables are those of interleaved.c. Since an I hands its gradient on
   after one chunk time, a rank needs only one forward more for each hop to the last rank: w = min(p-1-r +
   (v-1)N, T). Then F(k+w), I(k), and W(k-r), put off by r as in ZB-H1; the W's left fill the end. Every rank
   keeps at most (v-1)N + p chunks. With v = 1 it is ZB-H1. */
#include "generators.h"

/* As the table's row, the gradient of its weights. */
static struct compute weights_row(const struct schedule *schedule, int rank, int k)
{
    struct compute compute = table_row(schedule, COMPUTE_I, rank, k);
    compute.kind = COMPUTE_W;
    return compute;
}

bool interleaved_zb_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    const int p = schedule->ranks, m = schedule->microbatches, v = chunks_per_rank, total = m * v;
    if (!choose_group(schedule, error)) return false;
    place_round_robin(schedule);
    for (int rank = 0; rank < p; rank++) {
        struct compute *action = schedule->order[rank] = allocate((size_t)total * 3, sizeof *action);
        schedule->count[rank] = 3 * total;
        const long long ahead = p - 1 - rank + (v - 1) * (long long)schedule->group;
        const int warm_up = ahead < total ? (int)ahead : total;
        for (int k = 0; k < warm_up; k++) *action++ = table_row(schedule, COMPUTE_F, rank, k);
        for (int k = 0; k < total; k++) {
            if (k + warm_up < total) *action++ = table_row(schedule, COMPUTE_F, rank, k + warm_up);
            *action++ = table_row(schedule, COMPUTE_I, rank, k);
            if (k >= rank) *action++ = weights_row(schedule, rank, k - rank);
        }
        for (int k = total > rank ? total - rank : 0; k < total; k++)
            *action++ = weights_row(schedule, rank, k);
    }
    return true;
}
