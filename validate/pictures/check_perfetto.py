"""check_perfetto.py FOLDER TIMELINE: Perfetto's trace processor (in FOLDER) loads the timeline, and finds in it what lies there."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "report"))
import check_trace  # noqa: E402

folder, path = sys.argv[1:]
with open(path, encoding="utf-8") as file:
    document = json.load(file)
trace = check_trace.check(document)
QUERIES = {
    "what it could not read": "select name, value from stats where severity in ('error', 'data_loss') and value > 0",
    "slices": "select category, name, count(*), sum(dur) from slice where dur > 0 group by 1, 2 order by 1, 2",
    "depth": "select max(depth) from slice",
    "tracks": "select p.name, t.name from thread t join process p using (upid)"
    " where t.tid > 0 and t.name is not null order by 1, 2",
    "ranks among the idle": "select count(*) from thread t join process p using (upid) where utid = 0 and p.pid > 0",
    "flows": "select o.name, i.name, o.ts, i.ts + i.dur from flow f join slice o on f.slice_out = o.id"
    " join slice i on f.slice_in = i.id"
    " order by 3, 1, 4, 2",
    "bytes": "select sum(extract_arg(arg_set_id, 'args.bytes')) from slice where category = 'transfer'",
}
here = os.path.dirname(os.path.abspath(__file__))
ran = subprocess.run(
    ["node", os.path.join(here, "trace_processor.js"), folder, path, *QUERIES.values()], capture_output=True, text=True
)
if ran.returncode:
    raise SystemExit(f"the trace processor: {ran.stderr[-2000:]}")
found = dict(zip(QUERIES, map(json.loads, ran.stdout.splitlines())))


def nanoseconds(microseconds):
    return round(1000 * microseconds)


def expect(what, wanted):
    assert found[what] == wanted, f"{what}: {str(found[what])[:400]}, not {str(wanted)[:400]}"


sums = {}
for event in trace.slices:
    one = sums.setdefault((event["cat"], event["name"]), [0, 0])
    one[0] += event["dur"] > 0
    one[1] += nanoseconds(event["dur"])
inside = {}
for event in trace.slices:
    inside.setdefault((event["pid"], event["tid"]), []).append(event)


def around(end):
    at = nanoseconds(end["ts"])
    return next(
        event
        for event in inside[end["pid"], end["tid"]]
        if nanoseconds(event["ts"]) <= at < nanoseconds(event["ts"]) + nanoseconds(event["dur"])
    )


flows = [(around(start), around(end)) for start, end in trace.flows]
expect("what it could not read", [])
expect("slices", [[*key, *value] for key, value in sorted(sums.items()) if value[0]])
expect("depth", [[0]])
expect("tracks", sorted([trace.processes[pid], name] for (pid, _), name in trace.threads.items()))
expect("ranks among the idle", [[0]])
expect(
    "flows",
    sorted(
        ([o["name"], i["name"], nanoseconds(o["ts"]), nanoseconds(i["ts"]) + nanoseconds(i["dur"])] for o, i in flows),
        key=lambda flow: (flow[2], flow[0], flow[3], flow[1]),
    ),
)
expect("bytes", [[sum(event["args"]["bytes"] for event in trace.slices if event["cat"] == "transfer")]])
assert flows and all(o["args"]["channel"] == i["args"]["channel"] for o, i in flows)
print(f"Perfetto reads {sum(count for count, _ in sums.values())} slices and {len(flows)} flows")
