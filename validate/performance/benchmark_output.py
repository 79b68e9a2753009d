"""What output costs a run: the recorded step's tensors on the disk, and digests in every timed step. p=1, one thread, one core.

usage: benchmark_output.py BUILD SOURCE LAUNCH [--rounds N] [--directory DIR] [--json FILE]     LAUNCH: "mpirun -n"

recorded  the life of the rank's file, from its creation to its renaming once it is whole and on the disk, goes by in the kernel's
          taking the bytes (pwrite, fsync: what a plain write of them takes, at this moment on this machine) and in all that we do
          beside, compute included. The former over the whole: target 0.8. It is measured within one file's life because in a
          virtual machine two files take very different times, by the memory that the host must find for them (here 0.3 to 4.7 GB/s);
          benchmark_output compares with plain writes of the same bytes to files of their own.
digests   the median timed step with output.activations and output.gradients 'digest' over that with 'none', at hidden 1024:
          target 1.02. The order of the two changes from round to round.
"""
import os
import tempfile

import figures
import runs

COMMON = {"run.threads": 1, "run.device": "host", "pipeline.chunks_per_rank": 1, "output.timeline": ".false."}
# Few tokens and large weights: the step is short and its gradients are many.
WRITTEN = {**COMMON, "model.layers": 3, "model.hidden": 2048, "model.heads": 16, "model.sequence": 16, "batch.microbatches": 1,
           "batch.microbatch_size": 1, "run.steps": 3, "run.warmup_steps": 1, "output.activations": "none", "output.gradients": "full"}


def life(path):
    """Seconds from a file's creation to its last change of name; None where the file system keeps no time of creation."""
    words = runs.call(["stat", "-c", "%.9W %.9Z", path])[0].split()
    born, renamed = (float(word) if word not in ("-", "?") else 0.0 for word in words)
    return renamed - born if born > 0 else None


def recorded(options, directory):
    shares, rates = [], []
    notes = f"{directory}/writes"
    before = ["env", f"LD_PRELOAD={options.build}/validate/performance/libbenchmark_time_writes.so", f"PIPELEAF_WRITES={notes}"]
    for number in range(options.rounds):
        output = f"{directory}/out{number}"
        os.sync()  # what others left behind is not to be the run's to write
        runs.run(options, 1, WRITTEN, output, before=before)
        size, whole = os.path.getsize(f"{output}/rank00000.h5"), life(f"{output}/rank00000.h5")
        if whole is None:
            print(f"recorded step: NOT MEASURED: the file system of {directory} keeps no time of a file's creation")
            return None
        with open(notes, encoding="utf-8") as file:
            taken, written = (float(word) for word in file.read().split())
        if written < 0.99 * size:  # HDF5 leaves gaps in what it lays out, which nobody writes
            raise SystemExit(f"benchmark_output.py: {written:.0f} bytes were seen written of a file of {size}")
        shares.append(taken / whole)
        rates.append(size / whole)
        os.remove(f"{output}/rank00000.h5")
    rate = runs.spread(rates)
    print(f"recorded step, {size / 1e6:.0f} MB: {runs.shown(rate, '{:.2e}')} bytes/s, compute and all", flush=True)
    return {"bytes": size, "rate": rate, "of_plain": runs.spread(shares)}


def digests(options, directory):
    ratios = []
    for number in range(options.rounds):
        seconds = {}
        for what in ("digest", "none") if number % 2 == 0 else ("none", "digest"):
            deck = {**COMMON, "model.layers": 2, "model.hidden": 1024, "model.heads": 16, "model.sequence": options.sequence,
                    "batch.microbatches": 4, "batch.microbatch_size": 1, "run.steps": options.steps, "run.warmup_steps": 1,
                    "output.activations": what, "output.gradients": what}
            seconds[what] = runs.run(options, 1, deck, f"{directory}/out")["figures"]["median_step_seconds"]
        ratios.append(seconds["digest"] / seconds["none"])
    return {"sequence": options.sequence, "step_over_step_without": runs.spread(ratios)}


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--directory", help="where to write: a folder of the file system in question; default: that of temporary files")
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeleaf-output-", dir=options.directory) as directory:
        written, added = recorded(options, directory), digests(options, directory)
    rows = [figures.of_spread("output.digests", f"a step with digests over one without, less 1, sequence {options.sequence}",
                              added["step_over_step_without"], less=1)]
    if written:
        rows.append(figures.of_spread("output.rate", "recorded step's output, rate over that of its bare writes", written["of_plain"]))
    figures.print_figures(rows)
    runs.write_json(options.json, "output", {"recorded": written, "digests": added})


if __name__ == "__main__":
    main()
