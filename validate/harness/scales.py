"""The scales of the JUBE file and of the ReFrame test are the same, and have the ranks of their decks in input/.

usage: scales.py SOURCE
"""

import ast
import re
import sys
from pathlib import Path


def table(text, pattern):
    """The dictionary of ranks that the pattern's group catches."""
    return ast.literal_eval(re.search(pattern, text).group(1))


def main():
    """Exit code 0 where everything agrees, else a line for each difference."""
    source = Path(sys.argv[1])
    harness = source / "jobscripts" / "harness"
    jube = (harness / "pipeleaf.yaml").read_text()
    in_jube = table(jube, r"name: scale_ranks,.*?(\{'.*?\})")
    in_reframe = table((harness / "pipeleaf_reframe.py").read_text(), r"(?m)^RANKS = (\{.*\})$")
    tags = set(re.findall(r"name: scale, tag: [^,]+, _: (\w+)", jube))
    wrong = []
    if in_jube != in_reframe:
        wrong.append(f"ranks of the JUBE file {in_jube}, of the ReFrame test {in_reframe}")
    if tags != set(in_jube):
        wrong.append(f"tags of the JUBE file {sorted(tags)}, scales with ranks {sorted(in_jube)}")
    decks = 0
    for scale, ranks in in_jube.items():
        deck = source / "input" / f"{scale}.nml"
        if not deck.exists():
            print(f"{scale}: no deck {deck} in this tree")
            continue
        decks += 1
        in_deck = int(re.search(r"(?ms)^&pipeline.*?^ *ranks *= *(\d+)", deck.read_text()).group(1))
        if in_deck != ranks:
            wrong.append(f"{scale}: {ranks} ranks, the deck says {in_deck}")
    for line in wrong:
        print(line)
    print(f"{decks} decks compared, {len(wrong)} differences")
    return 0 if decks >= 2 and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
