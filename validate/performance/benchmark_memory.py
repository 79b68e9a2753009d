"""Memory: p=2. Planned against seen, and what a step allocates.

usage: benchmark_memory.py BUILD SOURCE LAUNCH [--rounds N] [--json FILE]     LAUNCH: "mpirun -n"

held      device bytes that the run counted, which must equal those planned
resident  growth of a rank's largest resident memory over that of a small deck, against the growth of the planned bytes;
          target 5 % where a gigabyte or more is planned. Of the rank for which it is further off.
constant  1f1b and interleaved-1f1b plan and hold the same whatever m is, where gpipe's slots grow with it
steps     who allocates between the first step and the last; the program must not
"""
import glob
import os
import re
import shlex
import sys
import tempfile

import figures
import runs

RANKS = 2
GIBIBYTE = 1 << 30
COMMON = {"run.threads": 1, "run.device": "host", "run.steps": 1, "run.warmup_steps": 0, "output.activations": "digest",
          "output.gradients": "digest", "output.timeline": ".false."}
SMALL = {**COMMON, "model.layers": 4, "model.hidden": 64, "batch.microbatches": 2, "pipeline.chunks_per_rank": 1,
         "pipeline.schedule": "1f1b"}
# Mostly weights and their gradients; mostly activations.
WIDE = {**COMMON, "model.layers": 8, "model.hidden": 2048, "model.heads": 16, "model.sequence": 32, "batch.microbatches": 4,
        "batch.microbatch_size": 1}
LONG = {**COMMON, "model.layers": 8, "model.hidden": 256, "model.heads": 4, "model.sequence": 256, "batch.microbatch_size": 8}


def scheduled(deck, schedule, chunks, microbatches):
    return {**deck, "pipeline.schedule": schedule, "pipeline.chunks_per_rank": chunks, "batch.microbatches": microbatches}


def planned(options, deck):
    """Bytes of each rank, as `pipeleaf plan` prints them (to three digits or so)."""
    output, _ = runs.call([f"{options.build}/pipeleaf", "plan", f"{options.source}/input/tiny.nml", f"pipeline.ranks={RANKS}",
                           *runs.deck_words(deck)])
    table = output[output.index("-- memory a rank"):output.index("most:")]
    unit = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
    totals = [re.findall(r"(\d+(?:\.\d+)?) (B|KiB|MiB|GiB|TiB)\b", line) for line in table.splitlines() if re.match(r" *\d+ ", line)]
    return [float(sizes[-1][0]) * unit[sizes[-1][1]] for sizes in totals]


def measure(options, deck, directory):
    """(planned and held bytes of the largest rank, [largest resident bytes of each rank])."""
    for old in glob.glob(f"{directory}/peak.*"):
        os.remove(old)
    # A rank's file has its number: the shell knows it from the launcher.
    ranked = ["sh", "-c", f'exec {shlex.quote(sys.executable)} {shlex.quote(runs.HERE)}/peak_memory.py '
              f'{shlex.quote(directory)}/peak.${{OMPI_COMM_WORLD_RANK:-${{PMI_RANK:-0}}}} "$@"', "sh"]
    result = runs.run(options, RANKS, deck, directory, before=ranked)["figures"]
    peaks = []
    for rank in range(RANKS):
        with open(f"{directory}/peak.{rank}", encoding="utf-8") as file:
            peaks.append(int(file.read()))
    return result["planned_bytes_largest_rank"], result["held_bytes_largest_rank"], peaks


def growth_rows(options, directory):
    cases = [("weights", scheduled(WIDE, "interleaved-1f1b", 2, 4)), ("weights", scheduled(WIDE, "1f1b", 1, 4)),
             ("activations", scheduled(LONG, "gpipe", 1, 16)), ("activations", scheduled(LONG, "looped-bfs", 2, 16))]
    print(f"{'mostly':<12} {'schedule':<16} {'v':>1} {'m':>2} {'planned, MiB':>12} {'held':>6} {'resident grew by, MiB':>26} "
          f"{'of planned growth':>22} {'target':>7}")
    rows = []
    for what, deck in cases:
        plans, small_plans = planned(options, deck), planned(options, SMALL)
        grown, shares, equal = [], [], True
        for _ in range(options.rounds):
            _, _, small = measure(options, SMALL, directory)
            plan, held, peaks = measure(options, deck, directory)
            equal = equal and plan == held
            growth = [(peak - base, (peak - base) / (mine - its)) for peak, base, mine, its in zip(peaks, small, plans, small_plans)]
            furthest = max(growth, key=lambda pair: abs(pair[1] - 1))
            grown.append(furthest[0] / (1 << 20))
            shares.append(furthest[1])
        share, size = runs.spread(shares), runs.spread(grown)
        good = equal and min(plans) >= GIBIBYTE and figures.met(figures.of_spread("memory.growth", what, share, less=1))
        row = {"mostly": what, "schedule": deck["pipeline.schedule"], "chunks_per_rank": deck["pipeline.chunks_per_rank"],
               "microbatches": deck["batch.microbatches"], "planned_bytes_largest_rank": plan, "held_equals_planned": equal,
               "least_planned_of_a_rank": min(plans), "resident_growth_mebibytes": size, "of_planned_growth": share, "target_met": good}
        print(f"{what:<12} {row['schedule']:<16} {row['chunks_per_rank']:>1} {row['microbatches']:>2} {plan / (1 << 20):12.1f} "
              f"{'equal' if equal else 'NOT':>6} {runs.shown(size, '{:.1f}'):>26} {runs.shown(share):>22} {runs.verdict(good):>7}",
              flush=True)
        rows.append(row)
    return rows


