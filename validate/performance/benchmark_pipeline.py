"""The pipeline against theory: p=2 on two cores, one thread each, equal chunks.

usage: benchmark_pipeline.py BUILD SOURCE LAUNCH [--rounds N] [--microbatches 2,4,8,16] [--json FILE]     LAUNCH: "mpirun -n"

bubble   idle share of a step: closed form, and measured; target 0.02 absolute.
speed    a step of 1F1B over one of interleaved-1f1b, by the formula (m+p-1)/(m+(p-1)/v) and measured; target 3 %.
         And the same of the two runs' computes, which the formula takes for equal: more messages take more of the cores, and
         the host of a virtual machine may give one run less than the other. What remains is the schedule's.
Where they differ, the step's timeline says by what, in shares of the measured step that add up to how much longer it is
than the closed form makes it of the mean rank's compute:
  unequal   chunks' mean times differ: the last one has the loss, and cores are not alike
  varying   a chunk's time varies from one microbatch to the next
  messages  from the end of an action to the arrival of its output at the other rank, where that rank waited
  host      between actions: waking up, posting transfers, the step's begin and end
`plan` is what `pipeleaf plan --from` predicts from the run's mean times and its median message. All from the timed steps.
"""
import statistics
import tempfile

import figures
import runs
import timeline

CASES = [("gpipe", 1), ("1f1b", 1), ("interleaved-1f1b", 2), ("interleaved-1f1b", 4)]
RANKS = 2


def closed_form(microbatches, chunks):
    """Idle over the whole step; chunks: of a rank."""
    return (RANKS - 1) / (microbatches * chunks + RANKS - 1)


def explain(directory, result, steps, chunks):
    """One run's timed steps: idle share and its parts, each the median over the steps."""
    warmup = result["recorded_step"] - 1 - steps
    every = timeline.read(f"{directory}/timeline.json")
    timed = [every[warmup + 1 + i] for i in range(steps)]
    means = timeline.mean_seconds(timed)
    microbatches = result["model"]["microbatches"]
    parts = []
    for step, measured in zip(timed, result["step_seconds"]):
        order, own, delays = step.order(), step.seconds(), step.delays()
        busy = sum(own.values()) / RANKS
        ladder = [
            busy / (1 - closed_form(microbatches, chunks)),
            timeline.simulate(order, means) * sum(own.values()) / sum(means.values()),
            timeline.simulate(order, own),
            timeline.simulate(order, own, lambda taker, delays=delays: delays.get(taker, 0.0)),
            measured]
        part = {name: (after - before) / measured for name, before, after in zip(
            ("unequal", "varying", "messages", "host"), ladder, ladder[1:])}
        part.update(measured=1 - busy / measured, longer=(measured - ladder[0]) / measured,
                    hop=statistics.median(delays.values()),
                    imbalance=max(sum(a.end - a.start for a in actions) for actions in step.actions.values()) / busy - 1)
        parts.append(part)
    return {name: statistics.median(part[name] for part in parts) for name in parts[0]}


def measure(options):
    """{(schedule, v, m): [figures of a round]}, the schedules in turn within a round."""
    rounds = {}
    with tempfile.TemporaryDirectory(prefix="pipeleaf-pipeline-") as directory:
        for _ in range(options.rounds):
            for microbatches in options.microbatches:
                for schedule, chunks in CASES:
                    deck = {"model.layers": options.layers, "model.hidden": options.hidden, "model.heads": options.hidden // 64,
                            "model.sequence": options.sequence, "batch.microbatches": microbatches, "batch.microbatch_size": 1,
                            "pipeline.schedule": schedule, "pipeline.chunks_per_rank": chunks, "run.threads": 1,
                            "run.device": "host", "run.steps": options.steps, "run.warmup_steps": 1,
                            "output.activations": "none", "output.gradients": "none"}
                    result = runs.run(options, RANKS, deck, directory)
                    figures = explain(directory, result, options.steps, chunks)
                    figures["step"] = result["figures"]["median_step_seconds"]
                    figures["plan"] = runs.predicted(options, deck, directory)[0] / figures["step"] - 1
                    rounds.setdefault((schedule, chunks, microbatches), []).append(figures)
    return rounds


