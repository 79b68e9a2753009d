"""read_json.py DIRECTORY: Python's json reads result.json and timeline.json, and they have the shape their readers expect."""
import json
import sys

import check_trace

directory = sys.argv[1]


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def load(name):
    with open(f"{directory}/{name}") as file:
        return json.load(file, parse_constant=refuse)


result = load("result.json")
assert result["format"] == "pipeleaf result" and result["run_id"] == "run-1" and result["verification"] == "NOT PERFORMED"
assert result["injected"] is None and result["exit_code"] == 0
assert result["figures"] == {"fom_tokens_per_second": 1234.5, "peak_flops_per_second": None}
assert result["step_seconds"] == [0.25, 0.125]
assert [loss["step"] for loss in result["loss"]] == [1, 2, 3]
assert float.fromhex(result["loss"][1]["hex"]) == result["loss"][1]["value"]
assert result["loss"][2]["value"] is None and "nan" in result["loss"][2]["hex"]
assert result["files"] == ["rank00000.h5", "rank00001.h5", "run.h5", "digest.txt", "listing.txt", "result.json"]
assert result["model"]["layers"] == 4 and "activations = 'full'" in result["deck"]

timeline = load("timeline.json")
trace = check_trace.check(timeline)
assert timeline["otherData"]["run_id"] == "run-1" and timeline["otherData"]["messages_without_flow"] == 1
labels = [event["args"]["labels"] for event in timeline["traceEvents"] if event["name"] == "process_labels"]
assert labels == ['node "1", host', "node2, host"]
compute = [event for event in trace.slices if event["cat"] == "compute"]
assert [event["name"] for event in compute] == ["F chunk 0 microbatch 0", "F chunk 0 microbatch 1", "B chunk 0 microbatch 0",
                                                "F chunk 1 microbatch 0", "B chunk 1 microbatch 0"]
assert compute[2]["ts"] == 2.5e6 and compute[2]["dur"] == 0.5e6 and trace.name(compute[2]) == ("rank 0", "compute")
assert compute[1]["args"] == {"step": 1, "kind": "F", "what": "forward", "chunk": 0, "microbatch": 1, "slot": 1, "waited": 0,
                              "planned": 0.5e6}
idle = [(*trace.name(event), event["name"], event["ts"] / 1e6, event["dur"] / 1e6, event["args"].get("for"))
        for event in trace.slices if event["cat"] == "idle"]
assert idle == [
    ("rank 0", "compute", "bubble", 1.0, 0.625, "B chunk 1 microbatch 0"),
    ("rank 0", "compute", "late input", 1.625, 0.375, "B chunk 1 microbatch 0"),
    ("rank 0", "compute", "other", 2.0, 0.25, None),
    ("rank 0", "compute", "message wait", 2.25, 0.25, "B chunk 1 microbatch 0"),
    ("rank 0", "compute", "other", 3.0, 0.25, None),
    ("rank 1", "compute", "bubble", 0.0, 0.5, "F chunk 0 microbatch 0"),
    ("rank 1", "compute", "message wait", 0.5, 0.25, "F chunk 0 microbatch 0"),
    ("rank 1", "compute", "bubble", 2.0, 0.75, None),
    ("rank 1", "compute", "late input", 2.75, 0.25, None),
    ("rank 1", "compute", "other", 3.0, 0.25, None)], idle
names = {trace.name(event)[1] for event in trace.slices}
assert names == {"steps", "compute", "send activations to rank 1", "receive activations from rank 0",
                 "send gradients to rank 0", "receive gradients from rank 1"}, names
assert [(trace.name(start), trace.name(end)) for start, end in trace.flows] == [
    (("rank 0", "send activations to rank 1"), ("rank 1", "receive activations from rank 0"))] * 2 + [
    (("rank 1", "send gradients to rank 0"), ("rank 0", "receive gradients from rank 1"))]
assert all(event["args"]["bytes"] == 64 for event in trace.slices if event["cat"] == "transfer")
print("json reads them")
