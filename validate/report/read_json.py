"""read_json.py DIRECTORY: Python's json reads result.json and timeline.json, and they have the shape their readers expect."""
import json
import sys

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
events = timeline["traceEvents"]
complete = [event for event in events if event["ph"] == "X"]
for event in complete:
    assert isinstance(event["pid"], int) and isinstance(event["tid"], int) and event["ts"] >= 0 and event["dur"] >= 0, event
compute = [event for event in complete if event["cat"] == "compute"]
assert [event["name"] for event in compute] == ["F chunk 0 microbatch 0", "F chunk 0 microbatch 1", "B chunk 0 microbatch 0",
                                                "F chunk 1 microbatch 0", "B chunk 1 microbatch 0"]
assert compute[2]["ts"] == 2.5e6 and compute[2]["dur"] == 0.5e6 and compute[2]["tid"] == 0
assert sorted((event["pid"], event["ts"], event["dur"]) for event in complete if event["cat"] == "wait") == [
    (0, 1.0e6, 1.5e6), (1, 0.0, 0.75e6)]

threads = {}
for event in complete:
    threads.setdefault((event["pid"], event["tid"]), []).append(event)
assert len(threads) == 6, "compute and two channel ends on each of two ranks"
named = {(event["pid"], event["tid"]): event["args"]["name"] for event in events if event["name"] == "thread_name"}
assert set(threads) <= set(named) and "send activations to rank 1" in named.values()
for thread, list_ in threads.items():
    list_.sort(key=lambda event: event["ts"])
    for before, after in zip(list_, list_[1:]):
        assert before["ts"] + before["dur"] <= after["ts"] + 0.002, f"events of thread {thread} overlap"

starts = {event["id"]: event for event in events if event["ph"] == "s"}
ends = {event["id"]: event for event in events if event["ph"] == "f"}
assert len(starts) == 3 and set(starts) == set(ends)
for key, start in starts.items():
    assert start["pid"] != ends[key]["pid"] and start["ts"] <= ends[key]["ts"] and ends[key]["bp"] == "e"
    for flow in (start, ends[key]):
        assert any(event["ts"] <= flow["ts"] <= event["ts"] + event["dur"] for event in threads[flow["pid"], flow["tid"]]), flow
print("json reads them")
