/* The performance that the deck's &target asks for, and which exit code counts where several apply. */
#pragma once
#include "deck/deck.h"
#include "report/listing.h"
#include "report/result.h"

enum { TARGETS = 2 };

/* The targets that the deck has, against what was measured: fom in tokens/s, bubble as idle/step; NaN: not
   measured, which meets none. Returns how many there are. */
int targets_check(const struct deck *deck, double fom, double bubble, struct target targets[TARGETS]);
bool targets_met(const struct target *targets, int count);
/* A table under a banner; nothing where there is no target. whose: "of every pipeline", or "". */
void targets_print(struct listing *listing, const struct target *targets, int count, const char *whose);

/* Which of two exit codes counts: timeout before failed, wrong, not verified, slow, done. */
int first_exit_code(int a, int b);
