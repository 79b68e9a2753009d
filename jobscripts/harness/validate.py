#!/usr/bin/env python3
"""What pipeleaf-validate says of a run's files alone.

    validate.py BUILD DIRECTORY

compares DIRECTORY, the output of `pipeleaf run`, with the digests in reference/ that are of the same computation, by the
pipeleaf-validate in BUILD. Where a job ran several pipelines, each one's directory is compared. The last line is

    FILES = SUCCESSFUL | UNSUCCESSFUL | NOT PERFORMED | NO REFERENCE

and the exit code is 0 for the first and the last: where no digests are shipped, the verdict is the run's own. Whatever cannot be
read is NOT PERFORMED.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ORDER = ["NO REFERENCE", "SUCCESSFUL", "NOT PERFORMED", "UNSUCCESSFUL"]  # of several pipelines, the last of these stands


def reference_folder():
    """The folder of the shipped digests: $PIPELEAF_REFERENCE, which pipeleaf reads too, or the one of this checkout."""
    return Path(os.environ.get("PIPELEAF_REFERENCE") or Path(__file__).resolve().parents[2] / "reference")


def validate(program, directory):
    """The verdict on the files of one run."""
    identity = json.loads((directory / "result.json").read_text())["identity"]
    references = sorted(reference_folder().glob(f"*.{identity[:16]}.digest"))
    if not references:
        print(f"{directory}: no digests are shipped for this computation (identity {identity[:16]})")
        return "NO REFERENCE"
    said = subprocess.run([program, directory, references[0]], capture_output=True, text=True, check=False)
    print(said.stdout + said.stderr, end="")
    last = said.stdout.splitlines()[-1:]
    verdict = last[0].removeprefix("VERIFICATION = ") if last else ""
    if verdict not in ORDER or (verdict == "SUCCESSFUL") != (said.returncode == 0):
        print(f"{directory}: pipeleaf-validate ended with exit code {said.returncode} and no such verdict")
        return "NOT PERFORMED"
    return verdict


def main():
    """Validates the run, or each pipeline of the job, and says the worst."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 1
    program, directory = Path(sys.argv[1]).resolve() / "pipeleaf-validate", Path(sys.argv[2])
    try:
        job = json.loads((directory / "result.json").read_text())
        # A job of several pipelines names their directories, as seen from where it ran; they lie in its own.
        runs = [directory / Path(name).name for name in job.get("directories", [])] or [directory]
        verdict = max((validate(program, run) for run in runs), key=ORDER.index)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:  # no file, no JSON, JSON of another shape
        print(f"{directory}: {error}")
        verdict = "NOT PERFORMED"
    print(f"FILES = {verdict}")
    return 0 if verdict in ("SUCCESSFUL", "NO REFERENCE") else 1


if __name__ == "__main__":
    sys.exit(main())
