#!/usr/bin/env bash
# Pipeleaf under PBS Professional or OpenPBS. Edit this head, then submit from the top of the checkout:
#
#   qsub jobscripts/pbs.sh                                                        the deck named below
#   qsub -l select=2:ncpus=32:mpiprocs=4:ompthreads=8:ngpus=4 -v WORDS="input/small.nml pipeline.ranks=8 run.device=cuda" jobscripts/pbs.sh
#   qsub -v WORDS="sweep input/tiny.nml p=1:2:4 v=1:2" jobscripts/pbs.sh          a table of runs (jobscripts/sweep.sh); colons,
#                                                                                 for qsub takes a comma as the value's end
#
# The job's exit code is the verdict: 0 SUCCESSFUL, 2 UNSUCCESSFUL, 4 stopped by the watchdog (README). What the job had is
# saved in OUTPUT/job: environment, modules, ldd, affinity, the launch line, PBS's own view.
#
#PBS -N pipeleaf
#PBS -j oe
#PBS -l select=1:ncpus=4:mpiprocs=4:ompthreads=1
#PBS -l place=scatter:excl
#PBS -l walltime=00:30:00
# mpiprocs: ranks a node. ompthreads: CPUs a rank, ncpus over mpiprocs. walltime: above run.timeout of the deck, 300 seconds
# unless it says otherwise. GPUs: ngpus as mpiprocs, and gpus_per_rank=1 below.
set -euo pipefail

words=(input/tiny.nml) # the deck, then group.name=value overrides; WORDS replaces them
if [ -n "${WORDS:-}" ]; then read -r -a words <<<"$WORDS"; fi
if [ $# -gt 0 ]; then words=("$@"); fi

# Left empty, ranks are the lines of PBS_NODEFILE, and CPUs a rank what PBS puts in OMP_NUM_THREADS (ompthreads).
# shellcheck disable=SC2034
ranks="" cpus_per_rank="" gpus_per_rank=0 # gpus_per_rank: 0 or 1
# shellcheck disable=SC2034
gpu_map=""         # see jobscripts/schedulers.sh
# module load ...  # what Pipeleaf was built with

root=${PIPELEAF_ROOT:-${PBS_O_WORKDIR:-$PWD}}
if [ ! -r "$root/jobscripts/body.sh" ]; then
    echo "pbs.sh: error: $root is not the checkout of Pipeleaf: submit from its top, or set PIPELEAF_ROOT" >&2
    exit 1
fi
# shellcheck source=jobscripts/body.sh
. "$root/jobscripts/body.sh"
job pbs "${words[@]}"
