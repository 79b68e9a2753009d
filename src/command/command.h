/* The commands of the program: each takes the words after its own name and returns the exit code. They join
   the parts, which know nothing of each other: deck -> partition -> schedule -> program -> device and
   channels -> steps -> report -> verdict. */
#pragma once
#include "base/base.h"

int command_run(int count, char **words);       /* under mpirun or srun */
int command_recheck(int count, char **words);   /* under mpirun or srun */
int command_reference(int count, char **words); /* one process */
int command_plan(int count, char **words);      /* no MPI, no device */
int command_deck(int count, char **words);      /* no MPI, no device */
