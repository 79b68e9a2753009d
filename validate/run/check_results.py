"""check_results.py SCHEMA DIRECTORY...: result.json (and reference.json) follow the schema, which refuses what strays from it;
metrics.txt and nodecheck.txt are read as the OLCF test harness reads them, and say what result.json says. Exits 77 without
python3-jsonschema."""
import copy
import json
import pathlib
import re
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: no python3-jsonschema")
    sys.exit(77)

NUMERIC = re.compile(r"^[-]?([0-9]*\.)?[0-9]+([eE]{1}[+-]?[0-9]+)?$")  # what the harness takes for a number
STATUSES = {"PASS", "FAIL", "HW-FAIL", "PERF-FAIL"}


def refuse(word):
    raise ValueError(f"{word} is no JSON")


def objects_in(value):
    """Every object in a document, itself first."""
    if isinstance(value, dict):
        yield value
    for below in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects_in(below)


def broken_ones(document):
    """The document with each member of each object left out, or of a wrong type, and with one too many in each object."""
    for number, original in enumerate(list(objects_in(document))):
        for key in [*original, None]:
            for change in ("left out", "of a wrong type") if key else ("too many",):
                broken = copy.deepcopy(document)
                target = list(objects_in(broken))[number]
                if key is None:
                    target["surplus"] = 1
                elif change == "left out":
                    del target[key]
                else:
                    target[key] = [{"no": "such"}]
                yield f"{key or 'a member'} {change} in {list(original)[:3]}", broken


def check_schema(validator, path):
    document = json.loads(path.read_text(), parse_constant=refuse)
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    assert error is None, f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
    count = 0
    for what, broken in broken_ones(document):
        assert not validator.is_valid(broken), f"{path}: the schema lets pass: {what}"
        count += 1
    return document, count


def read_metrics(path):
    metrics = {}
    for line in path.read_text().splitlines():
        if line.startswith("#"):
            continue
        parts = line.split("=")
        assert len(parts) == 2 and parts[0].strip() == parts[0] and " " not in line and parts[1], line
        metrics[parts[0]] = float(parts[1]) if NUMERIC.match(parts[1]) else parts[1]
    return metrics


def read_nodes(path):
    nodes = {}
    for line in path.read_text().splitlines():
        name, status, message = line.split(" ", 2)
        assert status in STATUSES and name not in nodes and message and '"' not in message, line
        nodes[name] = status
    return nodes


def check_harness_files(directory, result):
    metrics, nodes = read_metrics(directory / "metrics.txt"), read_nodes(directory / "nodecheck.txt")
    assert metrics.pop("verification") == result["verification"].replace(" ", "_"), metrics
    assert metrics.pop("exit_code") == result["exit_code"], metrics
    assert metrics == {name: value for name, value in result["figures"].items() if value is not None}, (metrics, result["figures"])
    if result["kind"] == "pipelines":
        assert set(nodes) == {place["host"] for pipeline in result["pipelines"] for place in pipeline["places"]}, nodes
    if result["verification"] != "SUCCESSFUL":
        assert "PASS" not in nodes.values() or result["kind"] == "pipelines", nodes
        assert set(nodes.values()) & {"FAIL", "HW-FAIL"}, nodes
    for file in ("metrics.txt", "nodecheck.txt"):
        assert file in result["files"], file
    bubble = result["figures"].get("bubble_of_step")
    assert bubble is None or 0 <= bubble < 1, f"a step's idle share of it is {bubble}"
    share = result["figures"].get("share_of_fma_peak")
    assert share is None or 0 < share < 1.5, f"a step's share of the FMA peak is {share}"


def main(schema_path, *directories):
    schema = json.loads(pathlib.Path(schema_path).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    files = refused = 0
    for directory in map(pathlib.Path, directories):
        for name in ("result.json", "reference.json"):
            if not (directory / name).exists():
                continue
            result, count = check_schema(validator, directory / name)
            files, refused = files + 1, refused + count
            if name == "result.json":
                check_harness_files(directory, result)
            print(f"{directory.name}/{name}: kind {result['kind']}, {result['verification']}, exit code {result['exit_code']}")
    assert files >= len(directories), "a directory without a result"
    print(f"{files} results follow the schema, and {refused} broken ones are refused")


main(*sys.argv[1:])
