"""What output costs a run: the recorded step's tensors on the disk, and digests in every timed step. p=1, one thread, one core.

usage: benchmark_output.py BUILD SOURCE LAUNCH [--rounds N] [--directory DIR] [--json FILE]     LAUNCH: "mpirun -n"

recorded  the life of the rank's file, from its creation to its renaming once it is whole and on the disk (fsync), less a timed
          step's compute, which goes on in that time, is what writing the recorded step cost. Its rate over that of plain writes
          of the same bytes to the same folder, up to fsync: target 0.8. (benchmark_output compares the two without a run.)
          In a virtual machine, memory that was freed just now takes a file many times faster than memory that the host must find
          first (here 4.7 against 0.3 GB/s). So for both sides as much memory as the file needs is held, and let go when the file
          is begun; the plain writer first fills as much as the run held; and no file is removed before the end.
bare      of the life of that file, compute included, what the kernel took for the writing calls of the run itself. It tells our part from the
          kernel's and is no comparison with anything: it also rises where our writes are slow ones.
digests   the median timed step with output.activations and output.gradients 'digest' over that with 'none', at hidden 1024:
          target 1.02. The order of the two changes from round to round.
"""
import os
import tempfile
import threading
import time

import figures
import runs

COMMON = {"run.threads": 1, "run.device": "host", "pipeline.chunks_per_rank": 1, "output.timeline": ".false."}
# Few tokens and large weights: the step is short and its gradients are many.
WRITTEN = {**COMMON, "model.layers": 3, "model.hidden": 2048, "model.heads": 16, "model.sequence": 16, "batch.microbatches": 1,
           "batch.microbatch_size": 1, "run.steps": 3, "run.warmup_steps": 1, "output.activations": "none", "output.gradients": "full"}


PAGES = 1 << 30  # bytes: more than the file of WRITTEN takes


class MemoryAtHand:
    """Holds memory that the machine has found already, until a file is there: what is written to it then finds that memory."""

    def __init__(self, path):
        self.memory = bytearray(b"\1") * PAGES
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.watch, args=(path,))

    def watch(self, path):
        while not os.path.exists(path) and not self.ended.wait(0.002):
            pass
        self.memory = None

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


def life(path):
    """Seconds from a file's creation to its last change of name; None where the file system keeps no time of creation."""
    words = runs.call(["stat", "-c", "%.9W %.9Z", path])[0].split()
    born, renamed = (float(word) if word not in ("-", "?") else 0.0 for word in words)
    return renamed - born if born > 0 else None


def plain_write(path, size, held):
    """Seconds to write so many bytes, a megabyte at a time, and to fsync them: on one core and holding so much memory, as the run."""
    cpus = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cpus)})
    memory = bytearray(b"\1") * held
    block = os.urandom(1 << 20)
    at_hand = bytearray(b"\1") * PAGES
    del at_hand
    begin = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for at in range(0, size, len(block)):
            file.write(block[:size - at])
        os.fsync(file.fileno())
    seconds = time.monotonic() - begin
    os.sched_setaffinity(0, cpus)
    del memory
    return seconds


def recorded(options, directory):
    ratios, rates, plain_rates, bare = [], [], [], []
    notes = f"{directory}/writes"
    before = ["env", f"LD_PRELOAD={options.build}/validate/performance/libbenchmark_time_writes.so", f"PIPELEAF_WRITES={notes}"]
    for number in range(options.rounds):
        output = f"{directory}/out{number}"
        os.sync()  # what others left behind is not to be the run's to write
        with MemoryAtHand(f"{output}/rank00000.h5.part"):
            result = runs.run(options, 1, WRITTEN, output, before=before)["figures"]
        size = os.path.getsize(f"{output}/rank00000.h5")
        seconds = life(f"{output}/rank00000.h5")
        if seconds is None:
            print(f"recorded step: NOT MEASURED: the file system of {directory} keeps no time of a file's creation")
            return None
        with open(notes, encoding="utf-8") as file:
            taken, written = (float(word) for word in file.read().split())
        if written < 0.99 * size:  # HDF5 leaves gaps in what it lays out, which nobody writes
            raise SystemExit(f"benchmark_output.py: {written:.0f} bytes were seen written of a file of {size}")
        bare.append(taken / seconds)
        os.sync()
        time.sleep(options.rest)
        plain = plain_write(f"{directory}/plain{number}", size, int(result["held_bytes_largest_rank"]))
        writing = seconds - result["median_step_seconds"]
        ratios.append(plain / writing)
        rates.append(size / writing)
        plain_rates.append(size / plain)
    rate, plain_rate = runs.spread(rates), runs.spread(plain_rates)
    print(f"recorded step, {size / 1e6:.0f} MB: {runs.shown(rate, '{:.2e}')} bytes/s; plain writes {runs.shown(plain_rate, '{:.2e}')}",
          flush=True)
    return {"bytes": size, "rate": rate, "plain_rate": plain_rate,
            "of_plain": runs.spread(ratios), "bare": runs.spread(bare)}


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
    parser.add_argument("--rest", type=float, default=5, help="seconds before the plain writes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeleaf-output-", dir=options.directory) as directory:
        written, added = recorded(options, directory), digests(options, directory)
    rows = [figures.of_spread("output.digests", f"a step with digests over one without, less 1, sequence {options.sequence}",
                              added["step_over_step_without"], less=1)]
    if written:
        rows.append(figures.of_spread("output.rate", "recorded step's output over plain writes, rate", written["of_plain"]))
        rows.append(figures.of_spread("output.bare", "recorded step's output, share of its own writing calls", written["bare"]))
    figures.print_figures(rows)
    runs.write_json(options.json, "output", {"recorded": written, "digests": added})


if __name__ == "__main__":
    main()
