"""A report's charts put on figures: one by one for the page, and all on one sheet."""

import io
import textwrap

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure  # noqa: E402
from PIL import Image  # noqa: E402

from pictures import charts, idle  # noqa: E402

WIDTH = 13  # inches
VERDICT_COLOUR = {"SUCCESSFUL": "#00704f", "UNSUCCESSFUL": "#b23b00", "NOT PERFORMED": "#595959"}


def png(figure, dpi):
    """A figure as the bytes of a PNG of at most 256 colours, which for charts is a third of the size."""
    raw, small = io.BytesIO(), io.BytesIO()
    figure.savefig(raw, format="png", dpi=dpi, facecolor="white")
    raw.seek(0)
    with Image.open(raw) as image:
        image.convert("RGB").quantize(colors=256, dither=Image.Dither.NONE).save(small, format="png", optimize=True)
    return small.getvalue()


def row_height(ranks, most=5.2):
    """Inches of a chart with a row a rank: rows get thinner, the chart no taller than `most`."""
    return 0.75 + min(most, max(1.2, ranks * (0.3 if ranks <= 12 else 0.15)))


def lower_height(ranks):
    """The same of charts that need not show single actions."""
    return row_height(ranks, 3.0) + 0.35


def words(axes, x, y, text, **looks):
    """Text that the layout does not make room for: axes keep their width however long it is."""
    axes.text(x, y, text, **looks).set_in_layout(False)


def place_axes(figure, rows, left=0.8, right=0.25, between=1.1):
    """Axes for rows of (height, room above, room below, axes beside each other), in inches from the top."""
    width, height = figure.get_size_inches()
    top, placed = height, []
    for tall, above, below, count in rows:
        wide = (width - left - right - between * (count - 1)) / count
        bottom = top - above - tall
        placed.append(
            [
                figure.add_axes(((left + i * (wide + between)) / width, bottom / height, wide / width, tall / height))
                for i in range(count)
            ]
        )
        top = bottom - below
    return placed


class Charts:
    """What can be drawn of a run, found once."""

    def __init__(self, run, step=None):
        self.run = run
        self.found = idle.Idle(run) if run.planned and run.finished else None
        self.step = self.choose_step(step) if self.found else None
        if self.found:
            self.extent = 1.02 * max(self.found.steps.end[self.step] - self.found.steps.begin[self.step], self.found.makespan)
            self.unit = charts.unit_of(self.extent)
        self.has_memory = run.finished and run.complete and all(r.memory is not None for r in run.ranks.values())

    def choose_step(self, wanted):
        numbers = [int(number) for number in self.found.steps.number]
        if wanted is None:
            return self.found.median_step()
        if wanted not in numbers:
            raise ValueError(f"--step {wanted}: the files have steps {numbers[0]} to {numbers[-1]}")
        return numbers.index(wanted)

    @property
    def step_number(self):
        return int(self.found.steps.number[self.step])

    def measured_title(self):
        seconds = self.found.steps.seconds[self.step]
        kind = "the timed step nearest the median" if self.step == self.found.median_step() else "as asked for"
        return f"Measured: step {self.step_number} ({kind}), {seconds:.6f} s"

    def planned_title(self):
        return f"Planned: the same program, measured compute times, free messages, {self.found.makespan:.6f} s"

    def draw_gantt(self, measured, planned, legend):
        for axes, is_plan, title in ((measured, False, self.measured_title()), (planned, True, self.planned_title())):
            axes.set_title(title, fontsize=11, loc="left", pad=16 if not is_plan else 6, fontweight="bold")
            charts.gantt(axes, self.run, self.found, self.step, is_plan, self.extent, self.unit)
        charts.gantt_legend(legend, self.run)

    def draw_live(self, figure, axes):
        image = charts.live_slots(axes, self.run, self.found, self.step, self.extent, self.unit)
        bar = figure.colorbar(image, cax=axes.inset_axes((1.01, 0, 0.015, 1)))
        bar.ax.tick_params(labelsize=8)
        bar.ax.yaxis.set_major_locator(charts.MaxNLocator(integer=True))
        axes.set_title(f"Live slots, step {self.step_number}", fontsize=11, loc="left", fontweight="bold")

    def draw_slots(self, axes):
        number = charts.slots(axes, self.run, self.found, self.step, self.extent, self.unit)
        memory = self.run.ranks[number].memory
        size, name = charts.bytes_unit(int(memory["slot_bytes"])) if memory is not None else (1, "B")
        each = f", {int(memory['slot_bytes']) / size:.4g} {name} each" if memory is not None and memory["slot_bytes"] else ""
        axes.set_title(f"Slots of rank {number}{each}", fontsize=11, loc="left", fontweight="bold")

    def titled(self, axes, words, pad=22):
        axes.set_title(words, fontsize=11, loc="left", pad=pad, fontweight="bold")
        return axes

    # --- one by one ---

    def gantt_figure(self):
        height = row_height(self.run.result["ranks"])
        figure = Figure(figsize=(WIDTH, 2 * height + 1.1), layout="constrained")
        measured, planned, legend = figure.subplots(3, 1, height_ratios=(height, height, 0.75))
        figure.draw_without_rendering()
        self.draw_gantt(measured, planned, legend)
        return figure

    def idle_figure(self):
        figure = Figure(figsize=(WIDTH / 2, lower_height(self.run.result["ranks"])), layout="constrained")
        charts.idle_bars(self.titled(figure.subplots(), "Compute and idle"), self.run, self.found)
        return figure

    def memory_figure(self):
        figure = Figure(figsize=(WIDTH / 2, lower_height(self.run.result["ranks"])), layout="constrained")
        charts.memory_bars(self.titled(figure.subplots(), "Device memory"), self.run)
        return figure

    def slots_figure(self):
        figure = Figure(figsize=(WIDTH, lower_height(self.run.result["ranks"])), layout="constrained")
        left, right = figure.subplots(1, 2)
        figure.draw_without_rendering()
        self.draw_live(figure, left)
        self.draw_slots(right)
        return figure

    def steps_figure(self):
        figure = Figure(figsize=(WIDTH, 2.6), layout="constrained")
        charts.steps(self.titled(figure.subplots(), "Steps"), self.run)
        return figure

    # --- all on one sheet ---

    def sheet(self):
        """Rows of axes at places of their own, so that charts above each other have one time axis."""
        if not self.found:
            return self.words_alone()
        ranks = self.run.result["ranks"]
        tall, low = row_height(ranks) - 0.75, row_height(ranks, 3.0) - 0.4
        # Of each row: the axes' height, the room above them and below, how many stand beside each other.
        rows = (
            (1.0, 0.1, 0.1, 1),
            (tall, 0.45, 0.5, 1),
            (tall, 0.3, 0.5, 1),
            (0.6, 0, 0, 1),
            (low, 0.6, 0.5, 2),
            (low, 0.35, 0.5, 2),
            (1.9, 0.6, 0.5, 2),
        )
        figure = Figure(figsize=(WIDTH, sum(sum(row[:3]) for row in rows)))
        (head,), (measured,), (planned,), (legend,), bars, live, below = place_axes(figure, rows)
        self.add_head(head)
        self.draw_gantt(measured, planned, legend)
        charts.idle_bars(self.titled(bars[0], "Compute and idle per rank"), self.run, self.found)
        if self.has_memory:
            charts.memory_bars(self.titled(bars[1], "Device memory per rank"), self.run)
        self.draw_live(figure, live[0])
        self.draw_slots(live[1])
        charts.steps(self.titled(below[0], "Steps"), self.run)
        self.add_words(below[1])
        return figure

    def words_alone(self):
        """The sheet of a run of which there is nothing to draw: what is known, in words."""
        figure = Figure(figsize=(WIDTH, 5), layout="constrained")
        head, words = figure.subplots(2, 1, height_ratios=(1.45, 3))
        self.add_head(head)
        self.add_words(words)
        return figure

    def add_head(self, axes):
        axes.axis("off")
        result = self.run.result
        words(axes, 0, 1, f"Pipeleaf {result['version']}: {self.run.title()}", fontsize=17, fontweight="bold", va="top")
        verdict, what = headline(self.run)
        words(
            axes,
            0,
            0.52,
            verdict,
            fontsize=14,
            fontweight="bold",
            color="white",
            va="center",
            bbox={
                "facecolor": VERDICT_COLOUR.get(result["verification"], "#595959"),
                "edgecolor": "none",
                "boxstyle": "square,pad=0.35",
            },
        )
        words(axes, 0, 0.08, what, fontsize=11, va="center", color=charts.INK)

    def add_words(self, axes):
        axes.axis("off")
        lines = []
        for line in self.run.first_difference() or self.run.first_wrong_messages():
            lines += textwrap.wrap(line, 84, subsequent_indent="    ") or [""]
        if not lines:
            lines = [
                line for name, value in facts(self.run) for line in textwrap.wrap(f"{name}: {value}", 84, subsequent_indent="    ")
            ]
        words(axes, 0, 1, "\n".join(lines[:14]), fontsize=8, family="monospace", va="top", color=charts.INK)


