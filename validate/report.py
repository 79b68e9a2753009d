#!/usr/bin/env python3
"""report.py DIR [-o PREFIX] [--step N]: a run as a page that people can read.

Reads the output directory of `pipeleaf run` and writes PREFIX.html, one page that needs no other file, and PREFIX.png, the same
charts on one sheet (PREFIX: DIR/report unless given). Needs h5py and matplotlib. The exit code is 0 where both were written,
whatever the run's verdict, else 1 with one line."""

import argparse
import errno
import importlib.util
import os
import sys
import tempfile


class Parser(argparse.ArgumentParser):
    """A wrong command line is exit 1 and one line, as with pipeleaf."""

    def error(self, message):
        give_up(f"{message} (report.py --help says what there is)")


def give_up(words):
    sys.stderr.write(f"report.py: error: {words}\n")
    raise SystemExit(1)


def command_line():
    parser = Parser(prog="report.py", description=__doc__.split("\n\n", 1)[1], allow_abbrev=False)
    parser.add_argument("directory", metavar="DIR", help="the output directory of a run")
    parser.add_argument("-o", dest="prefix", metavar="PREFIX", help="write PREFIX.html and PREFIX.png instead of DIR/report.*")
    parser.add_argument(
        "--step", type=int, metavar="N", help="the step in the charts; the timed one nearest the median unless given"
    )
    return parser.parse_args()


def cannot_write(path, why):
    give_up(f"cannot write '{path}': {why} (-o PREFIX writes elsewhere)")


def check_place(path):
    """Before anything is drawn: whether a file can be made there."""
    folder = os.path.dirname(path) or "."
    if not os.access(folder, os.W_OK | os.X_OK):
        cannot_write(path, os.strerror(errno.EACCES if os.path.isdir(folder) else errno.ENOENT))


def write_whole(path, data):
    """Under a temporary name beside it, renamed when whole."""
    folder = os.path.dirname(path) or "."
    part = None
    try:
        descriptor, part = tempfile.mkstemp(prefix=os.path.basename(path) + ".", suffix=".part", dir=folder)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(part, 0o666 & ~mask)
        os.replace(part, path)
    except OSError as why:
        if part and os.path.exists(part):
            os.unlink(part)
        cannot_write(path, why.strerror)


def main():
    words = command_line()
    for name in ("h5py", "matplotlib"):
        if not importlib.util.find_spec(name):
            give_up(f"{name} is missing: Debian has it as python3-{name}, PyPI as {name}")
    from pictures import run_files

    prefix = words.prefix or os.path.join(words.directory, "report")
    try:
        run = run_files.Run(words.directory)
        check_place(f"{prefix}.html")
        from pictures import page, sheet  # the slow ones, once there is something to draw

        drawn = sheet.Charts(run, words.step)
    except (run_files.NoRun, ValueError) as why:
        give_up(str(why))
    written = {f"{prefix}.html": page.page(run, drawn).encode(), f"{prefix}.png": sheet.png(drawn.sheet(), 110)}
    for path, data in written.items():
        write_whole(path, data)
    print(" ".join(written))


if __name__ == "__main__":
    main()
