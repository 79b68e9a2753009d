"""One process of PyTorch: the steps of a Pipeleaf run, forward and backward, gradients accumulated over its microbatches.

usage: torch_step.py DIRECTORY THREADS eager|compiled     DIRECTORY: of a run with parameters and gradients 'full'
Answers a line once warm: versions, and how far its gradients are from the run's. Then see torch_serve.py.
"""
import sys
import time

import torch_serve

ANSWERS = torch_serve.claim_answers()  # before a library has printed anything

import torch  # noqa: E402
import torch_model  # noqa: E402


def main(directory, threads, mode):
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    run = torch_model.Run(directory)
    layers = [run.layer(number) for number in range(run.layers)]
    inputs, targets = run.microbatches("inputs"), run.microbatches("targets")
    loss_of = torch_model.loss_of(sum(t.numel() for t in targets))
    parameters = [p for layer in layers for p in layer.parameters()]
    for x in inputs:  # the first layer's input has a gradient too, as where an embedding precedes it
        x.requires_grad_()

    def step():
        for p in parameters + inputs:
            p.grad = None
        for x, target in zip(inputs, targets):
            for layer in layers:
                x = layer(x)
            loss_of(x, target).backward()

    begin = time.perf_counter()
    if mode == "compiled":
        for layer in layers:
            layer.compile()
    step()
    first = time.perf_counter() - begin
    step()
    torch_serve.serve(ANSWERS, {**torch_model.versions(), "threads": torch.get_num_threads(), "first_step_seconds": first,
                                "gradients": torch_model.worst_error(run, enumerate(layers))}, step)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in ("eager", "compiled"):
        raise SystemExit("usage: torch_step.py DIRECTORY THREADS eager|compiled")
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])
