"""All benchmarks: one table, one JSON file. On an idle machine.

usage: benchmark.py BUILD SOURCE LAUNCH [PART ...] [--rounds N] [--json FILE]     LAUNCH: "mpirun -n"

Without a PART all of them, which takes more than an hour. With --json the parts that are named replace those in FILE, the others
stay. A part that needs what the machine lacks is skipped, and said to be. Exit code 1 where a part failed; a figure that is not as
wanted is said in the table and nothing more: figures depend on the machine.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import figures
import packages
import parts
import runs


def named(text):
    if text not in parts.PARTS:
        raise argparse.ArgumentTypeError(f"'{text}' is no part: it is one of {' '.join(parts.PARTS)}")
    return text


def read_words():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the folder of the programs")
    parser.add_argument("source", help="the source tree")
    parser.add_argument("launch", help='how ranks are started: "mpirun -n"')
    parser.add_argument("parts", nargs="*", type=named, metavar="PART", help=" ".join(parts.PARTS))
    parser.add_argument("--rounds", type=int, help="of every part that takes them; default: each part's own")
    parser.add_argument("--json", help="the results")
    options = parser.parse_args()
    if options.rounds is not None and options.rounds < 1:
        parser.error(f"--rounds {options.rounds}: at least 1")
    options.build, options.source = os.path.abspath(options.build), os.path.abspath(options.source)
    return options


def commit_of(options):
    """"pipeleaf 0.1.0 (1a2b3c4d)"."""
    return runs.call([f"{options.build}/pipeleaf", "--version"])[0].strip()


def measure(options, name, version):
    """Runs one part; what there is to say of it."""
    part = parts.PARTS[name]
    print(f"\n== {name}: {part.what} (some {part.minutes} min)", flush=True)
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    about = {"what": part.what, "version": version, "when": when, "machine": runs.machine()}
    if not parts.runs_here(part):
        print(f"skipped: the processor has no {part.needs}")
        return {**about, "status": "skipped", "figures": []}
    # Threads that wait may spin, as OpenMP would have it: no benchmark has more of them than cores.
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"} | part.environment
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pipeleaf-benchmark-") as directory:
        path = f"{directory}/part.json"
        done = subprocess.run([*part.command(options), "--json", path], env=environment, check=False)
        about["seconds"] = round(time.monotonic() - begin, 1)
        if done.returncode == packages.SKIPPED:
            return {**about, "status": "skipped", "figures": []}
        if done.returncode or not os.path.exists(path):
            print(f"{name} failed: exit {done.returncode}", flush=True)
            return {**about, "status": "failed", "figures": []}
        found = runs.load(path)
    return {**about, "status": "measured", "figures": [figures.judged(one) for one in part.read(found)], "found": found}


def write(path, results):
    if not path:
        return
    temporary = f"{path}.tmp"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump({"benchmark": "pipeleaf", "parts": results}, file, indent=2)
        file.write("\n")
    os.replace(temporary, path)


def print_table(results):
    print(f"\n{figures.HEADING}")
    count = {True: 0, False: 0, None: 0}
    for name, part in results.items():
        print(f"-- {name}: {part['what']}" + ("" if part["status"] == "measured" else f": {part['status'].upper()}"))
        for one in part["figures"]:
            print(figures.line(one))
            count[figures.met(one)] += 1
    print(f"\n{count[True]} as wanted, {count[False]} not, {count[None]} only reported")


def main():
    options = read_words()
    version = commit_of(options)
    results = {}
    if options.json and options.parts and os.path.exists(options.json):
        results = runs.load(options.json)["parts"]
    for name in options.parts or parts.PARTS:
        results[name] = measure(options, name, version)
        results = {name: results[name] for name in parts.PARTS if name in results}
        write(options.json, results)  # after each part: an hour's figures are not lost with the last
    print_table(results)
    return 1 if any(part["status"] == "failed" for part in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
