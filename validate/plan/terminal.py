"""terminal.py PROGRAM WORDS...: the picture is coloured on a terminal, plain with NO_COLOR, on a dumb one and in a pipe, and
the words and times are the same."""
import os
import pty
import re
import subprocess
import sys


def on_terminal(**more):
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"} | more
    process, terminal = pty.fork()
    if process == 0:
        os.execvpe(sys.argv[1], sys.argv[1:], environment)
    said = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # how Linux says that the other end is closed
            break
        if not block:
            break
        said += block
    assert os.waitpid(process, 0)[1] == 0, said
    return said.decode().replace("\r\n", "\n")


def picture(said):
    return said[said.index("\ntime  ") :]


coloured = on_terminal()
plain = subprocess.run(sys.argv[1:], capture_output=True, check=True, text=True).stdout
assert "\033[" in picture(coloured), coloured
assert "\033[" not in plain
assert on_terminal(NO_COLOR="1") == plain
assert on_terminal(TERM="dumb") == plain
assert "\033[" in on_terminal(NO_COLOR="")  # empty means not set

bare = re.sub(r"\033\[[0-9;]*m", "", picture(coloured))
shown = re.sub(r"[-.]", " ", picture(plain))
strip = lambda text: [line.rstrip() for line in text.splitlines()]
assert strip(bare) == strip(shown), bare + shown
# of two chunks each kind has two colours
colours = set(re.findall(r"48;5;(\d+)m([FB])\d+([ab])", coloured))
assert len(colours) == 4 and len({c for c, _, _ in colours}) == 4, colours
print("4 colours, 5 terminals")
