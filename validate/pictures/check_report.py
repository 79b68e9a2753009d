"""check_report.py PREFIX DIR EXPECTATION...: PREFIX.html and PREFIX.png are what they should be of the run in DIR.

EXPECTATIONS: charts or nocharts; verdict=WORDS; says=WORDS; silent=WORDS (any number of these)."""

import base64
import html.parser
import io
import json
import math
import re
import sys

import h5py
from PIL import Image


class Page(html.parser.HTMLParser):
    """What a page holds: its text, its pictures, the cells that carry data."""

    EMPTY = {"meta", "img"}

    def __init__(self, source):
        super().__init__()
        self.open, self.images, self.cells, self.words, self.marked, self.cell = [], [], [], [], {}, None
        self.feed(source)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        assert tag != "script" and not any(name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href"):
            if name in attributes:
                assert attributes[name].startswith(
                    "data:image/png;base64,"
                ), f"the page needs another file: {attributes[name][:60]}"
        if tag == "img":
            assert attributes.get("alt"), "a picture says what it shows"
            self.images.append(base64.b64decode(attributes["src"].partition(",")[2], validate=True))
        if tag not in self.EMPTY:
            self.open.append((tag, attributes.get("class")))
        if "data-value" in attributes:
            self.cell = (attributes, [])
            self.cells.append(self.cell)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, f"</{tag}> ends {self.open}"
        self.open.pop()
        self.cell = None if tag == "td" else self.cell

    def handle_data(self, data):
        self.words.append(data)
        if self.cell:
            self.cell[1].append(data)
        if self.open and self.open[-1][1]:
            self.marked.setdefault(self.open[-1][1], []).append(data)


def check_picture(data, least_width):
    """It decodes, is wide enough, has many colours, and is neither blank nor mostly ink."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "PNG"
        image = image.convert("RGB")
        assert image.width >= least_width and image.height >= 200, image.size
        colours = dict((colour, count) for count, colour in image.getcolors(image.width * image.height))
        white = colours.get((255, 255, 255), 0) / (image.width * image.height)
        assert len(colours) >= 12 and 0.05 < white < 0.985, (len(colours), white)
        return colours


def points_of(colour, colours):
    return sum(count for seen, count in colours.items() if sum(abs(a - b) for a, b in zip(colour, seen)) < 24)


def value_of(cell):
    return None if cell[0]["data-value"] == "null" else float(cell[0]["data-value"])


def check_shown(cell):
    """The number that is read is the number that is meant."""
    shown, value = "".join(cell[1]), value_of(cell)
    if value is None:
        assert shown == "NOT MEASURED", shown
    else:
        rounded = 0.00501 if "data-part" in cell[0] else 0.5 if abs(value) > 1e6 else 1e-12
        assert math.isclose(float(shown), value, rel_tol=1e-5, abs_tol=rounded), (shown, value)


def check_numbers(page, directory, result):
    figures = {cell[0]["data-figure"]: value_of(cell) for cell in page.cells if "data-figure" in cell[0]}
    wanted = {name: value for name, value in result["figures"].items() if value is not None or not name.startswith("rehearsal")}
    assert figures == wanted, (figures, wanted)
    ranks = [h5py.File(f"{directory}/rank{r:05d}.h5") for r in range(result["ranks"])]
    seconds = {}
    for rank in ranks:
        for step in rank["timings/steps"][:]:
            seconds[int(step["step"])] = max(seconds.get(int(step["step"]), 0), float(step["seconds"]))
    shown = {int(cell[0]["data-step"]): value_of(cell) for cell in page.cells if "data-step" in cell[0]}
    assert shown == seconds, (shown, seconds)
    timed = [int(step["step"]) for step in ranks[0]["timings/steps"][:] if step["timed"]]
    assert [seconds[step] for step in timed] == result["step_seconds"]
    makespan = max(float(rank["timings/planned"]["end"].max()) for rank in ranks)
    assert makespan == result["figures"]["predicted_step_seconds"], makespan
    check_planned(ranks)
    for rank in ranks:
        rank.close()
    return timed


def check_planned(ranks):
    """Planned computes are the executed ones; on a rank they do not overlap, nor do two live in a slot at once."""
    for rank in ranks:
        planned, actions = rank["timings/planned"][:], rank["timings/actions"][:]
        first = actions[actions["step"] == 1]
        for name in ("kind", "chunk", "microbatch"):
            assert list(planned[name]) == list(first[name]), name
        assert (planned["start"][1:] >= planned["end"][:-1]).all() and (planned["end"] >= planned["start"]).all()
        live = {}
        for row in planned:
            key = int(row["chunk"]), int(row["microbatch"])
            if row["kind"] == 0:
                assert row["slot"] not in live, row
                live[row["slot"]] = key
            else:
                assert live[row["slot"]] == key, row
                if row["kind"] in (1, 3):
                    del live[row["slot"]]
        assert not live and planned["slot"].max() + 1 == rank["memory"][0]["slot_count"]


def check_idle(page, directory, timed):
    """Each rank's shares are those of the timeline's slices, which the program made from the same records by itself."""
    with open(f"{directory}/timeline.json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    rank_of = {
        event["pid"]: int(event["args"]["name"].split()[1])
        for event in events
        if event["name"] == "process_name" and event["args"]["name"].startswith("rank ")
    }
    steps = [
        event["dur"] for event in events if event.get("cat") == "step" and event["ph"] == "X" and event["args"]["step"] in timed
    ]
    mean, sums, gaps = sum(steps) / len(steps), {}, {}
    for event in events:
        if event["ph"] == "X" and event["cat"] in ("compute", "idle") and event["args"]["step"] in timed:
            part = "compute" if event["cat"] == "compute" else event["name"]
            key = rank_of[event["pid"]], part
            sums[key] = sums.get(key, 0) + event["dur"] / len(steps)
            gaps[key[0]] = gaps.get(key[0], 0) + (part == "compute") / len(steps)
    shown = {(int(cell[0]["data-rank"]), cell[0]["data-part"]): value_of(cell) for cell in page.cells if "data-rank" in cell[0]}
    assert len(shown) == 6 * len(rank_of)
    for rank in rank_of.values():
        total = 0
        for part in ("compute", "bubble", "late input", "other", "message wait"):
            share = shown[rank, part]
            total += share
            least = 100 * (gaps[rank] + 1) / mean  # the timeline leaves out what is below a microsecond
            assert abs(share - 100 * sums.get((rank, part), 0) / mean) <= least + 0.01, (
                rank,
                part,
                share,
                sums.get((rank, part)),
                mean,
            )
        assert abs(total - 100) < 1e-6, total
        assert shown[rank, "bubble"] <= shown[rank, "planned"] + 1e-9, "no more bubble than planned"


def main():
    prefix, directory, *expectations = sys.argv[1:]
    with open(f"{prefix}.html", encoding="utf-8") as file:
        source = file.read()
    assert not re.search(r"https?://|@import|url\(", source), "the page needs nothing from elsewhere"
    page = Page(source)
    words = " ".join("".join(page.words).split())
    with open(f"{directory}/result.json", encoding="utf-8") as file:
        result = json.load(file)
    with open(f"{prefix}.png", "rb") as file:
        sheet = file.read()
    check_picture(sheet, 1200)
    assert result["run_id"] in words and result["deck_sha256"] in words and result["version"] in words
    for cell in page.cells:
        check_shown(cell)
    for expectation in expectations:
        what, _, wanted = expectation.partition("=")
        if what == "charts":
            assert len(page.images) == 5, len(page.images)
            colours = [check_picture(image, 500) for image in page.images]
            # The boxes of forward, and of backward or input gradient: more points than those of the legend.
            for looks in (((0, 114, 178),), ((213, 94, 0), (190, 80, 150))):
                points = max(points_of(look, colours[0]) for look in looks)
                assert points > 1500, f"{points} points of {looks} on the Gantt chart"
            check_idle(page, directory, check_numbers(page, directory, result))
        elif what == "nocharts":
            assert not page.images
        elif what == "verdict":
            assert "".join(page.marked["verdict"]) == wanted, page.marked["verdict"]
        elif what == "says":
            assert wanted in words, f"not said: {wanted}"
        elif what == "silent":
            assert wanted not in words, f"said: {wanted}"
        elif what == "difference":
            assert "".join(page.marked["difference"]).splitlines()[0].startswith(wanted), page.marked["difference"]
        else:
            raise SystemExit(f"unknown: {expectation}")
    print(f"{prefix}: {len(page.images)} pictures, {len(page.cells)} numbers, {len(source)} and {len(sheet)} bytes")


main()
