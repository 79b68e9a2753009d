"""The parts of the benchmark: how each is called, and how its JSON is read as figures.

A part is a program that prints a table and, with --json FILE, writes what it measured. Most write a list of `figures` (figures.py);
the others' rows are translated here."""
import collections
import re
import sys

import figures
import processor
import runs

# command: options -> words, to which --json FILE is added. read: the JSON -> figures. needs: a processor's flag, or None.
Part = collections.namedtuple("Part", "what minutes command read environment needs")
C_ROUNDS = 7  # of the programs: ROUNDS in benchmark.h and benchmark_output.c
LARGE = 1 << 29  # fused multiply-adds of a large product: from a layer's smallest weights at hidden 1024 over 512 tokens


def program(name, *words):
    return lambda options: [f"{options.build}/validate/performance/{name}", *words]


def script(name, *words):
    def command(options):
        rounds = ["--rounds", str(options.rounds)] if options.rounds else []
        return [sys.executable, f"{runs.HERE}/{name}", options.build, options.source, options.launch, *rounds, *words]
    return command


def as_written(found):
    return found["figures"]


def share(key, result):
    """The share of the peak of one line of a C benchmark."""
    threads = result["threads"]
    return {"key": key, "name": f"{result['what']}, {result['variant']}, {threads} thread{'s' * (threads > 1)}", "rounds": C_ROUNDS,
            "median": result["share_of_peak"], "min": result["least_share"], "max": result["greatest_share"]}


def of_gemm(found):
    """Of the large products of each form and number of threads the one with the smallest share."""
    worst = {}
    for result in found["results"]:
        m, n, k, form = re.fullmatch(r"m=(\d+) n=(\d+) k=(\d+) (\S+)", result["what"]).groups()
        if int(m) * int(n) * int(k) < LARGE or min(int(m), int(n), int(k)) < 256:
            continue
        kind = result["variant"], result["threads"], form
        if kind not in worst or result["share_of_peak"] < worst[kind]["share_of_peak"]:
            worst[kind] = result
    return [{**(one := share("gemm.share", result)), "name": f"product, least share: {one['name']}"} for result in worst.values()]


def of_attention(found):
    return [{**(one := share("attention.share", result)), "name": f"attention, {one['name']}"} for result in found["results"]
            if result["what"].startswith("s=4096 heads=1 of 64 ")]


def of_rows(found):
    return [share("rows.share", result) for result in found["results"]]


def of_tensors(found):
    spread = {"median": found["of_write_median"], "min": found["of_write_min"], "max": found["of_write_max"], "rounds": C_ROUNDS}
    return [figures.of_spread("output.rate", f"tensors through HDF5, {found['mebibytes']} MiB, rate over a plain write's", spread)]


def of_output(found):
    rows = []
    if found["recorded"]:
        rows.append(figures.of_spread("output.rate", "recorded step's files, rate over a plain write's", found["recorded"]["of_plain"]))
        rows.append(figures.of_spread("output.bare", "recorded step's output, share of its own writing calls", found["recorded"]["bare"]))
    rows.append(figures.of_spread("output.digests", "timed step with digests over one without, less 1",
                                  found["digests"]["step_over_step_without"], less=1))
    return rows


def of_pipeline(found):
    rows = [figures.of_spread("pipeline.bubble", f"bubble less closed form, {row['schedule']} v={row['chunks_per_rank']} "
                              f"m={row['microbatches']}", row["measured"], less=row["closed_form"]) for row in found["bubbles"]]
    rows += [figures.of_spread("pipeline.speed", f"1f1b over interleaved v={row['chunks_per_rank']} m={row['microbatches']}, "
                               "over the formula, less 1", row["measured"], over=row["formula"], less=1) for row in found["speeds"]]
    return rows


