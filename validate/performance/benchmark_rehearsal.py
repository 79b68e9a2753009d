"""What schedules cost at p ranks, rehearsed over real MPI: the fraction of a step that ranks are idle.

usage: benchmark_rehearsal.py BUILD SOURCE LAUNCH [--ranks 8,16,32] [--microbatches 64] [--json FILE]   LAUNCH: "mpirun -n"
One row a p: closed form and measured, for gpipe and 1f1b (v=1, 100 ms a chunk's F+B), interleaved v=2 and v=4 (20 ms). The ranks
only wait for these times, so more of them than cores are no matter; programs, channels and messages are the real ones.
"""
import argparse
import json
import shlex
import subprocess
import tempfile

CASES = [("gpipe", 1, 0.1), ("1f1b", 1, 0.1), ("interleaved-1f1b", 2, 0.02), ("interleaved-1f1b", 4, 0.02)]


def rehearse(options, ranks, schedule, chunks, seconds, directory):
    layers = ranks * chunks
    words = shlex.split(options.launch) + [
        str(ranks), f"{options.build}/pipeleaf", "run", f"{options.source}/input/tiny.nml", "run.device=rehearsal",
        f"pipeline.ranks={ranks}", f"pipeline.chunks_per_rank={chunks}", f"pipeline.schedule={schedule}",
        f"model.layers={layers}", f"batch.microbatches={options.microbatches}", "run.steps=1", "run.warmup_steps=0",
        f"machine.forward={seconds / 3:.9f}", f"machine.backward={2 * seconds / 3:.9f}", "output.timeline=.false.",
        "verify.against=none", f"output.directory={directory}"]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}")
    with open(f"{directory}/result.json", encoding="utf-8") as file:
        return json.load(file)["figures"]["bubble_of_step"]


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("build")
    arguments.add_argument("source")
    arguments.add_argument("launch")
    arguments.add_argument("--ranks", default="8,16,32")
    arguments.add_argument("--microbatches", type=int, default=64)
    arguments.add_argument("--json")
    options = arguments.parse_args()
    rows = []
    print("| p | " + " | ".join(f"{name} v={chunks}" for name, chunks, _ in CASES) + " |")
    print("| --- |" + " --- |" * len(CASES), flush=True)
    with tempfile.TemporaryDirectory(prefix="pipeleaf-rehearsal-") as directory:
        for ranks in (int(word) for word in options.ranks.split(",")):
            cells = []
            for name, chunks, seconds in CASES:
                closed = (ranks - 1) / (options.microbatches * chunks + ranks - 1)
                measured = rehearse(options, ranks, name, chunks, seconds, directory)
                cells.append(f"{closed:.3f} / {measured:.3f}")
                rows.append({"ranks": ranks, "schedule": name, "chunks_per_rank": chunks, "microbatches": options.microbatches,
                             "chunk_seconds": seconds, "closed_form": closed, "measured": measured})
            print(f"| {ranks} | " + " | ".join(cells) + " |", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
