"""What the benchmarks of whole commands share: how they are called, run `pipeleaf`, and say what they measured."""
import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))

# Open MPI (4.x, 5.x) binds a few ranks to a core each: a rank with two threads then has one CPU. own_core.py binds instead.
for binding in ("OMPI_MCA_hwloc_base_binding_policy", "PRTE_MCA_hwloc_default_binding_policy"):
    os.environ.setdefault(binding, "none")


def command_line(documentation, rounds=5):
    """The parser of `benchmark_X.py BUILD SOURCE LAUNCH [--rounds N] [--json FILE]`, to which a benchmark adds its own."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the folder of the programs")
    parser.add_argument("source", help="the source tree")
    parser.add_argument("launch", help='how ranks are started: "mpirun -n"')
    parser.add_argument("--rounds", type=int, default=rounds, help="times each side of a comparison is run, in turn")
    parser.add_argument("--json", help="write the figures there")
    return parser


def numbers(text):
    """"2,4,8" as [2, 4, 8]."""
    return [int(word) for word in text.split(",")]


def call(words, **options):
    """Runs the words; what they wrote and the seconds they took. A failure ends the benchmark with the end of their output."""
    begin = time.monotonic()
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    seconds = time.monotonic() - begin
    if done.returncode:
        raise SystemExit(f"{shlex.join(words)}: exit {done.returncode}\n{done.stdout[-2000:]}")
    return done.stdout, seconds


def own_core(words):
    """The words for a launcher, each rank bound to its own core."""
    return [sys.executable, f"{HERE}/own_core.py", *words]


def deck_words(deck):
    """{"model.layers": 8} as ["model.layers=8"]."""
    return [f"{name}={value}" for name, value in deck.items()]


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def run(options, ranks, deck, directory, launch=None, before=()):
    """`pipeleaf run` of tiny with the deck's changes, a core a rank; its result.json.

    launch: the words that start the ranks, each on its core, where they are not the benchmark's; before: words before the program."""
    launch = launch or shlex.split(options.launch) + [str(ranks)] + own_core([])
    call([*launch, *before, f"{options.build}/pipeleaf", "run", f"{options.source}/input/tiny.nml", f"pipeline.ranks={ranks}",
          "verify.against=none", f"output.directory={directory}", *deck_words(deck)])
    return load(f"{directory}/result.json")


def predicted(options, deck, directory, ranks=2):
    """What `pipeleaf plan --from` makes of the run in the directory: (makespan with messages, with free ones), in seconds."""
    output, _ = call([f"{options.build}/pipeleaf", "plan", f"{options.source}/input/tiny.nml", f"pipeline.ranks={ranks}",
                      *deck_words(deck), "--from", directory])
    found = re.search(r"^makespan of a step +(\S+) s; with free messages (\S+) s$", output, re.MULTILINE)
    if not found:
        raise SystemExit(f"pipeleaf plan --from {directory}: no makespan in its output\n{output[-2000:]}")
    return float(found[1]), float(found[2])


def spread(values):
    """Median, least and greatest of the rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "rounds": len(values)}


def shown(figure, form="{:.3f}"):
    """"1.012 (1.002-1.031)"."""
    low, middle, high = (form.format(figure[name]) for name in ("min", "median", "max"))
    return f"{middle} ({low}-{high})"


def verdict(good):
    return "met" if good else "MISSED"


def machine():
    """What figures must be read with: the processor, its CPUs, and who else was at work."""
    name = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                name = line.split(":", 1)[1].strip()
                break
    return {"processor": name, "cpus": len(os.sched_getaffinity(0)), "load_average": os.getloadavg()[0]}


def write_json(path, benchmark, figures):
    """The figures, under the benchmark's name, with the machine they are of."""
    if not path:
        return
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"benchmark": benchmark, "machine": machine(), **figures}, file, indent=2)
        file.write("\n")
