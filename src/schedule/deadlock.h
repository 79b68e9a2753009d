/* The part of the check that runs the program and explains a stall. */
#pragma once
#include "execute.h"

/* True where the program ends with sends in the background, and with the rank blocked in each send. Else
   *error gets the shortest cycle of waiting ranks, one line each. The program must be sound but for
   deadlocks: see check.c. */
bool deadlock_check(const struct program *program, struct text *error);
