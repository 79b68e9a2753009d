"""The portable matrix product beside the CBLAS libraries at hand, on one thread, at a layer's shapes and hard ones.

usage: benchmark_cblas.py BUILD SOURCE LAUNCH [--rounds N] [--hidden LEAST-MOST] [--tokens N] [--library PATH] [--json FILE]

Libraries: MKL and OpenBLAS from PyPI, into an environment under BUILD; libopenblas, libblis and MKL of the system where they
are installed; and those of --library. Each runs with the kernels that suit it best here: an OpenBLAS that does not know a new
processor takes those of an old one, so each of its sets is tried and the fastest kept. No library is linked to the program.
"""
import ctypes.util
import glob
import os
import subprocess
import tempfile

import figures
import packages
import runs

# Every library is to use one thread, whatever the environment said.
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "BLIS_NUM_THREADS": "1",
              "MKL_THREADING_LAYER": "SEQUENTIAL"}
OPENBLAS_CORES = ["", "SkylakeX", "Haswell", "Zen"]  # "": the library's own choice


def libraries(options):
    """Paths, each once: what --library names, what PyPI has, what the system has."""
    python = packages.environment(options.build, "cblas-environment", ["numpy", "mkl"])
    folder = os.path.dirname(os.path.dirname(python))
    found = list(options.library)
    found += sorted(glob.glob(f"{folder}/lib/libmkl_rt.so.*"))
    found += sorted(glob.glob(f"{folder}/lib/python*/site-packages/numpy.libs/*openblas*.so*"))
    found += [name for name in (ctypes.util.find_library(word) for word in ("openblas", "blis", "mkl_rt")) if name]
    return list(dict.fromkeys(found))


def environment():
    """That of the measured process: without settings of a library that were made for others' sake."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENBLAS_", "MKL_", "BLIS_"))}
    return {**kept, **ONE_THREAD}


def measure(options, words, json_path, quiet):
    command = [f"{options.build}/validate/performance/benchmark_cblas", *words, "--json", json_path]
    done = subprocess.run(command, stdout=subprocess.PIPE if quiet else None, stderr=subprocess.PIPE if quiet else None,
                          text=True, env=environment(), check=False)
    if done.returncode:
        return None
    return runs.load(json_path)


def best_setting(options, path, json_path):
    """'NAME=VALUE PATH' with which the library is fastest at hidden 1024, or None where it cannot be used."""
    best, rate = None, 0.0
    for core in OPENBLAS_CORES if "openblas" in os.path.basename(path) else [""]:
        setting = f"OPENBLAS_CORETYPE={core} {path}" if core else path
        found = measure(options, ["--rounds", "3", "--hidden", "512-512", "--library", setting], json_path, True)
        if found is None:
            continue
        rates = sorted(result["libraries_flops_per_second"][0] for result in found["results"])
        middle = rates[len(rates) // 2]
        print(f"  {found['libraries'][0]}{f', set to {core}' if core else ''}: {middle / 1e9:.1f} GFLOP/s at hidden 512", flush=True)
        if middle > 1.02 * rate:  # of two settings that choose the same kernels the plainer is kept
            best, rate = setting, middle
    if best is None:
        print(f"  {path} cannot be used here", flush=True)
    return best


def main():
    parser = runs.command_line(__doc__, rounds=7)
    parser.add_argument("--hidden", default="0-65536", help="least and most hidden size of the layers; other shapes only with all")
    parser.add_argument("--tokens", default="512", help="rows of a layer's activations")
    parser.add_argument("--library", action="append", default=[], help="a CBLAS library beside those found; may be repeated")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pipeleaf-cblas-") as directory:
        json_path = f"{directory}/cblas.json"
        print("libraries at hand, and their rates with the settings tried:", flush=True)
        settings = [setting for setting in (best_setting(options, path, json_path) for path in libraries(options)) if setting]
        if not settings:
            packages.skip("no CBLAS library can be used here")
        words = ["--rounds", str(options.rounds), "--hidden", options.hidden, "--tokens", options.tokens]
        for setting in settings:
            words += ["--library", setting]
        found = measure(options, words, json_path, False)
        if found is None:
            raise SystemExit("benchmark_cblas failed: see above")
    rows = [figures.figure("cblas.ratio", f"product over best CBLAS, one thread, {what}", [
        result["ratio"] for result in found["results"] if result["of_layer"] or not layer])
        for what, layer in (("the layer's shapes", True), ("all shapes", False))]
    figures.print_figures(rows)
    print("min and max are those of the shapes")
    runs.write_json(options.json, "cblas", {"figures": rows, "settings": [os.path.basename(s) for s in settings],
                                            "libraries": found["libraries"], "results": found["results"]})


if __name__ == "__main__":
    main()