def headline(run):
    """The verdict, and the figure of merit with what a reader asks for next; a line each."""
    result, figures = run.result, run.result["figures"]
    words = "UNFINISHED RUN: " if not run.finished else ""
    verdict = f"{words}VERIFICATION = {result['verification']}"
    if result.get("injected"):
        verdict += " (a fault was INJECTED)"
    if not run.finished:
        return verdict, "The program ended before it wrote its figures; nothing below is a result."
    fom, median, predicted = (figures.get(n) for n in ("fom_tokens_per_second", "median_step_seconds", "predicted_step_seconds"))
    parts = [f"FOM = {fom:.6E} tokens/s" if fom else "FOM = NOT MEASURED"]
    if median:
        parts.append(f"median step {median:.6f} s, planned {predicted:.6f} s")
        parts.append(f"bubble {100 * figures['bubble_of_step']:.1f} % of the step")
        parts.append(f"exposed {100 * figures['exposed_seconds'] / median:.1f} %")
    return verdict, ";  ".join(parts)


def facts(run):
    """(name, value) of what a reader must know to repeat the run."""
    result = run.result
    hosts = list(dict.fromkeys(rank.facts.get("host", "?") for rank in run.ranks.values()))
    devices = list(dict.fromkeys(rank.facts.get("device", "?") for rank in run.ranks.values()))
    named = [
        ("version", f"{result.get('version')} ({result.get('commit')})"),
        ("run id", result["run_id"]),
        ("deck sha256", result.get("deck_sha256")),
        ("hosts", f"{len(hosts)}: " + ", ".join(hosts[:8]) + (", ..." if len(hosts) > 8 else "")),
        ("devices", "; ".join(devices[:4]) + ("; ..." if len(devices) > 4 else "")),
        ("compiler", result.get("compiler")),
        ("libraries", result.get("libraries")),
    ]
    model = result["model"]
    named.insert(3, ("model", ", ".join(f"{name} {model[name]}" for name in model)))
    if any(line.startswith("OVERSUBSCRIBED") for line in run.listing.splitlines()):
        named.append(("OVERSUBSCRIBED", "more threads than CPUs: times say little of the machine"))
    return [(name, value) for name, value in named if value]
