"""Whole steps at p=1: their share of the machine's FMA peak, what a second thread gains, and the reference's time.

usage: benchmark_steps.py BUILD SOURCE LAUNCH [--rounds N] [--json FILE]     LAUNCH: "mpirun -n"

Runs of a round alternate: one thread, two threads, and AVX2 forced where the processor has more. A share is of the peak that the
same run measured with the same instructions and threads. The reference and the pipeline compute all four steps of small.
"""
import os
import shlex
import tempfile

import figures
import processor
import runs

LARGE = {"model.layers": 2, "model.hidden": 1024, "model.heads": 16, "model.sequence": 1024, "batch.microbatches": 2,
         "run.steps": 2, "run.warmup_steps": 1, "output.activations": "digest", "output.gradients": "digest"}


def run(options, threads, deck, directory, instructions=None):
    """`pipeleaf run` of small at p=1; its result.json."""
    words = shlex.split(options.launch) + [
        "1", f"{options.build}/pipeleaf", "run", f"{options.source}/input/small.nml", "pipeline.ranks=1", "run.device=host",
        f"run.threads={threads}", "verify.against=none", f"output.directory={directory}", *runs.deck_words(deck)]
    environment = {**os.environ, **({"PIPELEAF_INSTRUCTION_SET": instructions} if instructions else {})}
    runs.call(words, env=environment)
    return runs.load(f"{directory}/result.json")["figures"] | runs.load(f"{directory}/result.json")


def large_steps(options, directory):
    sides = {"one thread": (1, None)}
    if len(os.sched_getaffinity(0)) > 1:
        sides["two threads"] = 2, None
    if processor.has("avx512f") and processor.has("avx2"):
        sides["one thread, AVX2 forced"] = 1, "avx2"
    shares, seconds = {side: [] for side in sides}, {side: [] for side in sides}
    for _ in range(options.rounds):
        for side, (threads, instructions) in sides.items():
            result = run(options, threads, LARGE, directory, instructions)
            share = result["share_of_fma_peak"]
            if share is None:
                raise SystemExit(f"benchmark_steps.py: {side}: the share of the peak was not measured: threads lack CPUs of their own")
            shares[side].append(share)
            seconds[side].append(result["median_step_seconds"])
    rows = [figures.figure("steps.share", f"step's share of the FMA peak, hidden 1024, s 1024, {side}", shares[side]) for side in sides]
    if "two threads" in sides:
        rows.append(figures.figure("steps.threads", "step on one thread over two, hidden 1024, sequence 1024", [
            a / b for a, b in zip(seconds["one thread"], seconds["two threads"])]))
    return rows, seconds


def reference(options, directory):
    ratios = []
    steps = {"run.steps": 3, "run.warmup_steps": 0}
    for _ in range(options.rounds):
        runs.call([f"{options.build}/pipeleaf", "reference", f"{options.source}/input/small.nml", "verify.steps=all", "run.threads=1",
                   "run.device=host", f"output.directory={directory}", *runs.deck_words(steps)])
        result = run(options, 1, steps, directory)
        ratios.append(sum(runs.load(f"{directory}/reference.json")["step_seconds"])
                      / (sum(result["step_seconds"]) + result["recorded_step_seconds"]))
    return figures.figure("steps.reference", "the reference over the pipeline at p=1, small, all steps", ratios)


def main():
    parser = runs.command_line(__doc__)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeleaf-steps-") as directory:
        rows, seconds = large_steps(options, directory)
        rows.append(reference(options, directory))
    figures.print_figures(rows)
    runs.write_json(options.json, "steps", {"figures": rows, "seconds": seconds})


if __name__ == "__main__":
    main()
