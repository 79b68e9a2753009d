"""The report as one HTML page, which needs no other file and no script."""

import base64
import html

from pictures import idle, sheet

STYLE = """
body { font: 15px/1.45 sans-serif; color: #222; max-width: 1240px; margin: 24px auto; padding: 0 20px; }
h1 { font-size: 26px; margin: 0 0 10px; }
h2 { font-size: 18px; margin: 30px 0 8px; border-bottom: 1px solid #ccc; padding-bottom: 3px; }
.verdict { display: inline-block; color: white; font-weight: bold; font-size: 19px; padding: 6px 14px; margin: 0 14px 8px 0; }
.lead { font-size: 16px; margin: 4px 0; } .warning { background: #fff3c4; border-left: 5px solid #b23b00; padding: 8px 12px; }
img { max-width: 100%; display: block; margin: 6px 0; } .pair { display: flex; gap: 16px; align-items: flex-start; }
.pair > * { flex: 1 1 0; min-width: 0; } table { border-collapse: collapse; font-size: 14px; }
th, td { text-align: left; padding: 3px 14px 3px 0; border-bottom: 1px solid #e4e4e4; vertical-align: top; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: #f5f5f5; padding: 10px 12px; font-size: 13px; overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; }
.note { color: #555; font-size: 13px; } summary { cursor: pointer; margin: 6px 0; }
@media print { body { max-width: none; margin: 0; } h2 { break-after: avoid; } img { break-inside: avoid; } }
"""
FIGURE_WORDS = {  # of result.json's figures: what to call them, their unit
    "fom_tokens_per_second": ("figure of merit", "tokens/s"),
    "median_step_seconds": ("step, median", "s"),
    "min_step_seconds": ("step, min", "s"),
    "p95_step_seconds": ("step, p95", "s"),
    "predicted_step_seconds": ("step as planned: measured compute times, free messages", "s"),
    "exposed_seconds": ("exposed communication: median step less planned step", "s"),
    "bubble_over_ideal": ("bubble, idle over ideal", ""),
    "bubble_of_step": ("bubble, idle over step", ""),
    "flop_per_second": ("model FLOP rate", "FLOP/s"),
    "share_of_fma_peak": ("share of the FMA peak", ""),
    "planned_bytes_largest_rank": ("planned memory, largest rank", "bytes"),
    "held_bytes_largest_rank": ("held memory, largest rank", "bytes"),
    "recorded_step_seconds": ("recorded step with output", "s"),
    "startup_seconds": ("start-up", "s"),
    "rehearsal_messages_right": ("rehearsal: messages right", ""),
    "rehearsal_messages_planned": ("rehearsal: messages planned", ""),
}


def text(value):
    return html.escape(str(value))


def picture(figure, about):
    data = base64.b64encode(sheet.png(figure, 110)).decode()
    return f'<img alt="{text(about)}" src="data:image/png;base64,{data}">'


def number(value, decimals=None):
    """A figure as it is shown; the exact one is in the cell's data-value."""
    if value is None:
        return "NOT MEASURED"
    if decimals is not None:
        return f"{value:.{decimals}f}"
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"


def cell(value, decimals=None, **data):
    names = "".join(f' data-{name}="{text(v)}"' for name, v in data.items())
    exact = "null" if value is None else repr(float(value))
    return f'<td class="number"{names} data-value="{exact}">{number(value, decimals)}</td>'


