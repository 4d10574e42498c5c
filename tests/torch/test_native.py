"""What DDP, FSDP2, DTensors and pipelines tell of themselves, and what is refused of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from complaints import complains
from process_groups import run_ranks
from small_models import WIDTH, batch, cross_entropy, seeded
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe, ScheduleZBVZeroBubble
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.capture.turns import Turns
from ttrace_torch.frameworks.pipelining import Pipeline


class Heads(nn.Module):
    """Features as heads: what comes in cut along features goes out cut along another dimension."""

    def forward(self, x):
        return x.unflatten(-1, (-1, 2)).transpose(1, 2)


class Turned(nn.Module):
    """Something that no rule knows: rows change places."""

    def forward(self, x):
        return x.roll(1, 0)


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.heads = Heads()
        self.turned = Turned()
        self.norm = nn.LayerNorm(2)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        heads = self.norm(self.turned(self.heads(self.up(x))))
        return self.down(heads.transpose(1, 2).flatten(2))


def local_tensors_rank(rank, folder):
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(seeded(Split), mesh, plan)
    apart = seeded(Split)
    if rank == 0:
        with tt.trace(apart, out=folder / "one.h5", mesh=tt.Mesh(), rank=0) as tracer:
            with tracer.step(0):
                apart(torch.ones(2, 3, WIDTH)).sum().backward()
    tracer = tt.trace(model, out=folder / "told")
    with complains(tracer, r"output/turned.* over tp cannot be told"), tracer.step(0):
        model(torch.ones(2, 3, WIDTH)).sum().backward()
    tracer.close()
    turned = tt.Layout("turned", output={"tp": tt.Shard(1)})
    with tt.trace(model, out=folder / "said", layouts=[turned]) as tracer, tracer.step(0):
        model(torch.ones(2, 3, WIDTH)).sum().backward()
    assert tracer.incomplete == []
    with tt.trace(model, out=folder / "no_graph") as tracer:
        with complains(tracer, r"cannot be told from the graph"):
            with torch.no_grad(), tracer.step(0):
                model(torch.ones(1, 3, WIDTH))
        with tracer.step(1), tracer.unrecorded():
            model(torch.ones(1, 3, WIDTH))


def test_local_tensors_are_placed_by_the_graph_or_left_out(tmp_path, capfd):
    run_ranks(2, local_tensors_rank, tmp_path)
    one, told, said = (Trace(tmp_path / name) for name in ("one.h5", "told", "said"))
    said.check_complete()
    assert said.entry("input", "turned", microbatch=0)["placements"] == {"tp": {"shard": 1}}
    assert said.entry("output", "heads", microbatch=0)["shape"] == [2, WIDTH, 3, 2]
    assert "placements" not in said.entry("output", "(model)", microbatch=0)
    # A declared layout seeds what follows, the gradients of a norm between cut layers too.
    gradient = said.entry("param_grad", "norm.weight", microbatch=0)
    assert gradient["placements"] == {"tp": {"partial": "sum"}}
    assert set(said.entries) == set(one.entries)
    for key, entry in one.entries.items():
        ours = said.value(key[0], key[1], microbatch=entry.get("microbatch"))
        theirs = one.value(key[0], key[1], microbatch=entry.get("microbatch"))
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-5, err_msg=str(key))
    # Without it, what cannot be told is left out and listed once, with the layouts to paste.
    left = {entry["tensors"] for entry in told.manifest["run"]["incomplete"]}
    assert {"*/*/output/turned/*/*", "*/*/param_grad/norm.weight/*/*"} <= left
    assert ("output", "turned", 0, 0, 0) not in told.entries
    assert ("output", "(model)", 0, 0, 0) in told.entries
    printed = capfd.readouterr().err
    assert printed.count('tt.Layout("turned", output={"tp": tt.Shard(1)}),') == 1
    # Without a graph only DTensors tell where they lie.
    assert set(Trace(tmp_path / "no_graph").names("output")) == {"up", "down"}


def refusals_rank(rank, folder):
    line = nn.Linear(WIDTH, WIDTH)
    # Its own constructor insists on an accelerator.
    flat = FullyShardedDataParallel.__new__(FullyShardedDataParallel)
    nn.Module.__init__(flat)
    with pytest.raises(tt.TraceError, match=r"\(FSDP1\).* use fully_shard"):
        tt.trace(flat, out=folder / "fsdp1")
    alone = [distributed.new_group([number]) for number in range(2)][rank]
    ddp = nn.parallel.DistributedDataParallel(line, process_group=alone)
    with pytest.raises(
        tt.TraceError, match=r"no grid of all 2 ranks of the job; give trace\(mesh="
    ):
        tt.trace(ddp, out=folder / "part")

    hooked = nn.parallel.DistributedDataParallel(nn.Linear(WIDTH, WIDTH))
    hooked.register_comm_hook(None, own_reduction)
    with pytest.raises(tt.TraceError, match=r"DDP divide .* without grad_output and param_grad"):
        tt.trace(hooked, out=folder / "hook")
    tt.trace(hooked, out=folder / "hook", kinds=["output", "main_grad"]).close()

    stages = [PipelineStage(nn.Linear(WIDTH, WIDTH), rank, 2, torch.device("cpu"))]
    with pytest.raises(tt.TraceError, match=r"give trace\(\) the schedule"):
        tt.trace(stages, out=folder / "stages")
    places = (0, 3) if rank == 0 else (1, 2)
    stages = [PipelineStage(nn.Linear(4, 4), n, 4, torch.device("cpu")) for n in places]
    turning = ScheduleZBVZeroBubble(stages, n_microbatches=4, loss_fn=cross_entropy)
    with pytest.raises(tt.TraceError, match=r"in the shape of a V"):
        tt.trace(turning, out=folder / "turning")

    sharded = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for module in (sharded[0], sharded):
        fully_shard(module)
    tracer = tt.trace(sharded, out=folder / "factor")
    with tracer.step(0):
        for number, count in ((2, 2), (0, 0), ([0], 1)):
            with complains(tracer, r"one number below"), tracer.microbatch(number, of=count):
                pass
    sharded[0].set_gradient_divide_factor(3.0)
    with pytest.raises(tt.TraceError, match=r"divide gradients by several numbers"):
        tt.trace(sharded, out=folder / "factor")


def own_reduction(state, bucket):
    raise NotImplementedError


def test_refusals(tmp_path):
    run_ranks(2, refusals_rank, tmp_path)


def data_rank(rank, folder):
    model = nn.parallel.DistributedDataParallel(seeded(lambda: nn.Linear(WIDTH, WIDTH)))
    with tt.trace(model, out=folder) as tracer:
        with tracer.step(0):
            tracer.loss(model(torch.full((1, WIDTH), 1.0 + rank)).sum())
        with tracer.step(1):
            for number in range(2):
                with tracer.microbatch(number, of=2):
                    model(torch.full((1, WIDTH), 1.0 + rank))


def test_micro_batches_are_numbered_by_the_data_parallel_rank(tmp_path):
    run_ranks(2, data_rank, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    numbers = {step: set() for step in (0, 1)}
    for kind, _, step, number, _ in trace.entries:
        if kind == "input":
            numbers[step].add(number)
            held = trace.entry("input", "(model)", step, number)["held_at"]
            assert held == {"dp": [number if step == 0 else number // 2]}
    assert numbers == {0: {0, 1}, 1: {0, 1, 2, 3}}


def test_without_data_parallel_ranks_the_local_number_is_the_global_one(tmp_path):
    model = nn.Linear(2, 2)
    with tt.trace(model, out=tmp_path / "one.h5") as tracer, tracer.step(0):
        with tracer.microbatch(1, of=2):
            model(torch.ones(1, 2))
    assert Trace(tmp_path / "one.h5").entry("output", "(model)", microbatch=1)
    tracer = tt.trace(model, out=tmp_path / "many", mesh=tt.Mesh({"data": 2}), rank=0)
    with tracer.step(0):
        with (
            complains(tracer, r"needs trace\(dp_axis=.* the same data has"),
            tracer.microbatch(1, of=2),
        ):
            pass


class Layers(nn.Module):
    """Layers that count from 0 in every stage."""

    def __init__(self, numbers):
        super().__init__()
        self.layers = nn.ModuleList()
        for number in numbers:
            self.layers.append(seeded(lambda: nn.Linear(WIDTH, WIDTH), seed=number))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def whole_name(name, stage):
    parts = name.split(".")
    if len(parts) > 1:
        parts[1] = str(int(parts[1]) + 2 * stage)
    return ".".join(parts)


def squares(output, target):
    return (output - target).square().mean()


def pipeline_rank(rank, folder):
    module = Layers(range(2 * rank, 2 * rank + 2))
    stage = PipelineStage(module, rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=squares)
    data = torch.arange(4.0 * WIDTH).reshape(4, WIDTH) / WIDTH
    with tt.trace(schedule, out=folder, rename=whole_name) as tracer, tracer.step(0):
        schedule.step(*[data][rank:], target=data)
        tracer.main_grads()


def test_stages_that_count_their_layers_from_0_are_renamed(tmp_path):
    run_ranks(2, pipeline_rank, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    model = Layers(range(4))
    data = torch.arange(4.0 * WIDTH).reshape(4, WIDTH) / WIDTH
    (squares(model(data[:2]), data[:2]) + squares(model(data[2:]), data[2:])).div(2).backward()
    names = {f"layers.{number}.{local}" for number in range(4) for local in ("weight", "bias")}
    assert set(trace.names("param")) == set(trace.names("param_grad")) == names
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(trace.value("main_grad", name), parameter.grad, rtol=1e-5)
        assert trace.entry("main_grad", name)["held_at"] == {"pp": [int(name.split(".")[1]) // 2]}
        assert trace.entry("param_grad", name, microbatch=1)["scale"] == 0.5


def unflattened_rank(rank, folder):
    # As torchtitan does: every mesh is made from one axis of all ranks.
    world = init_device_mesh("cpu", (4,), mesh_dim_names=("world",))
    mesh = world._unflatten(0, (2, 2), ("stages", "dp"))
    number = mesh["stages"].get_local_rank()
    module = fully_shard(Layers(range(2 * number, 2 * number + 2)), mesh=mesh["dp"])
    group = mesh["stages"].get_group()
    stage = PipelineStage(module, number, 2, torch.device("cpu"), group=group)
    schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=squares)
    data = torch.arange(8.0 * WIDTH).reshape(2, 4, WIDTH)[mesh["dp"].get_local_rank()] / WIDTH
    with tt.trace(schedule, out=folder, rename=whole_name) as tracer, tracer.step(0):
        schedule.step(*[data][number:], target=data)


def test_stages_of_meshes_made_from_one_axis_get_an_axis(tmp_path):
    run_ranks(4, unflattened_rank, tmp_path / "run")
    trace = Trace(tmp_path / "run")
    trace.check_complete()
    axes = [{"name": "pp", "size": 2}, {"name": "world", "size": 2}]
    assert trace.manifest["meshes"][""] == {"axes": axes}
    entry = trace.entry("param", "layers.2.weight")
    assert entry["mesh"] == "pp=2,dp=2" and entry["held_at"] == {"pp": [1]}
    assert trace.entry("output", "layers.1", microbatch=3)["held_at"] == {"pp": [0], "world": [1]}


class Stage:
    """What a schedule asks of a stage, without another."""

    stage_index, num_stages, chunks = 0, 1, 2
    stage_index_to_group_rank = {0: 0}
    is_first = has_backward = True

    def __init__(self, submod):
        self.submod = submod

    def forward_one_chunk(self, chunk, x):
        return self.submod(x)

    def backward_one_chunk(self, chunk):
        pass


@pytest.mark.parametrize(
    ("shared", "compiled", "numbers"),
    [(True, False, [0, 1]), (False, False, [2, 3]), (True, True, [2, 3])],
)
def test_a_micro_batch_of_a_pipeline_may_be_that_of_all_data_parallel_ranks(
    shared, compiled, numbers
):
    begun, module = [], Turned()
    if compiled:  # no hook may be compiled with it, so that nobody sees its inputs
        module.compile(backend="eager", fullgraph=True)
    listener = SimpleNamespace(begin_microbatch=begun.append)
    stage, turns = Stage(module), Turns((1, 2))
    with Pipeline([stage], None).watching(listener, turns, lambda inputs: shared and len(inputs)):
        for chunk in range(2):
            stage.forward_one_chunk(chunk, torch.ones(1, 1))
    assert [turns.final().get(number, number) for number in begun] == numbers
    stage.forward_one_chunk(0, torch.ones(1, 1))
    assert len(begun) == 2


def consistent_rank(rank):
    whole = seeded(Split)
    tt.consistent_init(whole, framework="none", rank=0)
    expected = dict(whole.named_parameters())
    root = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plan = {"up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(seeded(Split), root["tp"], plan)
    fully_shard(model, mesh=root["dp"])
    tt.consistent_init(model)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.full_tensor(), expected[name]), name
    stage = PipelineStage(nn.Linear(WIDTH, WIDTH), rank, 4, torch.device("cpu"))
    tt.consistent_init(ScheduleGPipe(stage, n_microbatches=4, loss_fn=squares), seed=1)
    one = nn.Linear(WIDTH, WIDTH)
    tt.consistent_init(one, framework="none", rank=0, seed=1)
    assert torch.equal(stage.submod.weight, one.weight)


def test_consistent_values_on_meshes_that_the_model_tells():
    run_ranks(4, consistent_rank)


def test_renamed_plain_model(tmp_path):
    model = seeded(lambda: nn.Sequential(nn.Embedding(13, WIDTH), nn.Linear(WIDTH, 13)))
    names = {"0": "embedding", "1": "head"}

    def rename(name):
        first, _, rest = name.partition(".")
        return ".".join(filter(None, (names[first], rest)))

    with tt.trace(model, out=tmp_path / "a.h5", rename=rename) as tracer, tracer.step(0):
        ids, targets = batch()
        tracer.loss(cross_entropy(model(ids), targets)).backward()
    trace = Trace(tmp_path / "a.h5")
    assert set(trace.names("output")) == {"embedding", "head", "(model)"}
    assert set(trace.names("param_grad")) == {"embedding.weight", "head.weight", "head.bias"}
