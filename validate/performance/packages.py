"""Python packages that a benchmark compares with, in an environment of their own under the build folder."""
import os
import shutil
import subprocess
import sys

SKIPPED = 77


def skip(reason):
    """Ends the benchmark as one that could not be made."""
    print(f"skipped: {reason}", flush=True)
    raise SystemExit(SKIPPED)


def environment(build, name, wanted):
    """The Python of BUILD/name, with the newest of the wanted packages that PyPI had when it was made.

    An environment that is there is used as it is; to have newer packages, remove it. Where the packages cannot be had
    the benchmark ends as skipped."""
    folder = os.path.join(os.path.abspath(build), name)
    python = os.path.join(folder, "bin", "python")
    whole = os.path.join(folder, "whole")  # written last: an installation that was cut off is made again
    if os.path.exists(whole):
        return python
    print(f"installing {', '.join(wanted)} into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    for words in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", *wanted]):
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            shutil.rmtree(folder, ignore_errors=True)
            last = (done.stdout.strip().splitlines() or ["no output"])[-1]
            skip(f"{', '.join(wanted)} cannot be had ({last})")
    with open(whole, "w", encoding="utf-8") as file:
        file.write("\n".join(wanted) + "\n")
    return python
