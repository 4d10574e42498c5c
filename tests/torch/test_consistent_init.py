"""Models filled with consistent values: every layout's parameters are slices of the same ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fake_ranks import playing
from parallel_model import ParallelModel
from small_models import TiedGPT
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import ttrace_torch as tt

WORLD = 8


def filled(make, **options):
    """name -> values of a model in one process."""
    model = make()
    tt.consistent_init(model, **options)
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def reassembled(whole, parts):
    """Checks that the ranks' parts, each with the numbers of its elements, cover the whole."""
    seen = np.zeros(whole.numel(), bool)
    for part, numbers in parts:
        np.testing.assert_array_equal(part.detach(), whole.reshape(-1)[numbers])
        seen[numbers.reshape(-1)] = True
    assert seen.all()


class Weights(nn.Module):
    """Matrices and vectors of each number of rows, cut by tensor parallelism or not at all."""

    def __init__(self, tp_mesh=None, tp_dim=0, values=None):
        super().__init__()
        for rows in range(1, 14):
            for name, shape in ((f"matrix{rows}", (rows, 5)), (f"bias{rows}", (rows,))):
                whole = torch.zeros(shape) if values is None else values[name]
                if tp_mesh is not None:
                    cut = Replicate() if tp_dim >= len(shape) else Shard(tp_dim)
                    whole = distribute_tensor(whole, tp_mesh, [cut], src_data_rank=None)
                self.register_parameter(name, nn.Parameter(whole))


@pytest.mark.parametrize("tp_dim", [0, 1, None], ids=["rows", "columns", "replicated"])
@pytest.mark.parametrize("dp, tp", [(4, 2), (2, 4)], ids=str)
def test_fsdp_over_tensor_parallelism_has_the_slices_pytorch_makes(dp, tp, tp_dim):
    expected = filled(Weights)
    compared = 0
    for rank in range(WORLD):
        with playing(rank, WORLD):
            root = init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
            # What PyTorch itself makes of the whole values when it shards them.
            models = [
                Weights(None if tp_dim is None else root["tp"], tp_dim, values)
                for values in (None, expected)
            ]
            for model in models:
                fully_shard(model, mesh=root["dp"])
            tt.consistent_init(models[0], mesh=tt.Mesh({"dp": dp, "tp": tp}), rank=rank)
            for (name, found), cut in zip(
                models[0].named_parameters(), models[1].parameters(), strict=True
            ):
                assert isinstance(found, DTensor)
                assert torch.equal(found.to_local(), cut.to_local()), name
                compared += found.to_local().numel()
    assert compared >= sum(whole.numel() for whole in expected.values())


def test_hand_cut_parameters_follow_their_layouts():
    mesh = tt.Mesh({"tp": 2})
    layouts = [
        tt.Layout("up", params={"*": {"tp": tt.Shard(0)}}),
        tt.Layout("down", params={"weight": {"tp": tt.Shard(1)}}),
    ]
    expected = filled(ParallelModel)
    for rank in range(2):
        model = ParallelModel()
        model.up = nn.Linear(8, 6)
        model.down = nn.Linear(6, 8)
        tt.consistent_init(model, mesh=mesh, layouts=layouts, rank=rank)
        half = slice(6 * rank, 6 * rank + 6)
        assert torch.equal(model.up.weight, expected["up.weight"][half])
        assert torch.equal(model.up.bias, expected["up.bias"][half])
        assert torch.equal(model.down.weight, expected["down.weight"][:, half])
        for name in ("embedding.weight", "norm.weight", "down.bias", "head.weight"):
            assert torch.equal(model.get_parameter(name), expected[name])


@pytest.mark.parametrize("dim, stride", [(0, 1), (1, 1), (0, 2)], ids=str)
def test_megatrons_attributes_tell_how_a_parameter_is_cut(dim, stride):
    expected = filled(lambda: nn.Linear(12, 8, bias=False))["weight"]
    numbers = np.arange(96).reshape(8, 12)
    parts = []
    for rank in range(2):
        pieces = np.split(numbers, 2 * stride, axis=dim)
        mine = np.concatenate(pieces[rank::2], axis=dim)
        model = nn.Linear(*mine.shape[::-1], bias=False)
        model.weight.tensor_model_parallel = True
        model.weight.partition_dim, model.weight.partition_stride = dim, stride
        tt.consistent_init(model, mesh=tt.Mesh({"tp": 2}), rank=rank)
        parts.append((model.weight, mine))
    reassembled(expected, parts)


def test_a_flat_range_is_written_into_its_place_in_the_whole_buffer():
    expected = filled(lambda: nn.Linear(4, 6, bias=False))["weight"].reshape(-1)
    flat = tt.Flat([(0, 10), (10, 24)], (6, 4))
    layouts = [tt.Layout("(model)", params={"weight": {"dp": flat}})]
    for rank, (start, stop) in enumerate(flat.ranges):
        model = nn.Linear(4, 6, bias=False)
        nn.init.constant_(model.weight, 7.0)
        tt.consistent_init(model, mesh=tt.Mesh({"dp": 2}), layouts=layouts, rank=rank)
        written = model.weight.detach().reshape(-1)
        assert torch.equal(written[start:stop], expected[start:stop])
        assert (written == 7.0).sum() == 24 - (stop - start)


