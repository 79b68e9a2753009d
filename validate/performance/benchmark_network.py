"""Communication hidden behind compute over a slow network: p=2, v=2, two namespaces joined at 1 Gbit/s and 200 Mbit/s.

usage: benchmark_network.py BUILD SOURCE LAUNCH [--rounds N] [--rates 1000,200] [--as-shipped] [--json FILE]

LAUNCH is not used: network.sh starts the ranks, a core each, and says (exit 77) where it cannot. For each rate the width of the
MLP is chosen such that the messages of a chunk (its output's, its input's gradient) take 0.2, 0.5 and 0.8 of its compute time,
from two trial runs in which nothing overlaps; what came of it is printed as `share`. Open MPI is told to send whole messages
unasked, as doc/troubleshooting.md advises for TCP, or with --as-shipped is told nothing.

simulated  the step that `pipeleaf plan --from` works out from the run's mean compute times and the message time of the trials,
           with perfect overlap; a step takes at most 1.03 of it
one wire   the same, where messages of one direction, activations or gradients, take turns on the wire, as they do here
off/on     the step without overlap over that with it; p/2p: the step with groups of p microbatches over that with 2p
compute    that of a step with overlap over that of one without: what moving messages costs the cores that compute
"""
import statistics
import subprocess
import sys
import tempfile

import figures
import runs
import timeline

RANKS, CHUNKS, MICROBATCHES = 2, 2, 8
SHARES = (0.2, 0.5, 0.8)
VARIANTS = [(group, overlap) for group in (RANKS, 2 * RANKS) for overlap in (True, False)]
# A slower wire needs wider layers, whose compute grows faster with their width than their messages do.
SHAPES = {1000: {"model.hidden": 64, "model.heads": 4, "model.sequence": 128, "batch.microbatch_size": 32},
          200: {"model.hidden": 512, "model.heads": 8, "model.sequence": 128, "batch.microbatch_size": 1}}
# Open MPI's TCP sends up to so many bytes at once; of a longer message it first asks for leave, and both ranks must look at their
# sockets twice more before it is on its way. Receives are posted ahead, so none of it is asked for in vain.
EAGER = [f"OMPI_MCA_btl_tcp_{limit}={2 << 20}" for limit in ("eager_limit", "rndv_eager_limit")]


def message_bytes(deck):
    return 4 * deck["model.hidden"] * deck["model.sequence"] * deck["batch.microbatch_size"]


def launch(options, rate):
    return ["env", *([] if options.as_shipped else EAGER), f"{runs.HERE}/network.sh", str(rate)]


def shape_of(rate):
    """The shapes of the rate itself, or those of the nearest one."""
    deck = dict(SHAPES[min(SHAPES, key=lambda known: abs(known - rate))])
    deck.update({"run.threads": 1, "run.device": "host", "output.activations": "none", "output.gradients": "none"})
    return deck


def trial(options, rate, ffn, directory):
    """One layer a rank, one microbatch, so that each message is waited for: (seconds of F and B, seconds of a message)."""
    deck = {**shape_of(rate), "model.ffn": ffn, "model.layers": RANKS, "pipeline.schedule": "gpipe", "pipeline.chunks_per_rank": 1,
            "batch.microbatches": 1, "run.steps": 9, "run.warmup_steps": 2}
    runs.run(options, RANKS, deck, directory, launch(options, rate))
    steps = timeline.read(f"{directory}/timeline.json")
    timed = [steps[number] for number in range(3, 12)]
    compute = statistics.median(sum(step.seconds().values()) / RANKS for step in timed)
    return compute, statistics.median(delay for step in timed for delay in step.delays().values())


def widths(options, rate, directory):
    """({share: ffn}, seconds of a message): compute is linear in ffn."""
    low, high = 256, 2048
    (first, one), (second, two) = trial(options, rate, low, directory), trial(options, rate, high, directory)
    message = min(one, two)
    slope = (second - first) / (high - low)
    if slope <= 0:
        raise SystemExit(f"benchmark_network.py: {rate} Mbit/s: a wider MLP took no longer in the trials; is the machine idle?")
    wanted = {share: low + (2 * message / share - first) / slope for share in SHARES}
    return {share: max(1, round(ffn)) for share, ffn in wanted.items()}, message


