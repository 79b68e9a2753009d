"""Runs COMMAND and appends to FILE one line: the largest resident memory that it had, in bytes.

usage: mpirun -n P peak_memory.py FILE COMMAND [WORD ...]     One line a rank. Its exit code is the command's.
"""
import os
import sys


def main():
    if len(sys.argv) < 3:
        raise SystemExit("peak_memory.py: a file and a command are needed: peak_memory.py FILE COMMAND [WORD ...]")
    # Spawned and not forked: a child begins with the resident memory of whom it was forked from.
    child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
    _, status, usage = os.wait4(child, 0)
    with open(sys.argv[1], "a", encoding="utf-8") as file:
        file.write(f"{usage.ru_maxrss * 1024}\n")
    raise SystemExit(os.waitstatus_to_exitcode(status) & 255)


if __name__ == "__main__":
    main()