def test_values_are_of_the_usual_size():
    model = nn.Sequential(nn.Linear(400, 300), nn.LayerNorm(3000), nn.BatchNorm1d(3000))
    tt.consistent_init(model)
    means = {
        "0.weight": 0,
        "0.bias": 0,
        "1.weight": 1,
        "1.bias": 0,
        "2.weight": 1,
        "2.bias": 0,
        "2.running_mean": 0,
        "2.running_var": 1,
    }
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    for name, mean in means.items():
        tensor = tensors[name]
        assert abs(tensor.mean().item() - mean) < 4 * 0.02 / tensor.numel() ** 0.5, name
        assert abs(tensor.std().item() / 0.02 - 1) < 0.2, name
    assert tensors["2.num_batches_tracked"] == 0


def test_a_value_is_that_of_consistent_under_the_canonical_name():
    wrapped = torch.nn.Sequential()
    wrapped.add_module("_orig_mod", nn.Linear(3, 4))
    tt.consistent_init(wrapped, seed=5, std=0.1)
    found = wrapped.get_parameter("_orig_mod.weight")
    assert torch.equal(found, tt.consistent("weight", (4, 3), scale=0.1, seed=5))


def test_tied_parameters_are_filled_under_their_first_name():
    model = TiedGPT()
    tt.consistent_init(model)
    assert model.head.weight is model.embedding.weight
    expected = tt.consistent("embedding.weight", tuple(model.head.weight.shape), scale=0.02)
    assert torch.equal(model.head.weight, expected)


def test_a_tied_head_of_another_stage_is_renamed():
    model = nn.ModuleDict({"head": nn.Linear(8, 13, bias=False)})
    names = {"head.weight": "embedding.weight"}
    tt.consistent_init(model, rename=lambda name: names.get(name, name))
    expected = tt.consistent("embedding.weight", (13, 8), scale=0.02)
    assert torch.equal(model["head"].weight, expected)


class WithBuffers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.ones(3, 3))
        self.register_buffer("offset", torch.zeros(4))
        self.register_buffer("frequencies", torch.ones(2), persistent=False)
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))


def test_buffers_that_the_model_computes_or_the_caller_names_are_left_alone():
    model = WithBuffers()
    tt.consistent_init(model, skip=["mask"])
    assert (model.mask == 1).all() and (model.frequencies == 1).all() and model.count == 0
    assert torch.equal(model.offset, tt.consistent("offset", (4,), scale=0.02))
    with pytest.raises(tt.TraceError, match="'musk' matches no parameter or buffer.*mask"):
        tt.consistent_init(model, skip=["musk"])


def test_types_and_gradients_of_the_parameters_stay():
    model = nn.Linear(3, 4).to(torch.bfloat16)
    tt.consistent_init(model)
    assert model.weight.requires_grad and model.weight.is_leaf
    expected = tt.consistent("weight", (4, 3), scale=0.02, dtype=torch.bfloat16)
    assert torch.equal(model.weight, expected)


def test_what_cannot_be_told_is_an_error():
    uneven = nn.Linear(3, 5)
    layouts = [tt.Layout("(model)", params={"weight": {"tp": tt.Shard(0, size=11)}})]
    with pytest.raises(tt.TraceError, match="this rank holds"):
        tt.consistent_init(uneven, mesh=tt.Mesh({"tp": 2}), layouts=layouts, rank=0)
    layouts = [tt.Layout("(model)", params={"weight": {"tp": tt.Partial()}})]
    with pytest.raises(tt.TraceError, match="terms that its sum does not tell"):
        tt.consistent_init(uneven, mesh=tt.Mesh({"tp": 2}), layouts=layouts, rank=0)
    with pytest.raises(tt.TraceError, match="meta device"):
        tt.consistent_init(nn.Linear(3, 5, device="meta"))
    with pytest.raises(tt.TraceError, match="outside the mesh"):
        tt.consistent_init(nn.Linear(3, 5), rank=1)
    flat = nn.Linear(3, 5)
    flat.weight._fqns = ["a", "b"]
    with pytest.raises(tt.TraceError, match="flat parameter of FSDP1"):
        tt.consistent_init(flat)


def test_what_fsdp_gathers_are_the_values_written(tmp_path):
    expected = filled(lambda: nn.Linear(3, 5))
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        model = nn.Linear(3, 5)
        fully_shard(model, mesh=init_device_mesh("cpu", (1,), mesh_dim_names=("dp",)))
        tt.consistent_init(model, mesh=tt.Mesh({"dp": 1}))
        found = model(torch.eye(3))
    finally:
        torch.distributed.destroy_process_group()
    assert torch.equal(found, nn.functional.linear(torch.eye(3), *expected.values()))
