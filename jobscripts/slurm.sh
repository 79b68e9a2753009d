#!/usr/bin/env bash
# Pipeleaf under Slurm. Edit this head, then submit from the top of the checkout:
#
#   sbatch jobscripts/slurm.sh                                                    the deck named below
#   sbatch --nodes=2 --ntasks=8 --ntasks-per-node=4 --gpus-per-node=4 jobscripts/slurm.sh input/small.nml pipeline.ranks=8
#   sbatch jobscripts/slurm.sh sweep input/tiny.nml p=1,2,4 v=1,2 m=8,16          a table of runs (jobscripts/sweep.sh)
#
# The job's exit code is the verdict: 0 SUCCESSFUL, 2 UNSUCCESSFUL, 4 stopped by the watchdog (README). What the job had is
# saved in OUTPUT/job: environment, modules, ldd, affinity, the launch line, Slurm's own view.
#
#SBATCH --job-name=pipeleaf
#SBATCH --output=pipeleaf-%j.log
#SBATCH --nodes=1
#SBATCH --ntasks=4
##SBATCH --ntasks-per-node=4
#SBATCH --cpus-per-task=1
##SBATCH --gpus-per-node=4
##SBATCH --threads-per-core=1
##SBATCH --exclusive
#SBATCH --time=00:30:00
# --ntasks: ranks; on several nodes --ntasks-per-node too, or Slurm may place them unevenly. --gpus-per-node: as many as ranks,
# which get one each. --time: above run.timeout of the deck, 300 seconds unless it says otherwise.
set -euo pipefail

words=(input/tiny.nml) # the deck, then group.name=value overrides; words after the script's name replace them
if [ $# -gt 0 ]; then words=("$@"); fi

# Left empty, these are what sbatch was asked for.
# shellcheck disable=SC2034
ranks="" cpus_per_rank="" gpus_per_rank="" # gpus_per_rank: 0 or 1
# shellcheck disable=SC2034
gpu_map="" mpi="" distribution="" # see jobscripts/schedulers.sh; mpi="" is pmix where srun has it
# module load ...                 # what Pipeleaf was built with

root=${PIPELEAF_ROOT:-${SLURM_SUBMIT_DIR:-$PWD}}
if [ ! -r "$root/jobscripts/body.sh" ]; then
    echo "slurm.sh: error: $root is not the checkout of Pipeleaf: submit from its top, or set PIPELEAF_ROOT" >&2
    exit 1
fi
# shellcheck source=jobscripts/body.sh
. "$root/jobscripts/body.sh"
job slurm "${words[@]}"
