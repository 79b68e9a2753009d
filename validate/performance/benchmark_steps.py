"""Whole steps: their share of the machine's FMA peak, and the reference's time against the pipeline's at p=1.

usage: benchmark_steps.py BUILD SOURCE LAUNCH [--rounds N] [--json FILE]     LAUNCH: "mpirun -n"
Each ratio is taken from runs that alternate; medians with their spread. Uses the standard library alone.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import tempfile


def call(words):
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}")


def result(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("build")
    arguments.add_argument("source")
    arguments.add_argument("launch")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--json")
    options = arguments.parse_args()
    pipeleaf = f"{options.build}/pipeleaf"
    small = f"{options.source}/input/small.nml"
    figures = {}

    with tempfile.TemporaryDirectory(prefix="pipeleaf-benchmark-") as directory:
        one = shlex.split(options.launch) + ["1", pipeleaf, "run", small, "pipeline.ranks=1", f"output.directory={directory}",
                                             "run.threads=1", "verify.against=none"]
        large = one + ["model.hidden=1024", "model.heads=16", "model.sequence=512", "model.layers=4", "batch.microbatches=2",
                       "run.steps=3", "run.warmup_steps=1", "output.activations=digest", "output.gradients=digest"]
        shares = []
        for _ in range(options.rounds):
            call(large)
            shares.append(result(f"{directory}/result.json")["figures"]["share_of_fma_peak"])
        figures["step_share_of_fma_peak"] = spread(shares)
        print(f"a step, hidden 1024, sequence 512, 4 layers, p=1, one thread: {statistics.median(shares):.3f} of the FMA peak "
              f"({min(shares):.3f} to {max(shares):.3f}, {len(shares)} runs)")

        ratios = []
        for _ in range(options.rounds):
            call([pipeleaf, "reference", small, "verify.steps=all", f"output.directory={directory}", "run.threads=1", "run.steps=3", "run.warmup_steps=0"])
            call(one + ["run.steps=3", "run.warmup_steps=0"])
            reference = result(f"{directory}/reference.json")["step_seconds"]
            run = result(f"{directory}/result.json")
            pipeline = run["step_seconds"] + [run["figures"]["recorded_step_seconds"]]
            ratios.append(sum(reference) / sum(pipeline))
        figures["reference_over_pipeline_small"] = spread(ratios)
        print(f"small, all 4 steps, the reference over the p=1 pipeline: {statistics.median(ratios):.3f} "
              f"({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)")

    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