def measure(options, rate, directory):
    """(seconds of a message, {(share, group, overlap): [figures of a round]})."""
    ffn, message = widths(options, rate, directory)
    print(f"{rate} Mbit/s: a message of {message_bytes(shape_of(rate)) // 1024} KiB takes {1e3 * message:.2f} ms; ffn "
          + ", ".join(f"{width} for {share}" for share, width in ffn.items()), flush=True)
    rounds = {}
    for _ in range(options.rounds):
        for share in SHARES:
            for group, overlap in VARIANTS:
                deck = {**shape_of(rate), "model.ffn": ffn[share], "model.layers": RANKS * CHUNKS, "pipeline.chunks_per_rank": CHUNKS,
                        "pipeline.schedule": "interleaved-1f1b", "pipeline.group": group,
                        "pipeline.overlap": ".true." if overlap else ".false.", "batch.microbatches": MICROBATCHES,
                        "run.steps": options.steps, "run.warmup_steps": 1}
                result = runs.run(options, RANKS, deck, directory, launch(options, rate))
                bandwidth = message_bytes(deck) / message
                simulated, free = runs.predicted(options, {**deck, "machine.bandwidth": bandwidth, "machine.latency": 0}, directory)
                steps = timeline.read(f"{directory}/timeline.json")
                timed = [steps[number] for number in range(2, 2 + options.steps)]
                means = timeline.mean_seconds(timed)
                compute = sum(means.values()) / (MICROBATCHES * RANKS * CHUNKS)
                wire = timeline.simulate(timed[0].order(), means, transfer=message)
                step = result["figures"]["median_step_seconds"]
                rounds.setdefault((share, group, overlap), []).append({
                    "step": step, "compute": compute, "share": 2 * message / compute, "over_simulated": step / simulated, "over_one_wire": step / wire,
                    "exposed": 1 - free / step, "busy": 1 - result["figures"]["bubble_of_step"]})
    return message, rounds


def print_rate(rate, rounds):
    print(f"{'Mbit/s':>6} {'aimed':>5} {'share':>6} {'group':>5} {'overlap':>7} {'step, s':>8} {'step over simulated':>22} {'target':>7} "
          f"{'over one wire':>22} {'exposed, %':>10} {'busy, %':>7}")
    rows = []
    for (aimed, group, overlap), measured in rounds.items():
        row = {name: runs.spread([one[name] for one in measured]) for name in measured[0]}
        good = figures.met(figures.of_spread("network.step", "step over simulated", row["over_simulated"])) if overlap else None
        print(f"{rate:>6} {aimed:>5} {row['share']['median']:6.3f} {group:>5} {'on' if overlap else 'off':>7} {row['step']['median']:8.4f} "
              f"{runs.shown(row['over_simulated']):>22} {'-' if good is None else runs.verdict(good):>7} "
              f"{runs.shown(row['over_one_wire']):>22} {100 * row['exposed']['median']:10.2f} {100 * row['busy']['median']:7.2f}")
        rows.append({"mbit": rate, "aimed_share": aimed, "group": group, "overlap": overlap, "target_met": good, **row})
    return rows


def print_gains(rate, rounds):
    """Steps of a round over one another, and their computes."""
    def gain(one, two, what="step"):
        return runs.spread([a[what] / b[what] for a, b in zip(rounds[one], rounds[two])])
    rows = []
    for share in SHARES:
        row = {"off_over_on_group_p": gain((share, RANKS, False), (share, RANKS, True)),
               "off_over_on_group_2p": gain((share, 2 * RANKS, False), (share, 2 * RANKS, True)),
               "group_p_over_2p": gain((share, RANKS, True), (share, 2 * RANKS, True)),
               "compute_group_p": gain((share, RANKS, True), (share, RANKS, False), "compute"),
               "compute_group_2p": gain((share, 2 * RANKS, True), (share, 2 * RANKS, False), "compute")}
        print(f"{rate:>6} {share:>5}  off/on, group p: {runs.shown(row['off_over_on_group_p'])}; off/on, group 2p: "
              f"{runs.shown(row['off_over_on_group_2p'])}; p/2p: {runs.shown(row['group_p_over_2p'])}")
        print(f"{'':>13} compute on/off, group p: {runs.shown(row['compute_group_p'])}; group 2p: {runs.shown(row['compute_group_2p'])}")
        rows.append({"mbit": rate, "aimed_share": share, **row})
    return rows


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--rates", type=runs.numbers, default=[1000, 200], help="Mbit/s")
    parser.add_argument("--as-shipped", action="store_true", help="Open MPI asks leave for messages of more than 64 KiB")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a run")
    options = parser.parse_args()
    possible = subprocess.run([f"{runs.HERE}/network.sh", "--check"], stdout=subprocess.PIPE, text=True, check=False)
    if possible.returncode:
        print(possible.stdout, end="")
        sys.exit(possible.returncode)
    found = {"messages": {}, "steps": [], "gains": []}
    print(f"p={RANKS} v={CHUNKS} m={MICROBATCHES}, a core and a thread each; median (min-max) of {options.rounds} rounds", flush=True)
    with tempfile.TemporaryDirectory(prefix="pipeleaf-network-") as directory:
        for rate in options.rates:
            found["messages"][str(rate)], rounds = measure(options, rate, directory)
            found["steps"] += print_rate(rate, rounds)
            found["gains"] += print_gains(rate, rounds)
    runs.write_json(options.json, "network", found)


if __name__ == "__main__":
    main()