def print_bubbles(rounds):
    """The table of idle shares; its rows."""
    print(f"{'':>21} {'idle share of the step':^34}   of the step, %: longer than the closed form, and by what")
    print(f"{'schedule':<16} {'v':>1} {'m':>2} {'closed':>7} {'measured':>22} {'target':>7} {'longer':>7} {'unequal':>7} "
          f"{'varying':>7} {'messages':>8} {'host':>6} {'plan':>6} {'hop, us':>8} {'cores':>6}")
    rows = []
    for (schedule, chunks, microbatches), measured in rounds.items():
        closed = closed_form(microbatches, chunks)
        row = {name: runs.spread([one[name] for one in measured]) for name in measured[0]}
        good = figures.met(figures.of_spread("pipeline.bubble", schedule, row["measured"], less=closed))
        share = {name: 100 * row[name]["median"] for name in row if name not in ("measured", "hop", "step")}
        print(f"{schedule:<16} {chunks:>1} {microbatches:>2} {closed:7.4f} {runs.shown(row['measured'], '{:.4f}'):>22} "
              f"{runs.verdict(good):>7} {share['longer']:7.2f} {share['unequal']:7.2f} {share['varying']:7.2f} "
              f"{share['messages']:8.2f} {share['host']:6.2f} {share['plan']:+6.2f} {1e6 * row['hop']['median']:8.0f} "
              f"{share['imbalance']:6.2f}")
        rows.append({"schedule": schedule, "chunks_per_rank": chunks, "microbatches": microbatches, "closed_form": closed,
                     "target_met": good, **row})
    print("plan: predicted less measured step, %; hop: median from an action's end to the message's arrival; cores: the busier rank's\n"
          "compute over the mean, less 1, %")
    return rows


def busy(one):
    """A rank's compute of a step, seconds: the mean of the ranks."""
    return one["step"] * (1 - one["measured"])


def print_speeds(rounds, microbatches):
    print(f"\n{'1f1b over interleaved-1f1b':<28} {'v':>1} {'m':>2} {'formula':>8} {'measured':>22} {'off, %':>7} {'target':>7} "
          f"{'computes':>22} {'rest, %':>7}")
    rows = []
    for m in microbatches:
        for chunks in (2, 4):
            formula = (m + RANKS - 1) / (m + (RANKS - 1) / chunks)
            pairs = list(zip(rounds["1f1b", 1, m], rounds["interleaved-1f1b", chunks, m]))
            ratio = runs.spread([one["step"] / two["step"] for one, two in pairs])
            computes = runs.spread([busy(one) / busy(two) for one, two in pairs])
            rest = runs.spread([one["step"] / two["step"] / (busy(one) / busy(two)) / formula - 1 for one, two in pairs])
            off = figures.of_spread("pipeline.speed", "step over step", ratio, over=formula, less=1)
            good = figures.met(off)
            print(f"{'step over step':<28} {chunks:>1} {m:>2} {formula:8.4f} {runs.shown(ratio, '{:.4f}'):>22} "
                  f"{100 * off['median']:+7.2f} {runs.verdict(good):>7} {runs.shown(computes, '{:.4f}'):>22} "
                  f"{100 * rest['median']:+7.2f}")
            rows.append({"chunks_per_rank": chunks, "microbatches": m, "formula": formula, "measured": ratio,
                         "target_met": good, "computes": computes, "rest": rest})
    return rows


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--microbatches", type=runs.numbers, default=[2, 4, 8, 16])
    parser.add_argument("--layers", type=int, default=8, help="a multiple of 8, so that all chunks are equal")
    parser.add_argument("--hidden", type=int, default=512, help="a multiple of 64")
    parser.add_argument("--sequence", type=int, default=256)
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a run")
    options = parser.parse_args()
    if options.layers % 8 or options.hidden % 64:
        raise SystemExit("benchmark_pipeline.py: --layers must be a multiple of 8 and --hidden of 64")
    print(f"p={RANKS}, a core and a thread each, {options.layers} layers of hidden {options.hidden}, sequence {options.sequence}; "
          f"median (min-max) of {options.rounds} rounds", flush=True)
    rounds = measure(options)
    bubbles = print_bubbles(rounds)
    speeds = print_speeds(rounds, options.microbatches)
    runs.write_json(options.json, "pipeline", {"bubbles": bubbles, "speeds": speeds})


if __name__ == "__main__":
    main()
