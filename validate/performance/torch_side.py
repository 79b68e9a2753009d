"""Both sides of a comparison with PyTorch, as its benchmarks start and call them in turn."""
import json
import os
import selectors
import shlex
import subprocess
import tempfile

import packages
import runs

MOST_ERROR = 1e-4  # of a gradient, relative to its norm: further apart the two sides have not done the same work
PACKAGES = ["torch", "numpy", "h5py"]


def python(options):
    """The Python that has PyTorch."""
    return packages.environment(options.build, "torch-environment", PACKAGES)


def environment(threads):
    """That of both sides: the threads, and OpenMP's own way to wait, since no side has more threads than it has cores."""
    kept = {name: value for name, value in os.environ.items()
            if name != "OMP_WAIT_POLICY" and not name.startswith(("MKL_", "KMP_", "OPENBLAS_"))}
    return {**kept, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore", "TORCHINDUCTOR_COMPILE_THREADS": "1"}


def their_environment(threads):
    """PyTorch's: memory that it gave back is kept for its next step, and may lie in large pages, as its users' tuning guides have it."""
    return {**environment(threads), "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_TOP_PAD_": str(1 << 28),
            "THP_MEM_ALLOC_ENABLE": "1"}


def ours(options, ranks, threads, deck, directory):
    """One `pipeleaf run`; its result.json. A rank has a core of its own where it has one thread."""
    words = [f"{options.build}/pipeleaf", "run", f"{options.source}/input/tiny.nml", f"pipeline.ranks={ranks}",
             f"run.threads={threads}", "run.device=host", "verify.against=none", f"output.directory={directory}",
             *runs.deck_words(deck)]
    if ranks > 1:
        words = runs.own_core(words)
    runs.call(shlex.split(options.launch) + [str(ranks)] + words, env=environment(threads))
    return runs.load(f"{directory}/result.json")


def write_data(options, ranks, deck, directory):
    """The run whose weights, inputs, targets and gradients PyTorch reads."""
    ours(options, ranks, 1, {**deck, "run.steps": 1, "run.warmup_steps": 0, "output.parameters": "full",
                             "output.gradients": "full", "output.activations": "none"}, directory)


def our_seconds(options, ranks, threads, deck, directory):
    """Median seconds of the timed steps of a run that writes and digests nothing."""
    deck = {**deck, "run.steps": options.steps, "run.warmup_steps": 1, "output.parameters": "none", "output.gradients": "none",
            "output.activations": "none", "output.timeline": ".false."}
    return ours(options, ranks, threads, deck, directory)["figures"]["median_step_seconds"]


class Process:
    """A PyTorch process that waits for orders between its turns: it is warm whenever it is measured."""

    def __init__(self, words, env):
        self.errors = tempfile.TemporaryFile(mode="w+", encoding="utf-8")
        self.process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, bufsize=1)

    def order(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()

    def answer(self, limit=None):
        """The next line's object, or None where it did not come within `limit` seconds."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(limit):
                return None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"PyTorch's process ended with exit {self.process.wait()}:\n{self.said()[-3000:]}")
        return json.loads(line)

    def said(self):
        self.errors.seek(0)
        return self.errors.read()

    def end(self, now=False):
        if now:
            self.process.kill()
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def check_gradients(first, what):
    """One line about the gradients; the benchmark ends where they differ: a time would mean nothing."""
    found = first["gradients"]
    print(f"{what}: {found['compared']} gradients, largest relative difference {found['error']:.1e} in {found['where']}", flush=True)
    if not found["error"] <= MOST_ERROR:
        raise SystemExit(f"{what}: the gradients differ by more than {MOST_ERROR:.0e}: the two sides have not done the same work")


def versions_text(first):
    return f"PyTorch {first['torch']}; {'; '.join(first['libraries'])}; kernels for {first['capability']}"
