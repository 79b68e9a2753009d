/* What a generator is, for schedule.c and the generators themselves. A new schedule is one file with one
   function of this type and one row of the table in schedule.c. */
#pragma once
#include "schedule/schedule.h"

/* Fills rank_of, count and order (each order[rank] by allocate) of a schedule whose ranks, chunks (ranks *
   chunks_per_rank), microbatches and group are set and whose arrays exist, zeroed. `group` is the user's, 0
   for none given; the generator writes back what it used. False with one line in *error where its rule
   excludes the case. */
typedef bool generator(struct schedule *schedule, int chunks_per_rank, struct text *error);

generator gpipe_generate, one_f_one_b_generate, interleaved_generate, looped_bfs_generate, zb_h1_generate,
    interleaved_zb_generate, zb_v_generate;

/* The placement of all but the V schedules: chunk s on rank s mod p. */
void place_round_robin(struct schedule *schedule);

/* False with a line in *error unless no group is asked for. */
bool groupless_case(const struct schedule *schedule, const char *name, struct text *error);

/* The same, and unless chunks_per_rank is 1; `any` is the schedule that takes any number. */
bool plain_case(const struct schedule *schedule, const char *name, const char *any, int chunks_per_rank,
    struct text *error);

/* What the two interleaved schedules share: the group size N, chosen where none is given, and the table of
   computes. interleaved.c says what they are. */
bool choose_group(struct schedule *schedule, struct text *error);
struct compute table_row(const struct schedule *schedule, enum compute_kind kind, int rank, int k);
