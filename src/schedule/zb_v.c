/* ZB-V (Qi et al., Pipeline Parallelism with Controllable Memory, 2024; the order is PyTorch's
   ScheduleZBVZeroBubble): two chunks a rank, placed as a V: rank r holds chunks r and 2p-1-r, so that the
   last rank turns round by itself and the loss is on rank 0. With F, I and W of equal length the ranks are
   never idle once they have begun, and the memory is that of 1F1B on its first rank, p microbatches: 2p slots
   of half the size.

   The order is defined for at least 2p-1 microbatches. Fewer run as if there were so many, without those that
   are not there: each microbatch depends on itself alone, so that what is left of an order that runs still
   does. */
#include "generators.h"

enum { DOWN, UP, LEGS }; /* chunk r on the way down the V, chunk 2p-1-r on the way up */

struct writer {
    struct compute *action;
    int count, microbatches;
    int chunk[LEGS];
    int next[LEGS][COMPUTE_KINDS]; /* the microbatch */
};

static void put(struct writer *w, enum compute_kind kind, int leg)
{
    const int microbatch = w->next[leg][kind]++;
    if (microbatch >= w->microbatches) return;
    w->action[w->count++] = (struct compute){ kind, w->chunk[leg], microbatch };
}

static void put_backward(struct writer *w, int leg)
{
    put(w, COMPUTE_I, leg);
    put(w, COMPUTE_W, leg);
}

static void write_rank(struct writer *w, int p, int rank, int m)
{
    const int hops = p - rank; /* to the turn */
    int(*const next)[COMPUTE_KINDS] = w->next;
    /* Warm-up, until the first gradient is back on this rank's way down. */
    for (int i = 0; i < 2 * hops - 1; i++) put(w, COMPUTE_F, DOWN);
    for (int i = 0; i < rank; i++) {
        put(w, COMPUTE_F, UP);
        put(w, COMPUTE_F, DOWN);
    }
    for (int i = 0; i < hops; i++) {
        put(w, COMPUTE_F, UP);
        put_backward(w, UP);
    }
    /* Steady: every slot that a W empties is filled by an F. */
    while (next[UP][COMPUTE_F] < next[DOWN][COMPUTE_F] || next[DOWN][COMPUTE_F] < m) {
        if (next[DOWN][COMPUTE_F] < m) put(w, COMPUTE_F, DOWN);
        put_backward(w, DOWN);
        put(w, COMPUTE_F, UP);
        put_backward(w, UP);
    }
    /* Cool-down: the I that others wait for first, W where this rank would wait. */
    for (int i = 0; i < rank; i++) {
        put(w, COMPUTE_I, DOWN);
        put(w, COMPUTE_I, UP);
    }
    for (int i = 0; i < hops; i++) {
        put(w, COMPUTE_I, DOWN);
        put(w, COMPUTE_W, DOWN);
    }
    while (next[UP][COMPUTE_W] < m) put(w, COMPUTE_W, UP);
    while (next[DOWN][COMPUTE_W] < m) put(w, COMPUTE_W, DOWN);
}

bool zb_v_generate(struct schedule *schedule, int chunks_per_rank, struct text *error)
{
    const int p = schedule->ranks, m = schedule->microbatches, least = 2 * p - 1;
    if (chunks_per_rank != 2) {
        text_add(error,
            "chunks_per_rank=%d: schedule='zb-v' has two chunks a rank: set chunks_per_rank=2 or "
            "schedule='%s'",
            chunks_per_rank, chunks_per_rank == 1 ? "zb-h1" : "interleaved-zb");
        return false;
    }
    if (!groupless_case(schedule, "zb-v", error)) return false;
    for (int chunk = 0; chunk < 2 * p; chunk++)
        schedule->rank_of[chunk] = chunk < p ? chunk : 2 * p - 1 - chunk;
    for (int rank = 0; rank < p; rank++) {
        struct writer w = { .action = schedule->order[rank] = allocate((size_t)m * 6, sizeof *w.action),
            .microbatches = m,
            .chunk = { rank, 2 * p - 1 - rank } };
        write_rank(&w, p, rank, m < least ? least : m);
        schedule->count[rank] = w.count;
    }
    return true;
}
