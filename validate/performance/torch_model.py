"""The layer of a Pipeleaf model as a PyTorch user would write it, with the weights, inputs and gradients of a run's files."""
import glob
import os

import h5py
import torch

# The name of a parameter in Pipeleaf's files, and in the module below.
NAMES = {"attention.norm.gain": "attention_norm.weight", "attention.norm.bias": "attention_norm.bias",
         "attention.qkv.weight": "qkv.weight", "attention.qkv.bias": "qkv.bias",
         "attention.output.weight": "output.weight", "attention.output.bias": "output.bias",
         "mlp.norm.gain": "mlp_norm.weight", "mlp.norm.bias": "mlp_norm.bias",
         "mlp.up.weight": "up.weight", "mlp.up.bias": "up.bias",
         "mlp.down.weight": "down.weight", "mlp.down.bias": "down.bias"}


class Layer(torch.nn.Module):
    """x [b, s, h] -> [b, s, h]: pre-norm, fused causal attention, GELU in its tanh form, biases everywhere."""

    def __init__(self, hidden, heads, ffn):
        super().__init__()
        self.heads = heads
        self.attention_norm = torch.nn.LayerNorm(hidden, eps=1e-5)
        self.qkv = torch.nn.Linear(hidden, 3 * hidden)
        self.output = torch.nn.Linear(hidden, hidden)
        self.mlp_norm = torch.nn.LayerNorm(hidden, eps=1e-5)
        self.up = torch.nn.Linear(hidden, ffn)
        self.down = torch.nn.Linear(ffn, hidden)

    def forward(self, x):
        b, s, h = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(b, s, 3, self.heads, h // self.heads)
        q, k, v = (t.transpose(1, 2) for t in qkv.unbind(2))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        y = x + self.output(mixed.transpose(1, 2).reshape(b, s, h))
        return y + self.down(torch.nn.functional.gelu(self.up(self.mlp_norm(y)), approximate="tanh"))


def as_module(name, tensor):
    """A file's parameter or gradient as the module has it: Linear keeps [out, in], the files [in, out]."""
    return tensor.t().contiguous() if tensor.dim() == 2 else tensor


def read(dataset):
    return torch.from_numpy(dataset[()])


class Run:
    """A run with parameters='full' and gradients='full', read from its directory."""

    def __init__(self, directory):
        # The rank files and not run.h5: external links are followed by a path that h5py's library may read otherwise.
        self.files = [h5py.File(path, "r") for path in sorted(glob.glob(os.path.join(directory, "rank*.h5")))]
        attributes = self.files[0].attrs
        self.layers, self.hidden, self.heads, self.ffn = (int(attributes[name]) for name in ("layers", "hidden", "heads", "ffn"))

    def group(self, path):
        for file in self.files:
            if path in file:
                return file[path]
        raise SystemExit(f"{self.files[0].filename} and its sisters have no {path}")

    def layer(self, number):
        layer = Layer(self.hidden, self.heads, self.ffn)
        group = self.group(f"layers/{number:04d}/parameters")
        with torch.no_grad():
            for name, ours in NAMES.items():
                layer.get_parameter(ours).copy_(as_module(name, read(group[name])))
        return layer

    def microbatches(self, kind):
        """kind: "inputs" or "targets"; [b, s, h] each."""
        group = self.group(kind)
        return [read(group[name]) for name in sorted(group)]

    def gradient_errors(self, number, layer):
        """||theirs - ours|| / ||ours|| of each parameter's gradient."""
        group = self.group(f"layers/{number:04d}/gradients")
        for name, theirs in NAMES.items():
            ours = as_module(name, read(group[name]))
            found = layer.get_parameter(theirs).grad
            yield float(torch.linalg.vector_norm(found - ours) / torch.linalg.vector_norm(ours)), f"layers/{number:04d}/{name}"


def worst_error(run, numbered_layers):
    """The largest of the gradients' errors and where it is; NaN counts as the largest."""
    errors = [error for number, layer in numbered_layers for error in run.gradient_errors(number, layer)]
    worst = max(errors, key=lambda error: (error[0] != error[0], error[0]))
    return {"compared": len(errors), "error": worst[0], "where": worst[1]}


def loss_of(elements):
    """Half the sum of squares over a microbatch, as a share of the step's mean over all `elements`."""
    return lambda out, target: 0.5 * torch.nn.functional.mse_loss(out, target, reduction="sum") / elements


def versions():
    text = torch.__config__.show()
    library = [line.strip(" -") for line in text.splitlines() if "Math Kernel Library" in line or "MKL-DNN" in line]
    return {"torch": torch.__version__, "libraries": library, "capability": torch.backends.cpu.get_cpu_capability()}
