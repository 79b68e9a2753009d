#!/usr/bin/env bash
# Pipeleaf under Flux. Edit this head, then submit from the top of the checkout:
#
#   flux batch jobscripts/flux.sh                                                 the deck named below
#   flux batch --nodes=2 --nslots=8 --cores-per-slot=8 --gpus-per-slot=1 jobscripts/flux.sh input/small.nml pipeline.ranks=8
#   flux batch jobscripts/flux.sh sweep input/tiny.nml p=1,2,4 v=1,2              a table of runs (jobscripts/sweep.sh)
#
# The job's exit code is the verdict: 0 SUCCESSFUL, 2 UNSUCCESSFUL, 4 stopped by the watchdog (README). What the job had is
# saved in OUTPUT/job: environment, modules, ldd, affinity, the launch line, Flux's own view.
#
# flux: --job-name=pipeleaf
# flux: --output=pipeleaf-{{id}}.log
# flux: --nodes=1
# flux: --nslots=4
# flux: --cores-per-slot=1
# flux: --time-limit=30m
#
# --time-limit: above run.timeout of the deck, 300 seconds unless it says otherwise. --cores-per-slot: CPUs a rank, said again
# below where it is not 1.
set -euo pipefail

words=(input/tiny.nml) # the deck, then group.name=value overrides; words after the script's name replace them
if [ $# -gt 0 ]; then words=("$@"); fi

# Left empty, ranks are the job's GPUs where it has any, else its cores over cpus_per_rank.
# shellcheck disable=SC2034
ranks="" cpus_per_rank=1 gpus_per_rank="" # gpus_per_rank: 0 or 1
# shellcheck disable=SC2034
gpu_map=""         # see jobscripts/schedulers.sh
# module load ...  # what Pipeleaf was built with

root=${PIPELEAF_ROOT:-$PWD}
if [ ! -r "$root/jobscripts/body.sh" ]; then
    echo "flux.sh: error: $root is not the checkout of Pipeleaf: submit from its top, or set PIPELEAF_ROOT" >&2
    exit 1
fi
# shellcheck source=jobscripts/body.sh
. "$root/jobscripts/body.sh"
job flux "${words[@]}"
