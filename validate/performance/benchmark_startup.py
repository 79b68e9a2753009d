"""How soon there is an answer: the first step of `run`, the commands that need no launch, and every kind of refusal.

usage: benchmark_startup.py BUILD SOURCE LAUNCH [--rounds N] [--json FILE]     LAUNCH: "mpirun -n"

first step  from MPI_Init to the first step of tiny, as the run says; target 0.5 s
commands    from the process's start to its end; target 0.1 s, refusals included
of `run`    refusals under the launcher, less a program that starts and ends MPI and exits with 1 as they do, in turn; target 0.1 s
            (mpirun itself may take seconds to end after any exit code but 0)
"""
import os
import shlex
import statistics
import subprocess
import tempfile
import time

import figures
import runs

TINY = "input/tiny.nml"
# What is asked, its words, and whether it is refused.
COMMANDS = [
    ("deck", ["deck"], False), ("deck of tiny", ["deck", TINY], False), ("plan of tiny", ["plan", TINY], False),
    ("help", ["--help"], False),
    ("unknown command", ["frobnicate"], True), ("no deck", ["plan"], True), ("deck is missing", ["plan", "input/none.nml"], True),
    ("unknown name", ["plan", TINY, "model.hiden=64"], True), ("wrong type", ["plan", TINY, "model.hidden=wide"], True),
    ("out of range", ["plan", TINY, "model.hidden=-1"], True), ("hidden, heads", ["plan", TINY, "model.heads=5"], True),
    ("layers, chunks", ["plan", TINY, "pipeline.layers_per_chunk=1,2"], True),
    ("schedule, chunks", ["plan", TINY, "pipeline.schedule=gpipe"], True),
    ("schedule's file", ["plan", TINY, "pipeline.schedule=file", "pipeline.schedule_file=input/none.csv"], True),
    ("no measured run", ["plan", TINY, "--from", "input"], True),
    ("reference, no deck", ["reference"], True),
    ("reference, hidden, heads", ["reference", TINY, "model.heads=5"], True),
]
RUN_REFUSALS = [
    ("run, no deck", []), ("run, deck is missing", ["input/none.nml"]), ("run, unknown name", [TINY, "model.hiden=64"]),
    ("run, another MPI size", [TINY, "pipeline.ranks=3"]), ("run, schedule, chunks", [TINY, "pipeline.ranks=1", "pipeline.schedule=gpipe"]),
    ("run, no CUDA", [TINY, "pipeline.ranks=1", "run.device=cuda"]),
    ("run, too large", [TINY, "pipeline.ranks=1", "model.sequence=8192", "model.hidden=4096", "batch.microbatch_size=4096"]),
]


def seconds_of(words, refused, source):
    """The wall time of a process that must end with exit 0, or with 1 where it refuses."""
    begin = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=source)
    seconds = time.monotonic() - begin
    if done.returncode != (1 if refused else 0):
        raise SystemExit(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return seconds


def first_steps(options, directory):
    rows = []
    for ranks in (1, 2, 4):
        words = shlex.split(options.launch) + [str(ranks), f"{options.build}/pipeleaf", "run", f"{options.source}/{TINY}",
                                               f"pipeline.ranks={ranks}", f"output.directory={directory}"]
        values = []
        for _ in range(options.rounds):
            runs.call(words, cwd=options.source)
            values.append(runs.load(f"{directory}/result.json")["figures"]["startup_seconds"])
        rows.append(figures.figure("startup.first_step", f"first step of tiny, p={ranks}, s", values))
    return rows


def commands(options):
    program = f"{options.build}/pipeleaf"
    return [figures.figure("startup.command", f"{'refusal: ' if refused else ''}{what}, s", [
        seconds_of([program, *words], refused, options.source) for _ in range(options.rounds)]) for what, words, refused in COMMANDS]


def run_refusals(options):
    """Each beside the bare start of MPI."""
    launch = [*shlex.split(options.launch), "1"]
    bare = f"{options.build}/validate/performance/benchmark_start"
    rows, alone = [], []
    for what, words in RUN_REFUSALS:
        values = []
        for _ in range(options.rounds):
            alone.append(seconds_of([*launch, bare, "1"], True, options.source))
            values.append(seconds_of([*launch, f"{options.build}/pipeleaf", "run", *words], True, options.source) - alone[-1])
        rows.append(figures.figure("startup.command", f"refusal: {what}, beyond MPI's own start and end, s", values))
    print(f"an MPI program that does nothing and exits with 1 takes {statistics.median(alone):.3f} s under the launcher")
    return rows


def main():
    parser = runs.command_line(__doc__, rounds=10)
    options = parser.parse_args()
    options.build, options.source = os.path.abspath(options.build), os.path.abspath(options.source)
    with tempfile.TemporaryDirectory(prefix="pipeleaf-startup-") as directory:
        rows = first_steps(options, directory) + commands(options) + run_refusals(options)
    figures.print_figures(rows)
    runs.write_json(options.json, "startup", {"figures": rows})


if __name__ == "__main__":
    main()