def figures_table(run):
    rows = []
    for name, value in run.result["figures"].items():
        words, unit = FIGURE_WORDS.get(name, (name.replace("_", " "), ""))
        if value is None and name.startswith("rehearsal"):
            continue
        rows.append(f"<tr><td>{text(words)}</td>{cell(value, figure=name)}<td>{unit if value is not None else ''}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def idle_table(run, found):
    head = "".join(f'<th class="number">{text(name)} %</th>' for name in ("compute", *idle.CAUSES, "idle as planned"))
    rows = []
    for rank in sorted(run.ranks):
        shares = [found.busy[rank], *found.idle[rank]]
        cells = "".join(
            cell(100 * share / found.step, 2, rank=rank, part=name) for share, name in zip(shares, ("compute", *idle.CAUSES))
        )
        planned = cell(100 * found.planned_idle(rank) / found.makespan, 2, rank=rank, part="planned")
        rows.append(f'<tr><td class="number">{rank}</td>{cells}{planned}</tr>')
    return f'<table><tr><th class="number">rank</th>{head}</tr>{"".join(rows)}</table>'


def steps_table(run):
    losses = {loss["step"]: loss for loss in run.result["loss"]}
    first = run.ranks[min(run.ranks)].steps
    rows = []
    for i, step in enumerate(first["step"].tolist()):
        seconds = max(float(rank.steps["seconds"][i]) for rank in run.ranks.values())
        kind = "timed" if first["timed"][i] else "recorded" if step == run.result["recorded_step"] else "warm-up"
        loss = losses.get(step, {"value": None, "hex": ""})
        shown = (
            f'<td class="number">{loss["value"]:.8f}</td><td>{text(loss["hex"])}</td>'
            if loss["value"] is not None
            else "<td>-</td><td>-</td>"
        )
        rows.append(f'<tr><td class="number">{step}</td><td>{kind}</td>{cell(seconds, step=step)}{shown}</tr>')
    return (
        '<table><tr><th class="number">step</th><th></th><th class="number">seconds</th><th class="number">loss</th>'
        "<th>loss, hex</th></tr>"
        f'{"".join(rows)}</table>'
    )


def ranks_table(run):
    rows = []
    for rank in range(run.result["ranks"]):
        if rank not in run.ranks:
            rows.append(f'<tr><td class="number">{rank}</td><td colspan="5">rank{rank:05d}.h5 is missing</td></tr>')
            continue
        facts = run.ranks[rank].facts
        memory = run.ranks[rank].memory
        held = number(int(memory["held"])) if memory is not None else ""
        rows.append(
            f'<tr><td class="number">{rank}</td><td>{text(facts.get("host", ""))}</td><td>{text(facts.get("device", ""))}</td>'
            f'<td>{text(facts.get("device_uuid", ""))}</td><td>{text(facts.get("cpus", ""))}</td>'
            f'<td class="number">{held}</td></tr>'
        )
    return (
        '<table><tr><th class="number">rank</th><th>host</th><th>device</th><th>UUID</th><th>CPUs</th>'
        '<th class="number">bytes held</th></tr>'
        f'{"".join(rows)}</table>'
    )


def folded(summary, inside, fold):
    return f"<details{'' if fold else ' open'}><summary>{text(summary)}</summary>{inside}</details>"


def warnings(run):
    """What a reader must not overlook."""
    words = []
    if not run.finished:
        words.append("This run did not finish: its result.json is the one written before the steps.")
    if run.missing:
        shown = ", ".join(run.missing[:8]) + (", ..." if len(run.missing) > 8 else "")
        words.append(f"{len(run.missing)} of {run.result['ranks']} rank files are missing: {shown}.")
    if run.finished and run.complete and not run.planned:
        words.append("The files hold no planned times (an earlier version wrote them): no charts.")
    if run.result.get("injected"):
        words.append(f"A fault was injected on purpose: {run.result['injected']}")
    if any(line.startswith("OVERSUBSCRIBED") for line in run.listing.splitlines()):
        words.append(
            "Oversubscribed: more threads than CPUs. Ranks waited for CPUs, which shows as late input and message wait: "
            "the times say little of the machine."
        )
    if run.rehearsal:
        words.append("A rehearsal: nothing was computed, actions waited for their planned times.")
    return "".join(f'<p class="warning">{text(word)}</p>' for word in words)


def verdict_part(run):
    difference = run.first_difference() or run.first_wrong_messages()
    lines = run.verification()
    parts = [f"<p>Exit code {run.result['exit_code']}.</p>"] if run.finished else []
    if difference:
        parts.append(f'<pre class="difference">{text(chr(10).join(difference))}</pre>')
    if lines:
        parts.append(folded("What was compared", f"<pre>{text(chr(10).join(lines))}</pre>", bool(difference)))
    return "".join(parts) or "<p>There is no listing.txt to say more.</p>"


def charts_part(run, drawn):
    found, many = drawn.found, run.result["ranks"] > 16
    name = f"step {drawn.step_number}"
    return "".join(
        (
            "<h2>Measured beside planned</h2>",
            picture(drawn.gantt_figure(), f"Gantt chart of ranks by time, {name}, measured and planned"),
            '<p class="note">Both charts have one time axis. Planned is the same program simulated with the compute times '
            "that this run measured "
            "and free messages; the dashed line is its end.</p>",
            '<h2>Idle time and memory</h2><div class="pair">',
            picture(drawn.idle_figure(), "Compute and idle time per rank"),
            picture(drawn.memory_figure(), "Device memory per rank") if drawn.has_memory else "",
            "</div>",
            folded("Shares of the mean timed step, per rank", idle_table(run, found), many),
            f"<h2>Slots over time</h2>{picture(drawn.slots_figure(), f'Live activation slots over time, {name}')}",
            f"<h2>Steps</h2>{picture(drawn.steps_figure(), 'Tokens a second of each step')}",
            folded("Every step", steps_table(run), len(run.ranks[min(run.ranks)].steps) > 16),
        )
    )


def page(run, drawn):
    """The whole page."""
    verdict, what = sheet.headline(run)
    colour = sheet.VERDICT_COLOUR.get(run.result["verification"], "#595959")
    facts = "".join(f"<tr><th>{text(name)}</th><td>{text(value)}</td></tr>" for name, value in sheet.facts(run))
    # What is wrong comes before how fast it was.
    parts = charts_part(run, drawn) if drawn.found else "", f"<h2>Verification</h2>{verdict_part(run)}"
    parts = [
        f"<h1>Pipeleaf {text(run.result.get('version'))}: {text(run.title())}</h1>",
        f'<div class="verdict" style="background:{colour}">{text(verdict)}</div>',
        f'<p class="lead">{text(what)}</p>',
        warnings(run),
        "".join(parts if run.result["verification"] == "SUCCESSFUL" else reversed(parts)),
        f"<h2>Figures</h2>{figures_table(run)}" if run.finished else "",
        f"<h2>Facts of the run</h2><table>{facts}</table>",
        folded("Ranks", ranks_table(run), run.result["ranks"] > 16),
        folded("Effective deck", f"<pre>{text(run.result['deck'])}</pre>", True),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Pipeleaf: {text(run.title())}: {text(verdict)}</title><style>{STYLE}</style></head>\n<body>"
        + "\n".join(parts)
        + "</body></html>\n"
    )
