"""Reads an Apptainer definition as strictly as its users would wish: known headers and sections, each once, none empty. Writes the
sections that are shell into FOLDER, as SECTION.sh, for shellcheck.

usage: apptainer.py DEFINITION FOLDER
"""

import re
import sys
from pathlib import Path

# The Apptainer user guide, "Definition Files".
HEADERS = {"bootstrap", "from", "stage", "includecmd", "mirrorurl", "osversion", "include", "fingerprints"}
SECTIONS = {"arguments", "setup", "files", "post", "test", "environment", "startscript", "runscript", "labels", "help", "pre"}
SHELL = {"setup", "post", "test", "environment", "startscript", "runscript", "pre"}


def read(text):
    """Headers and sections of the text, with what is wrong with them."""
    headers, sections, wrong, section = {}, {}, [], None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("%"):
            section = line[1:].strip()
            if section not in SECTIONS:
                wrong.append(f"line {number}: no section is called '{section}'")
            if section in sections:
                wrong.append(f"line {number}: section '{section}' for the second time")
            sections[section] = []
        elif section:
            sections[section].append(line)
        elif line.strip() and not line.startswith("#"):
            name, _, value = (part.strip() for part in line.partition(":"))
            if name.lower() not in HEADERS or not value:
                wrong.append(f"line {number}: '{line}' is no header")
            headers[name.lower()] = value
    wrong += [f"section '{name}' is empty" for name, lines in sections.items() if not "".join(lines).strip()]
    return headers, sections, wrong


def main():
    """Exit code 0 where nothing is wrong."""
    definition, folder = Path(sys.argv[1]), Path(sys.argv[2])
    source = definition.resolve().parents[2]
    text = definition.read_text()
    headers, sections, wrong = read(text)
    wrong += [f"no header '{name}'" for name in ("bootstrap", "from") if name not in headers]
    wrong += [f"no section '{name}'" for name in ("files", "post", "runscript", "test", "help") if name not in sections]
    given = {line.split("=")[0].strip() for line in sections.get("arguments", []) if line.strip()}
    used = set(re.findall(r"\{\{ *(\w+) *\}\}", text))
    if given != used:
        wrong.append(f"arguments {sorted(given)}, used {sorted(used)}")
    for line in filter(str.strip, sections.get("files", [])):
        if not (source / line.split()[0]).exists():
            wrong.append(f"{line.split()[0]} is copied, and is not in this tree")
    for name in SHELL & sections.keys():
        (folder / f"{name}.sh").write_text("#!/bin/sh\n" + "\n".join(sections[name]) + "\n")
    for line in wrong:
        print(line)
    print(f"{len(sections)} sections read, {len(wrong)} things wrong")
    return 0 if not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
