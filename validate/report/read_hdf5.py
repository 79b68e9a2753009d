"""read_hdf5.py DIRECTORY: h5py reads what a run and a reference wrote, as the design says it lies there."""
import sys

import h5py
import numpy

directory = sys.argv[1]
LAYERS, HIDDEN, FFN, MICROBATCHES = 4, 8, 16, 4
EXTENTS = {
    "attention.norm.gain": (HIDDEN,), "attention.norm.bias": (HIDDEN,),
    "attention.qkv.weight": (HIDDEN, 3 * HIDDEN), "attention.qkv.bias": (3 * HIDDEN,),
    "attention.output.weight": (HIDDEN, HIDDEN), "attention.output.bias": (HIDDEN,),
    "mlp.norm.gain": (HIDDEN,), "mlp.norm.bias": (HIDDEN,),
    "mlp.up.weight": (HIDDEN, FFN), "mlp.up.bias": (FFN,),
    "mlp.down.weight": (FFN, HIDDEN), "mlp.down.bias": (HIDDEN,),
}

with h5py.File(f"{directory}/rank00001.h5") as file:
    attributes = file.attrs
    assert attributes["format"] == "pipeleaf" and attributes["format_version"] == 1
    assert attributes["version"].count(".") == 2 and attributes["commit"]
    assert attributes["kind"] == "run" and attributes["run_id"] == "run-1"
    assert attributes["ranks"] == 2 and attributes["rank"] == 1 and attributes["recorded_step"] == 3
    assert attributes["hidden"] == HIDDEN and attributes["microbatches"] == MICROBATCHES and attributes["seed"] == 7
    assert list(attributes["rank_of_layer"]) == [0, 1, 0, 1]
    for name in ("identity", "deck", "deck_sha256", "host", "device", "device_uuid", "cpus", "compiler", "libraries"):
        assert isinstance(attributes[name], str), name
    assert sorted(file["layers"]) == ["0001", "0003"]

    actions, steps = file["timings/actions"][:], file["timings/steps"][:]
    assert actions.dtype.names == ("step", "kind", "chunk", "microbatch", "start", "end", "waited")
    assert h5py.check_enum_dtype(file["timings/actions"].dtype["kind"]) == {"F": 0, "B": 1, "I": 2, "W": 3}
    assert list(actions["kind"]) == [0, 1, 2, 3] and list(actions["end"]) == [10.5, 11.5, 12.5, 13.0]
    assert steps.dtype.names == ("step", "timed", "start", "seconds", "busy", "idle", "exposed", "loss")
    planned, clock, memory = file["timings/planned"][:], file["timings/clock"][:], file["memory"][:]
    assert planned.dtype.names == ("kind", "chunk", "microbatch", "slot", "start", "end")
    assert planned.tolist() == [(0, 1, 3, 0, 0.0, 0.5), (3, 1, 3, 2, 0.5, 1.25)]
    assert clock.dtype.names == ("at", "to_rank_0") and clock.tolist() == [(9.0, -0.25), (13.0, 0.5)]
    assert memory.dtype.names == ("weights", "operands", "gradients", "slots", "work", "buffers", "digests", "planned", "held",
                                  "slot_bytes", "slot_count")
    assert memory.tolist() == [(1, 2, 3, 4, 5, 6, 7, 28, 2**40 + 1, 2, 3)]
    assert list(steps["loss"]) == [0.75, 0.5] and list(steps["exposed"]) == [0.125, 0.0]

with h5py.File(f"{directory}/run.h5") as run, h5py.File(f"{directory}/reference.h5") as reference:
    for layer in range(LAYERS):
        group = run[f"layers/{layer:04d}"]
        assert {name: set_.shape for name, set_ in group["gradients"].items()} == EXTENTS
        assert sorted(group["activations"]) == [f"{i:04d}" for i in range(MICROBATCHES)]
        for name in ("activations/0003", "activation_gradients/0000", "gradients/mlp.up.weight", "parameters/mlp.up.bias"):
            ours, theirs = group[name], reference[f"layers/{layer:04d}/{name}"]
            assert ours.dtype == numpy.dtype("<f4") and ours.chunks is None and ours.id.get_offset(), name
            assert numpy.array_equal(ours[:], theirs[:]), name
    assert run["layers/0002/activations/0000"].shape == (2, 3, HIDDEN)
print("h5py reads them")
