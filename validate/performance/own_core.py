"""Runs COMMAND on one core of its own: of the CPUs that this process may use, the one that the MPI rank counts to.

usage: mpirun -n P own_core.py COMMAND [WORD ...]     Needs as many CPUs as ranks; a launcher's own binding is to be off.
"""
import os
import sys

RANK_NAMES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")


def main():
    if len(sys.argv) < 2:
        raise SystemExit("own_core.py: a command is needed: own_core.py COMMAND [WORD ...]")
    rank = next((int(os.environ[name]) for name in RANK_NAMES if name in os.environ), 0)
    cpus = sorted(os.sched_getaffinity(0))
    if rank >= len(cpus):
        raise SystemExit(f"own_core.py: rank {rank} finds no core of its own: {len(cpus)} CPUs may be used")
    os.sched_setaffinity(0, {cpus[rank]})
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as error:
        raise SystemExit(f"own_core.py: {sys.argv[1]}: {error.strerror}") from error


if __name__ == "__main__":
    main()
