"""The gradients of a run, against PyTorch's autograd in float64 on the same weights and inputs.

usage: compare_torch.py DIRECTORY   (of a run with parameters='full', gradients='full', activations='full')

Two runs that share a wrong kernel agree with each other; this one shares no code with either. For each gradient g and its
float64 counterpart r the relative error ||g - r|| / ||r|| must be below 2e-5, and so for each activation and each gradient
of a layer's input. Exit code 77 where h5py or PyTorch are missing: the test counts as skipped.
"""
import math
import sys

try:
    import h5py
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

LIMIT = 2e-5


def layer(x, w, heads):
    """Pre-norm GPT layer: x [b, s, h] -> [b, s, h]."""
    def norm(t, name):
        return torch.nn.functional.layer_norm(t, t.shape[-1:], w[name + ".gain"], w[name + ".bias"], eps=1e-5)

    b, s, h = x.shape
    qkv = norm(x, "attention.norm") @ w["attention.qkv.weight"] + w["attention.qkv.bias"]
    q, k, v = (t.reshape(b, s, heads, h // heads).transpose(1, 2) for t in qkv.split(h, dim=-1))
    scores = (q @ k.transpose(-1, -2)) / math.sqrt(h // heads)
    scores = scores.masked_fill(torch.triu(torch.ones(s, s, dtype=torch.bool), 1), float("-inf"))
    mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, s, h)
    y = x + mixed @ w["attention.output.weight"] + w["attention.output.bias"]
    u = norm(y, "mlp.norm") @ w["mlp.up.weight"] + w["mlp.up.bias"]
    gelu = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
    return y + gelu @ w["mlp.down.weight"] + w["mlp.down.bias"]


def double(dataset):
    return torch.from_numpy(numpy.asarray(dataset[()], dtype=numpy.float64))


def error_of(ours, theirs):
    return float(torch.linalg.vector_norm(ours - theirs) / torch.linalg.vector_norm(theirs))


def main(directory):
    run = h5py.File(f"{directory}/run.h5", "r")
    heads = int(run.attrs["heads"])
    numbers = sorted(run["layers"])
    weights = []
    for number in numbers:
        group = run["layers"][number]["parameters"]
        weights.append({name: double(group[name]).requires_grad_() for name in group})
        assert len(weights[-1]) == 12, f"layer {number} has {len(weights[-1])} parameters"

    inputs = [double(run["inputs"][name]) for name in sorted(run["inputs"])]
    targets = [double(run["targets"][name]) for name in sorted(run["targets"])]
    elements = sum(t.numel() for t in targets)
    worst, compared = (0.0, "nothing"), 0

    def compare(name, ours, theirs):
        nonlocal worst, compared
        compared += 1
        worst = max(worst, (error_of(ours, theirs), name))

    for m, (x, target) in enumerate(zip(inputs, targets)):
        boundary = [x.requires_grad_()]
        for w in weights:
            boundary.append(layer(boundary[-1], w, heads))
            boundary[-1].retain_grad()
        (((boundary[-1] - target) ** 2).sum() / 2 / elements).backward()
        for i, number in enumerate(numbers):
            group = run["layers"][number]
            compare(f"layers/{number}/activations/{m:04d}", double(group["activations"][f"{m:04d}"]), boundary[i + 1].detach())
            compare(f"layers/{number}/activation_gradients/{m:04d}", double(group["activation_gradients"][f"{m:04d}"]), boundary[i].grad)
    for number, w in zip(numbers, weights):
        for name, parameter in w.items():
            compare(f"layers/{number}/gradients/{name}", double(run["layers"][number]["gradients"][name]), parameter.grad)

    expected = len(numbers) * (12 + 2 * len(inputs))
    print(f"compared {compared} of {expected} tensors with PyTorch {torch.__version__} in float64; "
          f"largest relative error {worst[0]:.3e} in {worst[1]}, allowed {LIMIT:.0e}")
    if compared != expected or not worst[0] < LIMIT:
        print("false: the gradients are those of autograd")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
