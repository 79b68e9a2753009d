"""How a PyTorch process that waits for orders answers: a line of JSON for each line it is sent."""
import json
import os
import statistics
import sys
import time


def claim_answers():
    """The stream for answers: standard output as it was, which from now on gets nothing that a library prints."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def serve(answers, first, step, begin=lambda: None):
    """Answers `first`; then, for each line "N", makes one step to be warm and N timed ones, and answers their median seconds.

    begin: what is done before each step's clock starts. Ends at the end of standard input."""
    answers.write(json.dumps(first) + "\n")
    for line in sys.stdin:
        seconds = []
        for _ in range(1 + int(line)):
            begin()
            start = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - start)
        answers.write(json.dumps({"seconds": statistics.median(seconds[1:])}) + "\n")
