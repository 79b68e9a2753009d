"""One rank of PyTorch's pipelining: the steps of a Pipeleaf run under ScheduleInterleaved1F1B over gloo, one thread a rank.

usage: torch_pipeline.py DIRECTORY CHUNKS_PER_RANK     RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT are in the environment
DIRECTORY: of a run with parameters and gradients 'full'. Answers a line once warm; then see torch_serve.py.
"""
import sys

import torch_serve

ANSWERS = torch_serve.claim_answers()  # before a library has printed anything

import torch  # noqa: E402
import torch_model  # noqa: E402
from torch import distributed  # noqa: E402
from torch.distributed.pipelining import PipelineStage, ScheduleInterleaved1F1B  # noqa: E402


def main(directory, chunks_per_rank):
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    run = torch_model.Run(directory)
    chunks = ranks * chunks_per_rank
    if run.layers % chunks:
        raise SystemExit(f"torch_pipeline.py: {run.layers} layers are not cut into {chunks} equal chunks")
    each = run.layers // chunks
    layers, stages = [], []
    for chunk in range(rank, chunks, ranks):
        own = [(number, run.layer(number)) for number in range(chunk * each, (chunk + 1) * each)]
        layers += own
        stages.append(PipelineStage(torch.nn.Sequential(*(layer for _, layer in own)), chunk, chunks, torch.device("cpu")))

    inputs, targets = run.microbatches("inputs"), run.microbatches("targets")
    schedule = ScheduleInterleaved1F1B(stages, len(inputs), loss_fn=torch_model.loss_of(sum(t.numel() for t in targets)),
                                       scale_grads=False)
    batch = torch.cat(inputs).requires_grad_() if rank == 0 else None
    target = torch.cat(targets) if rank == (chunks - 1) % ranks else None

    def begin():
        for _, layer in layers:
            layer.zero_grad(set_to_none=True)
        if batch is not None:
            batch.grad = None
        distributed.barrier()

    def step():
        schedule.step(*([] if batch is None else [batch]), **({} if target is None else {"target": target}))

    for _ in range(2):
        begin()
        step()
    torch_serve.serve(ANSWERS, {**torch_model.versions(), "threads": torch.get_num_threads(),
                                "gradients": torch_model.worst_error(run, layers)}, step, begin)
    distributed.destroy_process_group()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: torch_pipeline.py DIRECTORY CHUNKS_PER_RANK")
    main(sys.argv[1], int(sys.argv[2]))
