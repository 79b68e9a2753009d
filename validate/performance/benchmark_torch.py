"""A step beside PyTorch's on the same layers, weights, inputs and threads: forward and backward in fp32.

usage: benchmark_torch.py BUILD SOURCE LAUNCH [--rounds N] [--hidden 512,1024,2048] [--threads 1,2] [--json FILE]

The newest PyTorch of PyPI is installed into an environment under BUILD (several GB; exit 77 where it cannot be had). Weights,
inputs and targets are those of a run, from its files; gradients are accumulated over the same microbatches, and must agree to
1e-4. Each round runs a step's worth of both sides, p=1, in turn: ours as a new process with a warm-up step, PyTorch's in a
process that stays, eager and compiled. Ratios are our time over theirs, of medians of --steps steps.
"""
import tempfile

import figures
import runs
import torch_side


def deck_of(options, hidden):
    return {"model.layers": options.layers, "model.hidden": hidden, "model.heads": hidden // 64,
            "model.sequence": options.sequence, "batch.microbatches": options.microbatches, "batch.microbatch_size": 1,
            "pipeline.schedule": "1f1b", "pipeline.chunks_per_rank": 1}


def start(options, python, threads, modes, directory):
    """{mode: process}, each warm and found to make our gradients. A compilation that takes too long is given up."""
    processes = {}
    for mode in modes:
        process = torch_side.Process([python, f"{runs.HERE}/torch_step.py", directory, str(threads), mode],
                                     torch_side.their_environment(threads))
        first = process.answer(options.compile_limit if mode == "compiled" else None)
        if first is None:
            print(f"  compiled: not ready within {options.compile_limit:g} s: left out", flush=True)
            process.end(now=True)
            continue
        torch_side.check_gradients(first, f"  {mode}")
        processes[mode] = process, first
    return processes


def measure(options, python, hidden, threads, directory):
    """The figures of one size and number of threads, and what they were measured with."""
    deck = deck_of(options, hidden)
    data, scratch = f"{directory}/data{hidden}", f"{directory}/run"
    processes = start(options, python, threads, options.modes, data)
    seconds = {"ours": [], **{mode: [] for mode in processes}}
    for turn in range(options.rounds):
        sides = list(seconds)
        for side in sides[turn % len(sides):] + sides[:turn % len(sides)]:  # who comes first changes
            if side == "ours":
                seconds[side].append(torch_side.our_seconds(options, 1, threads, deck, scratch))
            else:
                processes[side][0].order(options.steps)
                seconds[side].append(processes[side][0].answer()["seconds"])
    rows = []
    for mode, (process, _) in processes.items():
        rows.append(figures.figure("torch.step", f"step, ours over PyTorch {mode}, hidden {hidden}, {threads} thread{'s' * (threads > 1)}",
                                   [a / b for a, b in zip(seconds["ours"], seconds[mode])]))
        process.end()
    print("  seconds a step: " + ", ".join(f"{side} {runs.shown(runs.spread(values))}" for side, values in seconds.items()),
          flush=True)
    return rows, {"hidden": hidden, "threads": threads, "seconds": seconds, "pytorch": {m: first for m, (_, first) in processes.items()}}


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--hidden", type=runs.numbers, default=[512, 1024, 2048], help="multiples of 64: heads are of 64")
    parser.add_argument("--threads", type=runs.numbers, default=[1, 2])
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--microbatches", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a side in a round")
    parser.add_argument("--modes", type=lambda text: text.split(","), default=["eager", "compiled"])
    parser.add_argument("--compile-limit", type=float, default=60, help="seconds after which torch.compile is left out")
    options = parser.parse_args()
    if any(hidden % 64 for hidden in options.hidden) or not set(options.modes) <= {"eager", "compiled"}:
        raise SystemExit("benchmark_torch.py: --hidden takes multiples of 64, --modes eager and compiled")
    python = torch_side.python(options)
    rows, measured = [], []
    with tempfile.TemporaryDirectory(prefix="pipeleaf-torch-") as directory:
        for hidden in options.hidden:
            torch_side.write_data(options, 1, deck_of(options, hidden), f"{directory}/data{hidden}")
            for threads in options.threads:
                print(f"{options.layers} layers of hidden {hidden}, sequence {options.sequence}, {options.microbatches} microbatches, "
                      f"{threads} thread{'s' * (threads > 1)}", flush=True)
                new, about = measure(options, python, hidden, threads, directory)
                rows += new
                measured.append(about)
    first = next(iter(measured[0]["pytorch"].values()), None)
    if first is None:
        raise SystemExit("benchmark_torch.py: no mode of PyTorch was measured")
    print(torch_side.versions_text(first))
    figures.print_figures(rows)
    runs.write_json(options.json, "torch", {"figures": rows, "measured": measured, "versions": torch_side.versions_text(first)})


if __name__ == "__main__":
    main()
