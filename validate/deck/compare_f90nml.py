"""Python's f90nml gives every deck, and the echo of every deck, the values that Pipeleaf gives it.

    compare_f90nml.py DUMP_DECK DECK...

Ends with 77, a skipped test, where f90nml is not installed."""
import os
import struct
import subprocess
import sys
import tempfile

try:
    import f90nml
except ImportError:
    print("skipped: %s has no f90nml (pip install f90nml; PIPELEAF_PYTHON names another Python)" % sys.executable)
    sys.exit(77)


def dump(*arguments):
    return subprocess.run([sys.argv[1], *arguments], check=True, capture_output=True, text=True).stdout


def lines_of(name, value):
    """The value as dump_deck writes it."""
    if isinstance(value, bool):
        return ["%s=%s" % (name, "T" if value else "F")]
    if isinstance(value, int) and name in REALS:  # a real without a point
        value = float(value)
    if isinstance(value, int) and name not in LISTS:
        return ["%s=%d" % (name, value)]
    if isinstance(value, float):
        return ["%s=%s" % (name, struct.pack(">d", value).hex().upper())]
    if isinstance(value, str):
        return ["%s=[%s]" % (name, value.rstrip(" "))]
    values = value if isinstance(value, list) else [value]
    return ["%s(%d)=%d" % (name, i + 1, v) for i, v in enumerate(values)]


DEFAULTS = [line.partition("=") for line in dump("--defaults").splitlines()]
REALS = {name for name, _, value in DEFAULTS if len(value) == 16 and set(value) <= set("0123456789ABCDEF")}
LISTS = {"pipeline.layers_per_chunk"}  # the defaults do not show it, being empty


def read_with_f90nml(path):
    given = {}
    for group, parameters in f90nml.read(path).items():
        for name, value in parameters.items():
            given["%s.%s" % (group, name)] = lines_of("%s.%s" % (group, name), value)
    lines = []
    for name, _, value in DEFAULTS:
        lines += given.pop(name, ["%s=%s" % (name, value)])
    for name in list(given):
        lines += given.pop(name) if name in LISTS else []
    return sorted(lines)


compared = differ = 0
for deck in sys.argv[2:]:
    ours = sorted(dump(deck).splitlines())
    with tempfile.TemporaryDirectory() as folder:
        echo = os.path.join(folder, "echo.nml")
        with open(echo, "w") as file:
            file.write(dump("--echo", deck))
        for path in (deck, echo):
            theirs = read_with_f90nml(path)
            compared += 1
            if ours != theirs:
                differ += 1
                print("%s: only Pipeleaf: %s; only f90nml: %s" % (
                    deck if path == deck else "the echo of " + deck,
                    sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))))
print("%d texts compared, %d differ" % (compared, differ))
sys.exit(compared == 0 or differ > 0)
