"""check_svg.py FILE RANKS COLUMNS LABELS: the SVG is well-formed, and its boxes are the actions in LABELS, none over another,
each with its label in its middle, one colour a kind and a shade a chunk, and end at COLUMNS."""
import sys
import xml.etree.ElementTree as tree

path, ranks, columns, labels = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split()
root = tree.parse(path).getroot()
space = "{http://www.w3.org/2000/svg}"
assert root.tag == space + "svg"
width, height = float(root.get("width")), float(root.get("height"))
boxes = [r for r in root.iter(space + "rect") if r.find(space + "title") is not None]
texts = list(root.iter(space + "text"))
drawn = {t.text: t for t in texts}
assert sorted(t.text for t in texts if t.get("text-anchor") == "middle" and t.text[0] in "FBIW") == sorted(labels), labels
assert len(boxes) == len(labels), len(boxes)
for rank in range(ranks):
    assert f"rank {rank}" in drawn
assert {"F: forward", "B: backward"} <= drawn.keys(), drawn.keys()  # the legend
assert str(columns - columns % 5) in drawn, drawn.keys()  # the axis

number = lambda e, name: float(e.get(name))
colours = {}
for box in boxes:
    x, y, w, h = (number(box, n) for n in ("x", "y", "width", "height"))
    assert 0 <= x and x + w <= width and 0 <= y and y + h <= height
    inside = [t for t in texts if x < number(t, "x") < x + w and y < number(t, "y") < y + h]
    assert len(inside) == 1, (box.attrib, [t.text for t in inside])
    label = inside[0].text
    assert w >= 7 * len(label), (w, label)  # wide enough to read
    kind, _, _, _, microbatch, *_ = box.find(space + "title").text.replace(",", "").split()
    assert label[0] == kind and label[1:-1] == microbatch
    colours.setdefault((kind, label[-1]), set()).add(box.get("fill"))
assert all(len(c) == 1 for c in colours.values()) and len({c for s in colours.values() for c in s}) == len(colours), colours
for y in {number(b, "y") for b in boxes}:
    row = sorted((number(b, "x"), number(b, "x") + number(b, "width")) for b in boxes if number(b, "y") == y)
    assert all(a[1] <= b[0] + 1e-6 for a, b in zip(row, row[1:]))

# against the axis: every action begins and ends at whole units, the last at the end
zero, five = number(drawn["0"], "x"), number(drawn["5"], "x")
column = lambda x: (x - zero) / (five - zero) * 5
for box in boxes:
    for edge in number(box, "x"), number(box, "x") + number(box, "width"):
        assert abs(column(edge) - round(column(edge))) < 0.03, column(edge)
assert round(min(column(number(b, "x")) for b in boxes)) == 0
assert round(max(column(number(b, "x") + number(b, "width")) for b in boxes)) == columns
print(len(boxes), "boxes")
