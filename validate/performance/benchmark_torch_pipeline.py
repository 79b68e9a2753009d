"""The interleaved pipeline beside PyTorch's: ScheduleInterleaved1F1B over gloo, two ranks of two chunks on two cores.

usage: benchmark_torch_pipeline.py BUILD SOURCE LAUNCH [--rounds N] [--hidden 512] [--microbatches 8] [--json FILE]

Both sides: a thread and a core a rank, the same layers, weights, inputs, targets and microbatches, fp32, forward and backward;
their gradients must agree to 1e-4. In each round they run in turn: ours as a new job with a warm-up step, PyTorch's in two
processes that stay and are warmed by a step. A step takes as long as its slower rank. PyTorch: see benchmark_torch.py.
"""
import os
import socket
import tempfile

import figures
import runs
import torch_side

RANKS, CHUNKS = 2, 2


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(python, directory):
    """The ranks of PyTorch, each on its core, warm and found to make our gradients; and what the first said."""
    rendezvous = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(RANKS), "GLOO_SOCKET_IFNAME": "lo"}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < RANKS:
        raise SystemExit(f"benchmark_torch_pipeline.py: {RANKS} cores are needed; {len(cores)} may be used")
    processes = []
    for rank in range(RANKS):
        # PMI_RANK: what own_core.py counts cores by.
        env = {**torch_side.their_environment(1), **rendezvous, "RANK": str(rank), "PMI_RANK": str(rank)}
        words = [python, f"{runs.HERE}/torch_pipeline.py", directory, str(CHUNKS)]
        processes.append(torch_side.Process(runs.own_core(words), env))
    for rank, process in enumerate(processes):
        first = process.answer()
        torch_side.check_gradients(first, f"  PyTorch's rank {rank}")
    return processes, first


def their_seconds(processes, steps):
    for process in processes:
        process.order(steps)
    return max(process.answer()["seconds"] for process in processes)


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--hidden", type=runs.numbers, default=[512, 1024], help="multiples of 64: heads are of 64")
    parser.add_argument("--layers", type=int, default=4, help="a multiple of 4, so that all chunks are equal")
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a side in a round")
    options = parser.parse_args()
    if options.layers % (RANKS * CHUNKS) or any(hidden % 64 for hidden in options.hidden) or options.microbatches % RANKS:
        raise SystemExit("benchmark_torch_pipeline.py: --layers must be a multiple of 4, --hidden of 64, --microbatches of 2")
    python = torch_side.python(options)
    rows, measured = [], []
    for hidden in options.hidden:
        deck = {"model.layers": options.layers, "model.hidden": hidden, "model.heads": hidden // 64,
                "model.sequence": options.sequence, "batch.microbatches": options.microbatches, "batch.microbatch_size": 1,
                "pipeline.schedule": "interleaved-1f1b", "pipeline.chunks_per_rank": CHUNKS}
        print(f"p={RANKS} v={CHUNKS}, {options.layers} layers of hidden {hidden}, sequence {options.sequence}, "
              f"{options.microbatches} microbatches", flush=True)
        seconds = {"ours": [], "PyTorch": []}
        with tempfile.TemporaryDirectory(prefix="pipeleaf-torch-") as directory:
            torch_side.write_data(options, RANKS, deck, f"{directory}/data")
            processes, first = start(python, f"{directory}/data")
            for turn in range(options.rounds):
                for side in sorted(seconds, reverse=turn % 2 == 0):  # who comes first changes
                    seconds[side].append(torch_side.our_seconds(options, RANKS, 1, deck, f"{directory}/run") if side == "ours"
                                         else their_seconds(processes, options.steps))
            for process in processes:
                process.process.stdin.close()  # all before one is waited for: they leave together
            for process in processes:
                process.end()
        print("  seconds a step: " + ", ".join(f"{side} {runs.shown(runs.spread(values))}" for side, values in seconds.items()),
              flush=True)
        rows.append(figures.figure("torch.pipeline", f"pipelined step, ours over PyTorch, p={RANKS} v={CHUNKS}, hidden {hidden}",
                                   [a / b for a, b in zip(seconds["ours"], seconds["PyTorch"])]))
        measured.append({"hidden": hidden, "seconds": seconds})
    print(torch_side.versions_text(first))
    figures.print_figures(rows)
    runs.write_json(options.json, "torch_pipeline", {"figures": rows, "measured": measured, "versions": torch_side.versions_text(first)})


if __name__ == "__main__":
    main()
