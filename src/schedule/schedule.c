/* The table of schedules, and what all of them share. */
#include "generators.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char compute_letter[COMPUTE_KINDS + 1] = "FBIW";

typedef struct bubble closed_form(int p, int v, int m);
static closed_form flush_bubble, breadth_first_bubble, zero_bubble, zb_v_bubble;

/* All that is known of each schedule: generator, closed form of the bubble, whether the
   backward is whole or in halves, chunks a rank must have (0: any). */
#define SCHEDULES(ROW)                                                                                       \
    ROW("gpipe", gpipe_generate, flush_bubble, WHOLE, 1)                                                     \
    ROW("1f1b", one_f_one_b_generate, flush_bubble, WHOLE, 1)                                                \
    ROW("interleaved-1f1b", interleaved_generate, flush_bubble, WHOLE, 0)                                    \
    ROW("looped-bfs", looped_bfs_generate, breadth_first_bubble, WHOLE, 0)                                   \
    ROW("zb-h1", zb_h1_generate, zero_bubble, HALVES, 1)                                                     \
    ROW("interleaved-zb", interleaved_zb_generate, zero_bubble, HALVES, 0)                                   \
    ROW("zb-v", zb_v_generate, zb_v_bubble, HALVES, 2)

enum { WHOLE = false, HALVES = true };
#define NAME(name, generate, bubble, backward, chunks_per_rank) name,
#define PARTS(name, generate, bubble, backward, chunks_per_rank)                                             \
    { generate, bubble, { backward, chunks_per_rank } },
const char *const schedule_names[] = { SCHEDULES(NAME) NULL };
static const struct {
    generator *generate;
    closed_form *bubble;
    struct schedule_traits traits;
} schedule_table[] = { SCHEDULES(PARTS) };

/* The index of a schedule in both tables, or -1. */
static int schedule_find(const char *name)
{
    for (int i = 0; schedule_names[i]; i++)
        if (!strcmp(schedule_names[i], name)) return i;
    return -1;
}

static bool unknown_schedule(const char *name, struct text *error)
{
    int count = 0;
    while (schedule_names[count]) count++;
    const char *nearest = nearest_name(name, schedule_names, (size_t)count);
    text_add(error, "schedule='%s': no such schedule", name);
    if (nearest) text_add(error, "; did you mean '%s'?", nearest);
    text_add(error, " (there are:");
    for (int i = 0; i < count; i++) text_add(error, "%s '%s'", i ? "," : "", schedule_names[i]);
    text_add(error, ")");
    return false;
}

bool schedule_make(struct schedule *schedule, const char *name, int ranks, int chunks_per_rank,
    int microbatches, int group, struct text *error)
{
    *schedule = (struct schedule){ 0 };
    const int found = schedule_find(name);
    if (found < 0) return unknown_schedule(name, error);

    const struct {
        const char *name;
        int value, least;
    } given[] = { { "ranks", ranks, 1 }, { "chunks_per_rank", chunks_per_rank, 1 },
        { "microbatches", microbatches, 1 }, { "group", group, 0 } };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (given[i].value >= given[i].least) continue;
        text_add(error, "%s=%d: must be at least %d", given[i].name, given[i].value, given[i].least);
        return false;
    }
    /* Positions in a rank's program, four operations a pair of (chunk, microbatch) and more, are counted in
     * ints. */
    const int most = INT_MAX / 8;
    if (microbatches > most / chunks_per_rank) {
        text_add(error, "microbatches=%d: must be at most %d with chunks_per_rank=%d", microbatches,
            most / chunks_per_rank, chunks_per_rank);
        return false;
    }
    if (chunks_per_rank > most / ranks) {
        text_add(error, "chunks_per_rank=%d: must be at most %d with ranks=%d", chunks_per_rank, most / ranks,
            ranks);
        return false;
    }

    *schedule = (struct schedule){
        .ranks = ranks,
        .chunks = ranks * chunks_per_rank,
        .microbatches = microbatches,
        .group = group,
        .rank_of = allocate((size_t)ranks * (size_t)chunks_per_rank, sizeof *schedule->rank_of),
        .order = allocate((size_t)ranks, sizeof *schedule->order),
        .count = allocate((size_t)ranks, sizeof *schedule->count),
    };
    if (schedule_table[found].generate(schedule, chunks_per_rank, error)) return true;
    schedule_free(schedule);
    return false;
}

void schedule_free(struct schedule *schedule)
{
    for (int rank = 0; rank < schedule->ranks; rank++) free(schedule->order[rank]);
    free(schedule->order);
    free(schedule->count);
    free(schedule->rank_of);
    *schedule = (struct schedule){ 0 };
}

void place_round_robin(struct schedule *schedule)
{
    for (int chunk = 0; chunk < schedule->chunks; chunk++) schedule->rank_of[chunk] = chunk % schedule->ranks;
}

bool groupless_case(const struct schedule *schedule, const char *name, struct text *error)
{
    if (schedule->group == 0) return true;
    text_add(error, "group=%d: schedule='%s' has no groups: set group=0", schedule->group, name);
    return false;
}

bool plain_case(const struct schedule *schedule, const char *name, const char *any, int chunks_per_rank,
    struct text *error)
{
    if (chunks_per_rank == 1) return groupless_case(schedule, name, error);
    text_add(error,
        "chunks_per_rank=%d: schedule='%s' has one chunk a rank: set chunks_per_rank=1 or schedule='%s'",
        chunks_per_rank, name, any);
    return false;
}

static struct bubble bubble_of(double idle, double ideal)
{
    return (struct bubble){ idle / ideal, idle / (ideal + idle) };
}

static const struct bubble unknown_bubble = { NAN, NAN };

/* Each rank is idle while the first microbatch reaches it and after the last has left: p-1 chunk times out of
   m*v + p-1 (Narayanan et al., SC 2021). With v > 1 that holds where p divides m. */
static struct bubble flush_bubble(int p, int v, int m)
{
    return v > 1 && m % p ? unknown_bubble : bubble_of(p - 1, (double)m * v);
}

/* The same; with v > 1 and fewer microbatches than ranks a rank also waits between its chunks. */
static struct bubble breadth_first_bubble(int p, int v, int m)
{
    return v > 1 && m < p ? unknown_bubble : bubble_of(p - 1, (double)m * v);
}

/* (p-1)(F + I - W) out of m v (F + I + W) and itself (Qi et al., ICLR 2024, for v = 1; by simulation for any
   v), here with F = I = W. */
static struct bubble zero_bubble(int p, int v, int m)
{
    return m < p ? unknown_bubble : bubble_of(p - 1, 3.0 * m * v);
}

/* Rank r begins r chunk times after rank 0 and is never idle again, with F = I = W. */
static struct bubble zb_v_bubble(int p, int v, int m)
{
    return m < 2 * p - 1 ? unknown_bubble : bubble_of(p - 1, 3.0 * m * v);
}

struct schedule_traits schedule_traits(const char *name)
{
    const int found = schedule_find(name);
    return found < 0 ? (struct schedule_traits){ 0 } : schedule_table[found].traits;
}

struct bubble schedule_bubble(const char *name, int ranks, int chunks_per_rank, int microbatches)
{
    const int found = schedule_find(name);
    return found < 0 ? unknown_bubble : schedule_table[found].bubble(ranks, chunks_per_rank, microbatches);
}
