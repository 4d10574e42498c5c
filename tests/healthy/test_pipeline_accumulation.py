"""Gradients accumulated over several runs of a pipeline schedule in one step: torchtitan."""

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleInterleaved1F1B,
)

import ttrace_torch as tt

WIDTH, ROWS, LAYERS = 8, 3, 4
RUNS, CHUNKS = 2, 2


class Layers(nn.Module):
    """Some layers of the whole model."""

    def __init__(self, numbers):
        super().__init__()
        self.layers = nn.ModuleDict()
        for number in numbers:
            torch.manual_seed(number)
            self.layers[str(number)] = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())

    def forward(self, x):
        for layer in self.layers.values():
            x = layer(x)
        return x


def data_of(number):
    generator = torch.Generator().manual_seed(number)
    return tuple(torch.randn(2, ROWS, WIDTH, generator=generator))


def reference(folder, count):
    model = Layers(range(LAYERS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json"
    tracer = tt.trace(model, optimizer, out=folder / "reference.h5", specification=path)
    with tracer.step(0):
        for number in range(count):
            with tracer.microbatch(number):
                x, y = data_of(number)
                loss = tracer.loss((model(x) - y).square().mean(), labels=y)
                (loss / count).backward()
        optimizer.step()
    tracer.close()


def pipeline_rank(rank, folder, ranks, schedule_class, fault, arguments):
    mesh = init_device_mesh("cpu", (ranks // 2, 2), mesh_dim_names=("dp", "pp"))
    place, turn = mesh.get_local_rank("pp"), mesh.get_local_rank("dp")
    several = schedule_class is ScheduleInterleaved1F1B
    indices = (place, place + 2) if several else (place,)
    share = LAYERS // (2 * len(indices))
    modules, stages = [], []
    for index in indices:
        module = Layers(range(index * share, (index + 1) * share))
        if ranks > 2:
            fully_shard(module, mesh=mesh["dp"])
        modules.append(module)
        device, group = torch.device("cpu"), mesh.get_group("pp")
        stages.append(PipelineStage(module, index, 2 * len(indices), device, group=group))

    def loss_fn(output, target):
        # FSDP2 averages over its ranks.
        loss = tracer.loss((output - target).square().mean(), labels=target)
        return loss / (RUNS * CHUNKS)

    schedule = schedule_class(
        stages if several else stages[0], CHUNKS, loss_fn=loss_fn, scale_grads=False
    )
    optimizer = torch.optim.SGD([p for m in modules for p in m.parameters()], lr=0.1)
    tracer = tt.trace(schedule, optimizer, out=folder / "run", **arguments)
    interleaved = arguments.get("interleaved")
    with tracer.step(0):
        for run in range(RUNS):
            mine = [run * CHUNKS + chunk for chunk in range(CHUNKS)]
            every = ranks // 2
            numbers = [n * every + turn if interleaved else turn * RUNS * CHUNKS + n for n in mine]
            x, y = (torch.cat(parts) for parts in zip(*map(data_of, numbers), strict=True))
            if fault == "swapped" and run == 1:
                y = y.roll(ROWS, 0)
            given = [x] if place == 0 else []
            if run == 0 and ranks == 2:
                # FSDP2 loses gradients where an evaluation follows them.
                schedule.eval(*given, target=y)
            schedule.step(*given, target=y)
        if fault == "forgotten" and rank == 0:
            for parameter in modules[0].parameters():
                parameter.grad.mul_(0.5)
        optimizer.step()
    tracer.close()
    distributed.barrier()


CASES = {
    "pp": (2, Schedule1F1B, {}),
    "interleaved": (2, ScheduleInterleaved1F1B, {}),
    "dp-pp": (4, Schedule1F1B, {}),
    "dp-pp-in-turn": (4, Schedule1F1B, {"interleaved": True}),
}


def run_case(folder, case, fault=None):
    ranks, schedule, arguments = CASES[case]
    reference(folder, ranks // 2 * RUNS * CHUNKS)
    run_ranks(ranks, pipeline_rank, folder, ranks, schedule, fault, arguments)


@pytest.mark.parametrize("case", CASES)
def test_healthy_run_matches(tmp_path, case):
    run_case(tmp_path, case)
    answer = compared(tmp_path, "run")
    assert answer.code == 0, answer
    answer = audited(tmp_path, "run")
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize("fault", ["swapped", "forgotten"])
def test_fault_of_one_run_of_the_schedule_is_found(tmp_path, fault):
    run_case(tmp_path, "pp", fault)
    answer = compared(tmp_path, "run")
    assert answer.code == 1
    first = "scalar labels" if fault == "swapped" else "main_grad layers.0"
    assert answer.found[0].startswith(first), answer
    # Swapped rows of labels are no contradiction within the run.
    assert audited(tmp_path, "run").code == (0 if fault == "swapped" else 1)
