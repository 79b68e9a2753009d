"""progress.py PROGRAM FOLDER: what a run of one rank and a reference say on standard error while they run, on a terminal and in
a pipe; and that nobody who does not read holds them up."""
import fcntl
import os
import pty
import re
import subprocess
import sys

PROGRAM, FOLDER = sys.argv[1:]
RUN = ["run", "input/tiny.nml", "pipeline.ranks=1", "run.threads=1", "verify.against=none", "output.activations=digest", f"output.directory={FOLDER}/one"]
REFERENCE = ["reference", "input/tiny.nml", "verify.steps=all", "run.threads=1", f"output.directory={FOLDER}/one"]
STEP = r"step (\d+) of (\d+), \d+\.\d{4} s a step, \d\.\d{3}E[+-]\d\d tokens/s, \d+:\d\d left"
LAYER = r"step (\d+) \(\d+ of \d+\), (?:forward|backward), layer \d+ of 8, microbatch \d+ of 8, \d+:\d\d left"


def on_terminal(words):
    """Standard error of the command when that is a terminal; its listing goes to a pipe, so that only progress is seen."""
    terminal, end = pty.openpty()
    process = subprocess.Popen([PROGRAM, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    said = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not block:
            break
        said += block
    os.close(terminal)
    assert process.wait() == 0, said
    return said.decode()


def in_log(words):
    """Standard error of the command when that is a pipe, by lines."""
    done = subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    assert "pipeleaf: step" not in done.stdout, done.stdout
    return done.stderr.splitlines()


def check_terminal(words, form):
    """One line, written over again, of one width, gone at the end."""
    said = on_terminal(words)
    assert "\n" not in said, said
    parts = said.split("\r")
    assert parts[-1] == "" and parts[-2].strip() == "" and len(parts) > 3, parts
    shown = parts[:-2] if form == STEP else [part for part in parts if part.strip()]
    for part in shown:
        assert re.fullmatch(form, part.rstrip()) and len(part) <= 79, part
    screen = ""
    for part in parts:  # what a terminal shows
        screen = part + screen[len(part):]
    assert screen.strip() == "", screen
    return len(shown)


def check_log(words, form, least, most):
    """So many whole lines, each of the form."""
    lines = in_log(words)
    for line in lines:
        assert re.fullmatch("pipeleaf: " + form, line), line
    assert least <= len(lines) <= most, (len(lines), lines[:3])
    return len(lines)


def not_read():
    """A full pipe, which nobody reads, loses lines and stops nothing."""
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)  # room for one line, then for none: what is left must hold any line
    process = subprocess.Popen([PROGRAM, *RUN, "run.steps=60", "run.progress=1e-9"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writing)
    os.close(writing)
    try:
        code = process.wait(60)
    finally:
        process.kill()  # where it stands still, waiting for a reader
    said = b""
    while block := os.read(reading, 65536):
        said += block
    os.close(reading)
    assert code == 0, said
    return said.count(b"\n")


seen = [check_terminal([*RUN, "run.steps=40", "run.progress=0.001"], STEP), check_terminal([*REFERENCE, "run.progress=0.001"], LAYER),
    check_log([*RUN, "run.steps=10", "run.progress=1e-9"], STEP, 11, 11), check_log([*REFERENCE, "run.steps=1", "run.progress=1e-9"], LAYER, 384, 384),
    check_log([*RUN, "run.progress=0"], STEP, 0, 0), check_log(RUN, STEP, 0, 0)]
lost = 61 - not_read()
assert lost > 0, lost
for words in RUN, REFERENCE:
    assert on_terminal([*words, "run.quiet=t", "run.progress=0.001"]) == ""
print(f"seen: on a terminal {seen[0]} and {seen[1]} times, in a log {seen[2]} and {seen[3]} lines; {lost} lines not read were lost")
