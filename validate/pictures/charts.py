"""The charts of a report, each drawn into axes that it is given. Colours are those of Okabe and Ito (2008), which the
colour-blind can tell apart, as in the pictures of `pipeleaf plan`; what they mean is said in words beside them."""

import numpy
from matplotlib import patches
from matplotlib.ticker import MaxNLocator

from pictures import idle

KINDS = (
    ("F", "forward", (0, 114, 178)),
    ("B", "backward", (213, 94, 0)),
    ("I", "input gradient", (190, 80, 150)),
    ("W", "weight gradient", (0, 140, 100)),
)
IDLE_COLOUR = {"bubble": "#dcdcdc", "late input": "#f0e442", "other": "#8a8a8a", "message wait": "#1a1a1a"}
IDLE_WORDS = {
    "bubble": "bubble: the schedule implies it",
    "late input": "late input: another rank was late",
    "other": "other: host between actions",
    "message wait": "message wait: exposed communication",
}
MEMORY = (
    ("weights", "#0072b2"),
    ("operands", "#56b4e9"),
    ("gradients", "#d55e00"),
    ("slots", "#009e73"),
    ("work", "#e69f00"),
    ("buffers", "#cc79a7"),
    ("digests", "#8c8c8c"),
)
INK, PALE = "#222222", "#666666"
LABELLED_RANKS = 40


def colour(kind, local, locals_):
    """Of an action: its kind's hue, lighter for each further chunk of the rank, as plan draws them."""
    towards_white = 0.6 * local / (locals_ - 1) if locals_ > 1 else 0
    return tuple((c + (255 - c) * towards_white) / 255 for c in KINDS[kind][2])


def local_chunks(run):
    """{chunk: its number among the chunks of its rank}, and the most that a rank has."""
    local, most = {}, 1
    for rank in run.ranks.values():
        chunks = sorted({int(chunk) for chunk in rank.actions[0]["chunk"]})
        local.update({chunk: i for i, chunk in enumerate(chunks)})
        most = max(most, len(chunks))
    return local, most


def unit_of(seconds):
    """(factor, name) in which a stretch of so many seconds has one to four digits before the point."""
    return (1e6, "µs") if seconds < 2e-3 else (1e3, "ms") if seconds < 10 else (1, "s")


def bytes_unit(most):
    for size, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if most >= size:
            return size, name
    return 1, "B"


