"""What a recheck takes: the slowest rank's time over that of a timed step of the run it checks. p=2, v=2, one thread and one core a rank.

usage: benchmark_recheck.py BUILD SOURCE LAUNCH [--rounds N] [--json FILE]     LAUNCH: "mpirun -n"

A recheck computes what a step computes, without waiting for messages, and reads what the run recorded; what it takes to start, to
open the files and to judge is not counted, being the same for any size. Once with the least that it needs (boundaries, and digests
of gradients), once with all tensors of the step in the files.
"""
import shlex
import tempfile

import figures
import runs

DECK = {"run.threads": 1, "run.device": "host", "model.layers": 8, "model.heads": 8, "model.sequence": 256, "batch.microbatches": 4,
        "batch.microbatch_size": 1, "pipeline.chunks_per_rank": 2, "run.steps": 3, "run.warmup_steps": 1, "output.timeline": ".false."}
KEPT = {"boundaries, digests": {"output.activations": "boundary", "output.gradients": "digest"}, "everything": {}}


def ratio(options, deck, directory):
    """The recheck's seconds over the median timed step's."""
    step = runs.run(options, 2, deck, directory)["figures"]["median_step_seconds"]
    runs.call([*shlex.split(options.launch), "2", *runs.own_core([]), f"{options.build}/pipeleaf", "recheck", directory])
    found = runs.load(f"{directory}/recheck.json")
    if found["verification"] != "SUCCESSFUL":
        raise SystemExit(f"the recheck of {directory} is {found['verification']}")
    return max(rank["seconds"] for rank in found["rechecked_by"]) / step


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--hidden", type=runs.numbers, default=[512, 1024])
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="pipeleaf-recheck-") as directory:
        for hidden in options.hidden:
            for kept, words in KEPT.items():
                deck = {**DECK, "model.hidden": hidden, **words}
                rows.append(figures.figure("recheck.step", f"a recheck over a timed step, hidden {hidden}, kept: {kept}",
                                           [ratio(options, deck, f"{directory}/out") for _ in range(options.rounds)]))
    figures.print_figures(rows)
    runs.write_json(options.json, "recheck", {"figures": rows})


if __name__ == "__main__":
    main()
