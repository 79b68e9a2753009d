#include "command/command.h"
#include "command/help.h"
#include <string.h>

/* clang-format off */
const struct command commands[] = {
    { "run", command_run, "DECK [group.name=value ...]", "the pipeline; under mpirun or srun",
        "Runs the deck's training steps under its pipeline schedule, a process a rank, prints the listing, writes the output "
        "directory and compares what was computed with the reference that &verify names. Where the MPI size is a multiple of "
        "pipeline.ranks, so many pipelines run side by side, each verified by itself." },
    { "recheck", command_recheck, "DIR [run.device=...] [run.threads=...] [run.timeout=...]",
        "computes a run's chunks again, each by another rank",
        "From what the run in DIR recorded at its chunks' boundaries computes every chunk of the recorded step again, each by "
        "another rank than the one that had, and compares every recorded bit: the verdict on a run too large for a "
        "reference. Under mpirun or srun, by any number of ranks. &verify against='recheck' has `run` do it." },
    { "reference", command_reference, "DECK [group.name=value ...]", "one process, one device, no pipeline",
        "Computes the same step layer by layer on one device that holds one layer and one microbatch, and writes the reference "
        "that runs of the deck are compared with, at any number of ranks and under any schedule." },
    { "plan", command_plan, "DECK [group.name=value ...]", "partition, memory, time; runs nothing",
        "Says what a run would do: layers, memory and slots of each rank, makespan and bubble by formula and simulation, traffic "
        "of each channel, all schedules side by side, and the schedule as a picture. Needs neither MPI nor a device." },
    { "deck", command_deck, "[DECK [group.name=value ...]]", "the parameters; or DECK's effective deck",
        "Without a deck: every parameter with its type, default, legal values and meaning. With one: the effective deck, which "
        "names every parameter and is itself a deck." },
};
/* clang-format on */
const size_t command_count = sizeof commands / sizeof *commands;

const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < command_count; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}