def constant_rows(options, directory):
    print(f"\n{'schedule':<16} {'v':>1}  " + "  ".join(f"m={m}: held, resident, MiB" for m in options.microbatches) + f"  {'target':>7}")
    rows = []
    for schedule, chunks, grows in (("gpipe", 1, True), ("1f1b", 1, False), ("interleaved-1f1b", 2, False), ("interleaved-1f1b", 4, False)):
        cells, helds, residents = [], [], []
        for microbatches in options.microbatches:
            deck = {**scheduled(LONG, schedule, chunks, microbatches), "batch.microbatch_size": 2}
            # Digests are kept one a tensor, and so grow with m by a few bytes each: here only the gradients', which do not.
            deck["output.activations"] = "none"
            plan, held, peaks = measure(options, deck, directory)
            helds.append(held if held == plan else float("nan"))
            residents.append(max(peaks))
            cells.append(f"{held / (1 << 20):12.1f} {max(peaks) / (1 << 20):11.1f}")
        same = max(helds) == min(helds)
        steady = figures.met(figures.figure("memory.constant", schedule, [max(residents) / min(residents) - 1]))
        good = None if grows else same and steady
        print(f"{schedule:<16} {chunks:>1}  " + "  ".join(cells) + f"  {'grows' if grows else runs.verdict(good):>7}", flush=True)
        rows.append({"schedule": schedule, "chunks_per_rank": chunks, "microbatches": options.microbatches, "held_bytes": helds,
                     "resident_bytes": residents, "target_met": good})
    return rows


def allocation_rows(options, directory):
    """Allocations a step by owner, thread and object. None where the counter was not built."""
    library = f"{options.build}/validate/run/libcount_allocations.so"
    if not os.path.exists(library):
        print(f"\nsteps: {library} is not there: allocations NOT COUNTED")
        return None
    steps, rows = 20, []
    deck = {"run.threads": 1, "run.device": "host", "run.steps": steps, "run.warmup_steps": 1, "pipeline.chunks_per_rank": 2}
    runs.run(options, RANKS, deck, directory, before=[
        "env", f"LD_PRELOAD={library}", f"PIPELEAF_ALLOCATIONS={directory}/allocations"])
    for rank in range(RANKS):
        with open(f"{directory}/allocations.{rank}", encoding="utf-8") as file:
            lines = [line.split() for line in file]
        stretch = int(lines[0][1])
        good = stretch >= steps and int(lines[1][1]) == 0
        print(f"\nsteps: rank {rank}: {stretch} steps on end in which the program allocated nothing (at least {steps}: "
              f"{runs.verdict(good)})")
        counts = [{"owner": words[0], "thread": words[1], "object": os.path.basename(words[2]), "a_step": int(words[3]) / stretch}
                  for words in lines[2:] if words[0] != "program" and stretch]
        for count in counts:
            print(f"  {count['owner']:<7} {count['thread']:<6} {count['object']:<28} {count['a_step']:10.2f} allocations a step")
        rows.append({"rank": rank, "stretch": stretch, "steps": steps, "target_met": good, "libraries": counts})
    return rows


def main():
    parser = runs.command_line(__doc__)
    parser.add_argument("--microbatches", type=runs.numbers, default=[4, 8, 16])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeleaf-memory-") as directory:
        found = {"growth": growth_rows(options, directory), "constant": constant_rows(options, directory),
                 "allocations": allocation_rows(options, directory)}
    runs.write_json(options.json, "memory", found)


if __name__ == "__main__":
    main()
