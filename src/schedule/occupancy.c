/* The unit-cost run that chooses the number of receive buffers. */
#include "occupancy.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { NEVER = INT_MAX };

/* When each F, B and I ends (by compute_index), in units; NEVER for what a stall keeps from running. */
static int *finish_times(const struct schedule *schedule)
{
    const int chunks = schedule->chunks, m = schedule->microbatches, ranks = schedule->ranks;
    const size_t computes = 2 * (size_t)chunks * (size_t)m;
    int *finish = allocate(computes, sizeof *finish);
    int *next = allocate((size_t)ranks, sizeof *next), *clock = allocate((size_t)ranks, sizeof *clock);
    int *ready = allocate((size_t)ranks, sizeof *ready),
        ready_count = 0;                                      /* a stack: each rank is on it at most once */
    size_t *awaits = allocate((size_t)ranks, sizeof *awaits); /* the compute that a rank waits for */
    for (size_t i = 0; i < computes; i++) finish[i] = NEVER;
    for (int rank = ranks - 1; rank >= 0; rank--) {
        ready[ready_count++] = rank;
        awaits[rank] = computes;
    }
    while (ready_count > 0) {
        const int rank = ready[--ready_count];
        for (; next[rank] < schedule->count[rank]; next[rank]++) {
            const struct compute compute = schedule->order[rank][next[rank]];
            struct compute maker, user;
            int start = clock[rank];
            if (input_maker(compute, chunks, &maker)) {
                const size_t input = compute_index(maker, chunks, m);
                if (finish[input] == NEVER) {
                    awaits[rank] = input;
                    break;
                }
                if (finish[input] > start) start = finish[input];
            }
            clock[rank] = start + 1;
            if (compute.kind == COMPUTE_W) continue;
            const size_t self = compute_index(compute, chunks, m);
            finish[self] = clock[rank];
            if (output_user(compute, chunks, &user)) {
                const int other = schedule->rank_of[user.chunk];
                if (other != rank && awaits[other] == self) {
                    awaits[other] = computes;
                    ready[ready_count++] = other;
                }
            }
        }
    }
    free(next);
    free(clock);
    free(ready);
    free(awaits);
    return finish;
}

/* The times at which a channel's messages arrive, or leave their buffers: both ascend, since one rank does
 * each. */
struct traffic {
    int *time, count;
};

static int most_at_once(const struct traffic *arrivals, const struct traffic *departures)
{
    int most = 0, gone = 0;
    for (int i = 0; i < arrivals->count && arrivals->time[i] != NEVER; i++) {
        while (gone < departures->count && departures->time[gone] <= arrivals->time[i]) gone++;
        if (i + 1 - gone > most) most = i + 1 - gone;
    }
    return most;
}

void occupancy_estimate(const struct schedule *schedule, const struct program *program,
    const struct wiring *wiring, int *occupancy)
{
    const int chunks = schedule->chunks, m = schedule->microbatches, channels = program->channel_count;
    int *finish = finish_times(schedule);
    struct traffic *arrivals = allocate((size_t)channels, sizeof *arrivals);
    struct traffic *departures = allocate((size_t)channels, sizeof *departures);
    for (int c = 0; c < channels; c++) {
        arrivals[c].time = allocate((size_t)program->channels[c].messages, sizeof(int));
        departures[c].time = allocate((size_t)program->channels[c].messages, sizeof(int));
    }
    for (int rank = 0; rank < schedule->ranks; rank++) {
        for (int i = 0; i < schedule->count[rank]; i++) {
            const struct compute compute = schedule->order[rank][i];
            const int in = input_channel(wiring, compute, chunks), out = output_channel(wiring, compute);
            const int end = finish[compute_index(compute, chunks, m)];
            if (in >= 0 && departures[in].count < program->channels[in].messages)
                departures[in].time[departures[in].count++] = end;
            if (out >= 0) arrivals[out].time[arrivals[out].count++] = end;
        }
    }
    for (int c = 0; c < channels; c++) {
        occupancy[c] = most_at_once(&arrivals[c], &departures[c]);
        free(arrivals[c].time);
        free(departures[c].time);
    }
    free(arrivals);
    free(departures);
    free(finish);
}
