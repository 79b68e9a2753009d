"""What is wanted of each figure, in one table; and how figures become lines of a table and of a JSON file.

A figure is a dictionary: name; key, its row of WANTED; median, min, max and rounds of what was measured."""
import runs

# key: (what it is, how the limit is meant, the limit, what is aimed at or None). least, most: of the median; within: how far the
# median may be from 0 on either side; None: it is only reported.
WANTED = {
    "gemm.share": ("share of the FMA peak, large products", "least", 0.88, None),
    "attention.share": ("share of the FMA peak, sequence 4096, head size 64", "least", 0.5, None),
    "rows.share": ("rate of a row kernel over that of a plain loop over as many tensors", "least", 0.9, None),
    "cblas.ratio": ("our rate over the best CBLAS's, the median shape", "least", 0.95, None),
    "steps.share": ("a step's share of the FMA peak, hidden 1024, sequence 1024", "least", 0.78, None),
    "steps.threads": ("a step on 1 thread over one on 2, time", "least", 1.85, None),
    "steps.reference": ("the reference's time over the pipeline's at p=1", None, None, None),
    "torch.step": ("our step over PyTorch's, time", "most", 1.0, 0.85),
    "torch.pipeline": ("our step over one of PyTorch's ScheduleInterleaved1F1B, time", "most", 0.9, 0.75),
    "pipeline.bubble": ("idle share of a step less the closed form's, absolute", "within", 0.02, None),
    "pipeline.speed": ("1f1b's step over interleaved's, over the formula's, less 1", "within", 0.03, None),
    "network.step": ("a step over the simulated one with perfect overlap", "most", 1.03, None),
    "network.gain": ("a step over the same otherwise", None, None, None),
    "network.compute": ("the compute of a step with overlap over that of one without", None, None, None),
    "memory.growth": ("growth of resident memory over that of the planned bytes, less 1", "within", 0.05, None),
    "memory.constant": ("resident memory at the m that has most over that with least, less 1", "within", 0.05, None),
    "memory.allocations": ("steps on end without an allocation of the program, over those run", "least", 1.0, None),
    "output.rate": ("rate of the recorded step's output over a plain write's", "least", 0.8, None),
    "output.bare": ("of the life of a run's file, what its own writing calls took", None, None, None),
    "output.digests": ("a timed step with digests over one without, less 1", "most", 0.02, None),
    "recheck.step": ("a recheck over a timed step of its run, time", None, None, None),
    "startup.first_step": ("seconds from MPI_Init to the first step, tiny", "most", 0.5, None),
    "startup.command": ("seconds of deck, plan and refusals", "most", 0.1, None),
}


def figure(key, name, values):
    """A figure of the rounds' values. A key that is no row of WANTED is a mistake in the benchmark."""
    return of_spread(key, name, runs.spread(values))


def of_spread(key, name, spread, over=1.0, less=0.0):
    """A figure of a spread that is there: its numbers over `over`, less `less`."""
    assert key in WANTED, key
    return {"key": key, "name": name, "rounds": spread["rounds"],
            **{part: spread[part] / over - less for part in ("median", "min", "max")}}


def met(one):
    """Whether the figure's median is as wanted; None where nothing is."""
    _, sense, limit, _ = WANTED[one["key"]]
    if sense is None:
        return None
    median = one["median"]
    return {"least": median >= limit, "most": median <= limit, "within": abs(median) <= limit}[sense]


def wanted_text(key):
    """">= 0.88", "<= 1 (0.85)", "+-0.02": what is in brackets is aimed at."""
    _, sense, limit, aim = WANTED[key]
    if sense is None:
        return ""
    return {"least": ">= ", "most": "<= ", "within": "+-"}[sense] + f"{limit:g}" + (f" ({aim:g})" if aim else "")


def judged(one):
    """The figure with what is wanted of it and whether it was met."""
    what, sense, limit, aim = WANTED[one["key"]]
    return {**one, "what": what, "wanted": limit, "sense": sense, "aim": aim, "met": met(one)}


HEADING = f"{'figure':<70} {'median':>8} {'min':>8} {'max':>8} {'wanted':>14}  met"


def line(one):
    answer = {True: "yes", False: "NO", None: ""}[met(one)]
    return (f"{one['name'][:70]:<70} {one['median']:8.3f} {one['min']:8.3f} {one['max']:8.3f} {wanted_text(one['key']):>14}  "
            f"{answer}").rstrip()


def print_figures(figures):
    print(HEADING)
    for one in figures:
        print(line(one), flush=True)
