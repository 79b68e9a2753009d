"""What a run left in its directory: result.json, the listing's verdict, and the timings and memory in the files of its ranks."""

import json
import os
import re

import h5py
import numpy

MOST_STEPS_READ = 64  # timed steps whose actions are looked at: enough for means, and a long run stays readable


class NoRun(Exception):
    """One line for the user: why there is nothing to report on."""


class Rank:
    """One rank's file. Times of `actions` and `steps` are on rank 0's clock, seconds; actions: [steps][computes]."""

    def __init__(self, path, number):
        self.number = number
        try:
            with h5py.File(path) as file:
                self.facts = {name: plain(value) for name, value in file.attrs.items()}
                self.steps = file["timings/steps"][:]
                self.planned = file["timings/planned"][:] if "timings/planned" in file else None
                clock = file["timings/clock"][:] if "timings/clock" in file else None
                self.memory = file["memory"][0] if "memory" in file else None
                self.actions = self.read_actions(file["timings/actions"])
        except (OSError, KeyError, RuntimeError, ValueError) as why:
            raise NoRun(f"'{path}' cannot be read as the file of a rank: {one_line(why)}") from why
        if clock is not None:
            shift(clock, self.actions, "start", "end")
            shift(clock, self.steps, "start")

    def read_actions(self, data):
        """The actions of the steps that are kept, [steps][computes]: all, or of a long run its last ones."""
        steps = len(self.steps)
        if steps == 0 or len(data) % steps:
            raise ValueError(f"{len(data)} actions in {steps} steps")
        computes = len(data) // steps
        self.first_step = max(0, steps - MOST_STEPS_READ)
        return data[self.first_step * computes :].reshape(steps - self.first_step, computes)

    def place(self):
        return f"{self.facts.get('host', '?')}, {self.facts.get('device', '?')}"


def plain(value):
    return value.item() if isinstance(value, numpy.generic) else value


def one_line(why):
    return " ".join(str(why).split())


def shift(clock, records, *names):
    """Puts times on rank 0's clock, the drift between the two measurements interpolated, as the program does."""
    (first, second), (before, after) = clock["at"].tolist(), clock["to_rank_0"].tolist()
    for name in names:
        share = (records[name] - first) / (second - first) if second > first else 0
        records[name] = records[name] + before + share * (after - before)


class Run:
    """All of it. ranks: {number: Rank} of the files that are there; missing: names of those that are not."""

    def __init__(self, directory):
        self.directory = directory
        self.result = read_result(directory)
        self.finished = bool(self.result["figures"])
        self.ranks, self.missing = {}, []
        for number in range(self.result["ranks"]):
            name = f"rank{number:05d}.h5"
            if os.path.exists(os.path.join(directory, name)):
                self.ranks[number] = self.read_rank(name, number)
            else:
                self.missing.append(name)
        self.listing = read_text(os.path.join(directory, "listing.txt"))
        self.schedule = deck_value(self.result["deck"], "schedule")
        self.rehearsal = deck_value(self.result["deck"], "device") == "rehearsal"

    def read_rank(self, name, number):
        rank = Rank(os.path.join(self.directory, name), number)
        if rank.facts.get("run_id") != self.result["run_id"]:
            raise NoRun(
                f"'{os.path.join(self.directory, name)}' is of run {rank.facts.get('run_id')}, result.json of run "
                f"{self.result['run_id']}: all files must be of one run"
            )
        return rank

    @property
    def complete(self):
        """Whether every rank's file is there, so that times of one rank can be held against another's."""
        return not self.missing and bool(self.ranks)

    @property
    def planned(self):
        """Whether the files hold the planned times."""
        return self.complete and all(
            rank.planned is not None and len(rank.planned) == rank.actions.shape[1] for rank in self.ranks.values()
        )

    def title(self):
        what = "rehearsal" if self.rehearsal else "run"
        name = os.path.basename(os.path.abspath(self.directory))
        return (
            f"{what} '{name}', {self.schedule or '?'}, p={self.result['ranks']} v={self.result['chunks_per_rank']} "
            f"m={self.result['model']['microbatches']}"
        )

    def verification(self):
        """The listing's lines on the verdict, without the last two; [] where there is no listing."""
        lines = self.listing.splitlines()
        begin = [i for i, line in enumerate(lines) if re.match(r"-+ verification\b", line)]
        if not begin:
            return []
        lines = lines[begin[-1] + 1 :]
        return [line for line in lines if not re.match(r"(FOM|VERIFICATION) = ", line)]

    def first_difference(self):
        """The lines from 'first difference' to the count of all differences; [] where there was none."""
        lines = [line[2:] if line.startswith("  ") else line for line in self.verification()]
        for i, line in enumerate(lines):
            if line.startswith("first difference"):
                rest = [j for j in range(i + 1, len(lines)) if not lines[j].startswith(" ") or not lines[j].strip()]
                end = rest[0] if rest else len(lines)
                counted = lines[end : end + 1] if end < len(lines) and lines[end].startswith("in all") else []
                return lines[i:end] + counted
        return []

    def first_wrong_messages(self):
        """Of a rehearsal: what the listing says of wrong messages."""
        return [line.strip() for line in self.listing.splitlines() if line.strip().startswith("first wrong one on rank")]


def deck_value(deck, name):
    """A string parameter of an effective deck, '' where it has none."""
    found = re.search(rf"^\s*{name}\s*=\s*'([^']*)'", deck or "", re.MULTILINE | re.IGNORECASE)
    return found.group(1) if found else ""


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def read_result(directory):
    """result.json, held to what is used of it."""
    path = os.path.join(directory, "result.json")
    if not os.path.isdir(directory):
        raise NoRun(f"'{directory}' is no directory: give the output directory of a run (output.directory of its deck)")
    pipelines = sorted(name for name in os.listdir(directory) if re.fullmatch(r"pipeline\d+", name))
    if pipelines:
        raise NoRun(f"'{directory}' holds {len(pipelines)} pipelines: give one of them, as '{directory}/{pipelines[0]}'")
    if not os.path.exists(path):
        if os.path.exists(os.path.join(directory, "reference.json")):
            raise NoRun(f"'{directory}' holds a reference alone, which has no schedule to draw: give the directory of a run")
        raise NoRun(f"'{directory}' holds no run: it has no result.json")
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file, parse_constant=refuse)
    except (OSError, ValueError) as why:
        raise NoRun(f"'{path}' cannot be read: {one_line(why)}") from why
    if not isinstance(result, dict) or result.get("format") != "pipeleaf result" or result.get("kind") != "run":
        raise NoRun(f"'{path}' is not the result of a run of pipeleaf")
    wanted = {
        "ranks": int,
        "chunks_per_rank": int,
        "figures": dict,
        "model": dict,
        "step_seconds": list,
        "loss": list,
        "verification": str,
        "exit_code": int,
        "run_id": str,
        "deck": str,
        "recorded_step": int,
    }
    for name, kind in wanted.items():
        if not isinstance(result.get(name), kind):
            raise NoRun(f"'{path}' has no {name}, or one that is no {kind.__name__}")
    return result
