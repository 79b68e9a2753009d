"""check_trace.py FILE [FILE ...]: holds a file of Chrome trace events to the format, more strictly than viewers do.

Every event has the members that its phase requires and no others; times are not negative; slices of one thread do not overlap;
each flow has one start and one end, each inside a slice of its thread, the end not before the start; threads that hold slices
have a name, and so have their processes."""

import json
import sys

COMMON = {"ph": str, "pid": int, "tid": int, "name": str}
REQUIRED = {  # beyond those; numbers may be whole
    "X": {"cat": str, "ts": float, "dur": float, "args": dict},
    "M": {"args": dict},
    "i": {"cat": str, "ts": float, "s": str},
    "s": {"cat": str, "ts": float, "id": int},
    "f": {"cat": str, "ts": float, "id": int, "bp": str},
}
METADATA = {
    "process_name": {"name": str},
    "thread_name": {"name": str},
    "process_labels": {"labels": str},
    "process_sort_index": {"sort_index": int},
    "thread_sort_index": {"sort_index": int},
}


class Trace:
    """What the checks found: slices in the file's order, (start, end) of every flow, names of processes and threads."""

    def __init__(self):
        self.slices, self.flows, self.processes, self.threads = [], [], {}, {}

    def name(self, event):
        return self.processes[event["pid"]], self.threads[event["pid"], event["tid"]]


def need(fact, words):
    if not fact:
        raise SystemExit(f"not as the format wants it: {words}")


def nanoseconds(microseconds):
    return round(1000 * microseconds)


def is_a(value, kind):
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def check_members(event):
    need(isinstance(event, dict) and event.get("ph") in REQUIRED, f"an event of a known phase: {event}")
    members = COMMON | REQUIRED[event["ph"]]
    need(set(event) == set(members), f"the members of a {event['ph']} event: {event}")
    for name, kind in members.items():
        need(is_a(event[name], kind), f"{name} is a {kind.__name__}: {event}")
    need(event["pid"] > 0 and event["tid"] > 0, f"a process and a thread from 1 (viewers take 0 for the idle one): {event}")
    need(event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0, f"no negative time: {event}")
    need(event.get("s", "g") == "g" and event.get("bp", "e") == "e", f"scope g, binding point e: {event}")
    if event["ph"] == "M":
        members = METADATA.get(event["name"])
        need(members is not None, f"a known kind of metadata: {event}")
        need(
            set(event["args"]) == set(members) and all(is_a(event["args"][n], k) for n, k in members.items()),
            f"the args of {event['name']}: {event}",
        )


def check_slices(trace):
    """Slices by thread in order of time: they may meet, not overlap, and lie within the steps."""
    threads = {}
    for event in trace.slices:
        start = nanoseconds(event["ts"])
        threads.setdefault((event["pid"], event["tid"]), []).append((start, start + nanoseconds(event["dur"]), event))
    steps = [span for spans in threads.values() for span in spans if span[2]["cat"] == "step"]
    need(steps, "a slice for every step")
    first, last = min(step[0] for step in steps), max(step[1] for step in steps)
    for key, spans in threads.items():
        need(key in trace.threads and key[0] in trace.processes, f"a name for process and thread {key}")
        spans.sort(key=lambda span: span[:2])
        for before, after in zip(spans, spans[1:]):
            need(before[1] <= after[0], f"slices of one thread do not overlap: {before[2]} and {after[2]}")
        for start, end, event in spans:
            need(first <= start and end <= last, f"within the run, {first} to {last} ns: {event}")
    return threads


def check_flows(trace, ends, threads):
    starts, stops = ends
    need(set(starts) == set(stops), f"both ends of every flow: {sorted(set(starts) ^ set(stops))[:5]}")
    wanted = {}
    for event in (*starts.values(), *stops.values()):
        wanted.setdefault((event["pid"], event["tid"]), []).append(event)
    for thread, events in wanted.items():
        spans = iter(threads.get(thread, []))
        span = next(spans, None)
        for event in sorted(events, key=lambda event: event["ts"]):
            at = nanoseconds(event["ts"])
            while span and span[1] <= at:
                span = next(spans, None)
            need(span and span[0] <= at, f"a slice around each end of a flow: {event}")
    for key, start in starts.items():
        need(start["ts"] <= stops[key]["ts"], f"flow {key} ends after it starts")
        trace.flows.append((start, stops[key]))


def check(document):
    """The whole document; SystemExit with one line where it is not as it should be."""
    need(isinstance(document, dict) and set(document) == {"traceEvents", "displayTimeUnit", "otherData"}, "the outer object")
    need(document["displayTimeUnit"] in ("ms", "ns"), "displayTimeUnit")
    trace, ends = Trace(), ({}, {})
    for event in document["traceEvents"]:
        check_members(event)
        if event["ph"] == "X":
            trace.slices.append(event)
        elif event["ph"] in "sf":
            side = ends[event["ph"] == "f"]
            need(event["id"] not in side, f"one end of each flow: {event}")
            side[event["id"]] = event
        elif event["name"] == "process_name":
            trace.processes[event["pid"]] = event["args"]["name"]
        elif event["name"] == "thread_name":
            trace.threads[event["pid"], event["tid"]] = event["args"]["name"]
    check_flows(trace, ends, check_slices(trace))
    return trace


def refuse(word):
    raise SystemExit(f"{word} is no JSON")


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            found = check(json.load(file, parse_constant=refuse))
        print(f"{path}: {len(found.slices)} slices, {len(found.flows)} flows, as the format wants them")
