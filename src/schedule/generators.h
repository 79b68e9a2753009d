/* What a generator is, for schedule.c and the generators themselves. A new schedule is one file with one
   function of this type and one row of the table in schedule.c. */
#pragma once
#include "schedule/schedule.h"

/* Fills rank_of, count and order (each order[rank] by allocate) of a schedule whose ranks, chunks (ranks *
   chunks_per_rank), microbatches and group are set and whose arrays exist, zeroed. `group` is the user's, 0
   for none given; the generator writes back what it used. False with one line in *error where its rule
   excludes the case. */
typedef bool generator(struct schedule *schedule, int chunks_per_rank, struct text *error);

generator gpipe_generate, one_f_one_b_generate, interleaved_generate;

/* The placement of all but the V schedules: chunk s on rank s mod p. */
void place_round_robin(struct schedule *schedule);

/* False with a line in *error unless chunks_per_rank is 1 and no group is asked for. */
bool plain_case(const struct schedule *schedule, const char *name, int chunks_per_rank, struct text *error);
