/* pipeleaf: training steps of a transformer-layer stack under a pipeline schedule, verified to the last bit.
 */
#include "command/command.h"
#include <stdio.h>
#include <string.h>

/* clang-format off */
static const char usage[] =
    "usage: pipeleaf run DECK [group.name=value ...] [--inject FAULT]    under mpirun or srun; the MPI size is p,\n"
    "                                                                    or k*p for k pipelines side by side\n"
    "       pipeleaf recheck DIR [run.device=...]                        computes a run's chunks again, each by another rank\n"
    "       pipeleaf reference DECK [group.name=value ...]               one process, one device, no pipeline\n"
    "       pipeleaf plan DECK [group.name=value ...] [options]          partition, memory, time; runs nothing\n"
    "       pipeleaf deck [DECK [group.name=value ...]]                  the parameters; or DECK's effective deck\n"
    "       pipeleaf --help | --version\n"
    "\n"
    "plan:  --picture             draw the schedule even where it is wide\n"
    "       --svg FILE            the same picture as SVG\n"
    "       --channels            every channel, however many\n"
    "       --from DIR            costs as measured by the run in DIR instead of &machine\n"
    "       --export-csv FILE     the schedule as PyTorch's pipelining CSV; --with-communication adds sends and receives\n"
    "\n"
    "FAULT flips one bit, to see the verdict fail:\n"
    "       step=1,layer=3,microbatch=5,tensor=gradients/mlp.up.weight,element=77,bit=3\n"
    "       tensor: gradients/NAME, activation or activation_gradient; layers and microbatches count from 0;\n"
    "       pipeline=1 puts it into that one of several pipelines, else it is the first one's\n"
    "\n"
    "exit:  0 done, and SUCCESSFUL where a verdict was asked for    3 NOT PERFORMED though asked for by name\n"
    "       1 failed: bad deck, bad file, no device, MPI error      4 timeout: the run no longer moved\n"
    "       2 VERIFICATION = UNSUCCESSFUL                           5 right, but below the performance target\n"
    "\n"
    "pipeleaf-validate RUN REFERENCE compares two outputs. README.md says more.\n";
/* clang-format on */

struct command {
    const char *name;
    int (*run)(int count, char **words);
};
static const struct command commands[] = {
    { "run", command_run },
    { "recheck", command_recheck },
    { "reference", command_reference },
    { "plan", command_plan },
    { "deck", command_deck },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

int main(int argc, char **argv)
{
    if (argc < 2) {
        fputs(usage, stderr);
        return EXIT_FAILED;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        fputs(usage, stdout);
        return EXIT_DONE;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("pipeleaf %s (%s)\n", pipeleaf_version, pipeleaf_commit);
        return EXIT_DONE;
    }
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++) {
        names[i] = commands[i].name;
        if (strcmp(argv[1], commands[i].name) == 0) return commands[i].run(argc - 2, argv + 2);
    }
    const char *near = nearest_name(argv[1], names, COMMANDS);
    fail("unknown command '%s': the commands are run, recheck, reference, plan and deck; the nearest is %s",
        argv[1], near ? near : "run");
}