def rows_of_ranks(axes, ranks, label=True):
    """One row a rank, 0 at the top."""
    axes.set_ylim(ranks - 0.5, -0.5)
    every = 1 if ranks <= LABELLED_RANKS else -(-ranks // LABELLED_RANKS)
    axes.set_yticks(range(0, ranks, every))
    axes.tick_params(axis="y", labelsize=9 if ranks <= 16 else 7 if ranks <= LABELLED_RANKS else 6, length=0)
    if label:
        axes.set_ylabel("rank", fontsize=10)


def plain_frame(axes):
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(labelsize=9, colors=INK)


def add_boxes(axes, row, start, end, colours):
    if len(start):
        axes.broken_barh(list(zip(start, end - start)), (row - 0.42, 0.84), facecolors=colours, linewidth=0)


def merged(start, end, colours, least):
    """Boxes of one colour that meet, or nearly, as one: seams between them would show as a pattern that is not there."""
    boxes = []
    for s, e, c in zip(start, end, colours):
        if boxes and boxes[-1][2] == c and s - boxes[-1][1] < least:
            boxes[-1][1] = e
        else:
            boxes.append([s, e, c])
    return numpy.array([b[0] for b in boxes]), numpy.array([b[1] for b in boxes]), [b[2] for b in boxes]


def add_labels(axes, row, start, end, actions, ranks, scale):
    """The microbatch in each box that has room for it."""
    height = axes.get_window_extent().height / ranks * 0.84
    size = min(9, height / axes.figure.dpi * 72 * 0.6)
    if size < 4.5:
        return
    letter = size * 0.62 * axes.figure.dpi / 72
    for s, e, a in zip(start, end, actions):
        text = str(a["microbatch"])
        if (e - s) * scale >= letter * len(text) * 1.25:
            bright = sum(w * c for w, c in zip((0.3, 0.6, 0.1), a["colour"])) > 0.55
            axes.text(
                (s + e) / 2,
                row,
                text,
                ha="center",
                va="center_baseline",
                fontsize=size,
                color="black" if bright else "white",
                clip_on=True,
            )


def coloured(actions, local, locals_):
    return [
        {"microbatch": int(a["microbatch"]), "colour": colour(int(a["kind"]), local[int(a["chunk"])], locals_)} for a in actions
    ]


def gantt(axes, run, found, step, planned, extent, unit):
    """Rank by time: of a step as measured (step: its index in found.steps), or as planned. extent: seconds on the axis."""
    factor, name = unit
    local, locals_ = local_chunks(run)
    ranks = run.result["ranks"]
    axes.set_xlim(0, extent * factor)
    scale = axes.get_window_extent().width / (extent * factor)
    rows_of_ranks(axes, ranks)
    begin = 0 if planned else found.steps.begin[step]
    finish = found.makespan if planned else found.steps.end[step] - begin
    for number, rank in run.ranks.items():
        actions = rank.planned if planned else rank.actions[step]
        start, end = (actions["start"] - begin) * factor, (actions["end"] - begin) * factor
        if planned:
            add_boxes(axes, number, numpy.array([0.0]), numpy.array([finish * factor]), IDLE_COLOUR["bubble"])
        else:
            edges = (found.cuts[number][step] - begin) * factor
            for i, cause in enumerate(idle.CAUSES):
                wide = edges[:, i + 1] - edges[:, i] > extent * factor * 1e-5
                add_boxes(axes, number, edges[wide, i], edges[wide, i + 1], IDLE_COLOUR[cause])
        looks = coloured(actions, local, locals_)
        add_boxes(axes, number, *merged(start, end, [look["colour"] for look in looks], 0.3 / scale))
        edge = (end - start) * scale > 6  # a hairline between neighbours, where it does not hide them
        for at in start[edge] if ranks <= 16 else ():
            axes.plot([at, at], [number - 0.42, number + 0.42], color="white", linewidth=0.5, solid_capstyle="butt")
        add_labels(axes, number, start, end, looks, ranks, scale)
    if not planned:
        axes.axvline(found.makespan * factor, color=INK, linestyle=(0, (4, 3)), linewidth=1.1)
        right = found.makespan < 0.7 * extent
        axes.text(
            found.makespan * factor,
            -0.62,
            "planned end ↓" if not right else "↓ planned end",
            fontsize=8,
            color=INK,
            va="bottom",
            ha="left" if right else "right",
        )
    axes.set_xlabel(f"{name} from the step's begin", fontsize=9)
    plain_frame(axes)


def gantt_legend(axes, run):
    """The boxes of a Gantt chart in words, in axes of their own."""
    axes.axis("off")
    _, locals_ = local_chunks(run)
    kinds = sorted({int(kind) for rank in run.ranks.values() for kind in set(rank.actions[0]["kind"])})
    handles = []
    for kind in kinds:
        handles.append(patches.Patch(color=colour(kind, 0, locals_), label=f"{KINDS[kind][1]} ({KINDS[kind][0]})"))
    for cause in idle.CAUSES:
        handles.append(patches.Patch(facecolor=IDLE_COLOUR[cause], edgecolor="#888888", linewidth=0.5, label=IDLE_WORDS[cause]))
    shades = "; lighter: the rank's further chunks" if locals_ > 1 else ""
    axes.legend(
        handles=handles,
        loc="center",
        ncol=4,
        fontsize=9,
        frameon=False,
        title_fontsize=9,
        title=f"Numbers in boxes: the microbatch{shades}",
    )


def idle_bars(axes, run, found):
    """Per rank, shares of the mean timed step: compute and the causes of idle time; a mark where the plan's idle ends."""
    ranks = sorted(run.ranks)
    left = numpy.array([found.busy[r] for r in ranks]) / found.step * 100
    axes.barh(ranks, left, height=0.8, color="#0072b2", label="compute")
    for i, cause in enumerate(idle.CAUSES):
        part = numpy.array([found.idle[r][i] for r in ranks]) / found.step * 100
        axes.barh(ranks, part, left=left, height=0.8, facecolor=IDLE_COLOUR[cause], edgecolor="#888888", linewidth=0.3, label=cause)
        left = left + part
    rows_of_ranks(axes, run.result["ranks"])
    axes.set_xlim(0, 100)
    axes.set_xlabel("% of a step, mean of the timed steps", fontsize=9)
    axes.legend(
        fontsize=8, ncol=5, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, columnspacing=0.9, handlelength=1.2
    )
    plain_frame(axes)


def memory_bars(axes, run):
    """Per rank, the parts of its planned device memory, and what it held."""
    ranks = [number for number in sorted(run.ranks) if run.ranks[number].memory is not None]
    size, name = bytes_unit(max(max(int(run.ranks[r].memory["planned"]), int(run.ranks[r].memory["held"])) for r in ranks))
    left = numpy.zeros(len(ranks))
    for part, shade in MEMORY:
        value = numpy.array([int(run.ranks[r].memory[part]) for r in ranks]) / size
        if value.any():
            axes.barh(ranks, value, left=left, height=0.8, color=shade, label=part)
        left = left + value
    held = [int(run.ranks[r].memory["held"]) / size for r in ranks]
    if any(held):
        axes.plot(held, ranks, linestyle="", marker="|", markersize=max(3, min(14, 220 / len(ranks))), color=INK, label="held")
    rows_of_ranks(axes, run.result["ranks"])
    axes.set_xlabel(f"{name} of device memory, planned", fontsize=9)
    axes.legend(
        fontsize=8, ncol=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, columnspacing=0.9, handlelength=1.2
    )
    plain_frame(axes)


def lives(run, rank, step):
    """(slot, chunk, microbatch, from, to) of each use of a slot in a step: from its F to its B or W; seconds, rank 0's clock."""
    begun, found = {}, []
    for planned, action in zip(rank.planned, rank.actions[step]):
        key = int(planned["chunk"]), int(planned["microbatch"])
        if planned["kind"] == 0:
            begun[key] = action["start"]
        elif planned["kind"] in (1, 3):
            found.append((int(planned["slot"]), *key, float(begun[key]), float(action["end"])))
    return found


def live_slots(axes, run, found, step, extent, unit):
    """Rank by time: how many slots are live. Gives the map of colours, for its bar."""
    factor, name = unit
    ranks, columns = run.result["ranks"], 900
    begin = found.steps.begin[step]
    times = begin + (numpy.arange(columns) + 0.5) * extent / columns
    live = numpy.zeros((ranks, columns))
    for number, rank in run.ranks.items():
        for _, _, _, start, end in lives(run, rank, step):
            live[number, numpy.searchsorted(times, start) : numpy.searchsorted(times, end)] += 1
    image = axes.imshow(
        live, aspect="auto", interpolation="nearest", cmap="cividis", extent=(0, extent * factor, ranks - 0.5, -0.5), vmin=0
    )
    rows_of_ranks(axes, ranks)
    axes.set_xlabel(f"{name} from the step's begin", fontsize=9)
    plain_frame(axes)
    return image


def slots(axes, run, found, step, extent, unit):
    """Slot by time on the rank that has most of them: which microbatch is in which slot. Gives that rank's number."""
    factor, name = unit
    local, locals_ = local_chunks(run)
    number = max(run.ranks, key=lambda r: (int(run.ranks[r].planned["slot"].max()), -r))
    rank, begin = run.ranks[number], found.steps.begin[step]
    count = int(rank.planned["slot"].max()) + 1
    axes.set_xlim(0, extent * factor)
    scale = axes.get_window_extent().width / (extent * factor)
    for slot, chunk, microbatch, start, end in lives(run, rank, step):
        look = {"microbatch": microbatch, "colour": colour(3, local[chunk], locals_)}
        start, end = (start - begin) * factor, (end - begin) * factor
        axes.broken_barh(
            [(start, end - start)],
            (slot - 0.42, 0.84),
            facecolors=[look["colour"]],
            edgecolor="white",
            linewidth=0.4 if count <= 24 else 0,
        )
        add_labels(axes, slot, [start], [end], [look], count, scale)
    axes.set_ylim(count - 0.5, -0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    axes.set_ylabel("slot", fontsize=10)
    axes.set_xlabel(f"{name} from the step's begin", fontsize=9)
    plain_frame(axes)
    return number


def steps(axes, run):
    """Each step's tokens a second, or of a rehearsal its seconds; warm-up and recorded steps are hollow."""
    records = [run.ranks[r].steps for r in sorted(run.ranks)]
    seconds = numpy.max([r["seconds"] for r in records], axis=0)
    number, timed = records[0]["step"], records[0]["timed"] != 0
    model, fom = run.result["model"], run.result["figures"].get("fom_tokens_per_second")
    tokens = model["microbatches"] * model["microbatch_size"] * model["sequence"]
    median = run.result["figures"].get("median_step_seconds")
    values, line = (tokens / seconds, fom) if fom else (seconds, median)
    axes.plot(number, values, color="#bbbbbb", linewidth=1, zorder=1)
    axes.scatter(number[timed], values[timed], color="#0072b2", s=30 if len(number) < 40 else 10, label="timed", zorder=3)
    axes.scatter(
        number[~timed],
        values[~timed],
        facecolors="white",
        edgecolors="#d55e00",
        s=30 if len(number) < 40 else 10,
        label="warm-up, recorded",
        zorder=2,
    )
    if line:
        words = f"FOM {fom:.4g}" if fom else f"median {median:.4g} s"
        axes.axhline(line, color=INK, linestyle=(0, (4, 3)), linewidth=1, label=words)
    axes.set_ylim(0, max(values) * 1.15)
    axes.set_xlabel("step", fontsize=9)
    axes.set_ylabel("tokens/s" if fom else "seconds", fontsize=10)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=3, frameon=False)
    plain_frame(axes)