def of_network(found):
    rows = [figures.of_spread("network.step", f"step over simulated, {row['mbit']} Mbit/s, messages {row['aimed_share']} of compute, "
                              f"group {row['group']}", row["over_simulated"]) for row in found["steps"] if row["overlap"]]
    for row in found["gains"]:
        where = f"{row['mbit']} Mbit/s, {row['aimed_share']}"
        rows.append(figures.of_spread("network.gain", f"overlap off over on, {where}, group p", row["off_over_on_group_p"]))
        rows.append(figures.of_spread("network.gain", f"overlap off over on, {where}, group 2p", row["off_over_on_group_2p"]))
        rows.append(figures.of_spread("network.gain", f"group p over 2p, {where}", row["group_p_over_2p"]))
        rows.append(figures.of_spread("network.compute", f"compute with overlap over without, {where}, group p", row["compute_group_p"]))
        rows.append(figures.of_spread("network.compute", f"compute with overlap over without, {where}, group 2p", row["compute_group_2p"]))
    return rows


def of_memory(found):
    rows = [figures.of_spread("memory.growth", f"resident over planned growth, less 1, {row['mostly']}, {row['schedule']} "
                              f"v={row['chunks_per_rank']}", row["of_planned_growth"], less=1) for row in found["growth"]]
    for row in found["constant"]:
        if row["target_met"] is not None:  # gpipe's grows with m, as it must
            steady = max(row["resident_bytes"]) / min(row["resident_bytes"]) - 1
            rows.append(figures.figure("memory.constant", f"resident, most over least m, less 1, {row['schedule']} "
                                       f"v={row['chunks_per_rank']}", [steady]))
    rows += [figures.figure("memory.allocations", f"steps on end without allocation, of {row['steps']}, rank {row['rank']}",
                            [row["stretch"] / row["steps"]]) for row in found["allocations"] or []]
    return rows


AVX2 = {"PIPELEAF_INSTRUCTION_SET": "avx2"}
PARTS = {
    "gemm": Part("matrix products, share of the FMA peak", 5, program("benchmark_gemm"), of_gemm, {}, None),
    "gemm-avx2": Part("the same with AVX2 forced", 3, program("benchmark_gemm", "--threads", "1"), of_gemm, AVX2, "avx512f"),
    "cblas": Part("matrix products beside CBLAS libraries", 5, script("benchmark_cblas.py"), as_written, {}, None),
    "attention": Part("attention, share of the FMA peak", 1, program("benchmark_attention"), of_attention, {}, None),
    "attention-avx2": Part("the same with AVX2 forced", 1, program("benchmark_attention", "--threads", "1"), of_attention, AVX2,
                           "avx512f"),
    "rows": Part("kernels of rows, columns and elements, share of the memory rate", 1, program("benchmark_rows"), of_rows, {}, None),
    "steps": Part("whole steps at p=1, share of the FMA peak; two threads; the reference", 5, script("benchmark_steps.py"),
                  as_written, {}, None),
    "torch": Part("a step beside PyTorch's", 20, script("benchmark_torch.py"), as_written, {}, None),
    "torch-pipeline": Part("the interleaved pipeline beside PyTorch's", 5, script("benchmark_torch_pipeline.py"), as_written, {}, None),
    "pipeline": Part("bubbles and speeds against theory", 10, script("benchmark_pipeline.py"), of_pipeline, {}, None),
    "network": Part("communication hidden over a slow network", 15, script("benchmark_network.py"), of_network, {}, None),
    "memory": Part("memory planned and seen; allocations of a step", 5, script("benchmark_memory.py"), of_memory, {}, None),
    "files": Part("tensors to disk", 1, lambda options: [f"{options.build}/validate/performance/benchmark_output", options.build, "512"],
                  of_tensors, {}, None),
    "output": Part("the recorded step's output; digests", 5, script("benchmark_output.py"), of_output, {}, None),
    "recheck": Part("a recheck beside a step", 3, script("benchmark_recheck.py"), as_written, {}, None),
    "startup": Part("first step, commands, refusals", 2, script("benchmark_startup.py"), as_written, {}, None),
}


def runs_here(part):
    return part.needs is None or processor.has(part.needs)
