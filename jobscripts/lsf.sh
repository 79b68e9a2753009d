#!/usr/bin/env bash
# Pipeleaf under LSF, with mpirun or, where it is installed, jsrun. Edit this head, then submit from the top of the checkout:
#
#   bsub < jobscripts/lsf.sh                                                      the deck named below
#   WORDS="input/small.nml pipeline.ranks=8" bsub -n 8 -R "span[ptile=4]" < jobscripts/lsf.sh
#   WORDS="sweep input/tiny.nml p=1,2,4 v=1,2" bsub < jobscripts/lsf.sh           a table of runs (jobscripts/sweep.sh)
#
# The job's exit code is the verdict: 0 SUCCESSFUL, 2 UNSUCCESSFUL, 4 stopped by the watchdog (README). What the job had is
# saved in OUTPUT/job: environment, modules, ldd, affinity, the launch line, LSF's own view.
#
#BSUB -J pipeleaf
#BSUB -o pipeleaf-%J.log
#BSUB -n 4
#BSUB -R "span[ptile=4] affinity[core(1)]"
#BSUB -x
#BSUB -W 30
# -n: ranks; ptile: ranks a node; core(): CPUs a rank, said again below. -W: minutes, above run.timeout of the deck, 300 seconds
# unless it says otherwise. GPUs: #BSUB -gpu "num=4/host:mode=shared:j_exclusive=yes", and gpus_per_rank=1 below. With jsrun:
# #BSUB -nnodes 2 instead of -n, -R and -x, and ranks_per_node below.
set -euo pipefail

words=(input/tiny.nml) # the deck, then group.name=value overrides; WORDS replaces them
if [ -n "${WORDS:-}" ]; then read -r -a words <<<"$WORDS"; fi
if [ $# -gt 0 ]; then words=("$@"); fi

# Left empty, ranks are the slots of the job; with jsrun, ranks_per_node on each node.
# shellcheck disable=SC2034
ranks="" ranks_per_node=4 cpus_per_rank=1 gpus_per_rank=0 # gpus_per_rank: 0 or 1
# shellcheck disable=SC2034
gpu_map=""         # see jobscripts/schedulers.sh
# module load ...  # what Pipeleaf was built with

root=${PIPELEAF_ROOT:-${LS_SUBCWD:-$PWD}}
if [ ! -r "$root/jobscripts/body.sh" ]; then
    echo "lsf.sh: error: $root is not the checkout of Pipeleaf: submit from its top, or set PIPELEAF_ROOT" >&2
    exit 1
fi
# shellcheck source=jobscripts/body.sh
. "$root/jobscripts/body.sh"
job lsf "${words[@]}"
