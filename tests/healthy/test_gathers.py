"""Collectives in the run of one process that makes the specification: they copy, or do nothing.

And the reduction of FSDP2 in mixed precision under the name that torch 2.15 gives it.
"""

import json

import pytest
import torch
from answers import audited
from process_groups import run_ranks
from torch import distributed, nn
from torch.distributed import _functional_collectives as functional
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import ttrace_torch as tt
from ttrace_torch.specification import recorder

WIDTH = 8


def all_gather(x):
    parts = [torch.empty_like(x)]
    distributed.all_gather(parts, x)
    return parts[0]


def all_gather_into_tensor(x):
    gathered = torch.empty_like(x)
    distributed.all_gather_into_tensor(gathered, x)
    return gathered


def all_gather_later(x):
    gathered = torch.zeros_like(x)
    distributed.all_gather_into_tensor(gathered, x, async_op=True).wait()
    return gathered


def coalesced(x):
    gathered = torch.zeros_like(x)
    with distributed._coalescing_manager():
        distributed.all_gather_into_tensor(gathered, x)
    return gathered


def all_to_all_single(x):
    moved = torch.zeros_like(x)
    distributed.all_to_all_single(moved, x)
    return moved


def all_to_all(x):
    moved = [torch.zeros_like(x)]
    distributed.all_to_all(moved, [x])
    return moved[0]


def reduce_scatter(x):
    part = torch.zeros_like(x)
    distributed.reduce_scatter(part, [x])
    return part


def scatter(x):
    part = torch.zeros_like(x)
    distributed.scatter(part, [x])
    return part


def all_reduce(x):
    total = x.clone()
    distributed.all_reduce(total)
    return total


def functional_gather(x):
    return functional.all_gather_tensor(x, 0, distributed.group.WORLD) + 0


def functional_reduce_scatter(x):
    return functional.reduce_scatter_tensor(x, "sum", 0, distributed.group.WORLD) + 0


COLLECTIVES = [
    all_gather,
    all_gather_into_tensor,
    all_gather_later,
    coalesced,
    all_to_all_single,
    all_to_all,
    reduce_scatter,
    scatter,
    all_reduce,
    functional_gather,
    functional_reduce_scatter,
]


class Gathering(nn.Module):
    """The features of all ranks, without gradients, beside those of this one."""

    def __init__(self, collective, fault):
        super().__init__()
        torch.manual_seed(0)
        self.encoder = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 2)
        self._collective, self._fault = collective, fault

    def forward(self, x):
        features = self.encoder(x)
        with torch.no_grad():
            gathered = self._collective(features)
        if self._fault == "swapped":
            gathered = gathered[[1, 0, 2, 3]]
        if self._fault == "scaled":
            gathered = 1.01 * gathered
        return self.head(features + 0.5 * gathered)


def gathering_ranks(rank, folder, collectives):
    for collective in collectives:
        place = folder / collective.__name__
        place.mkdir()
        for fault in ("healthy", "swapped", "scaled"):
            gather(place, collective, fault)


def gather(folder, collective, fault):
    model = Gathering(collective, fault)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json" if fault == "healthy" else None
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / f"{fault}.h5",
        specification=path,
        framework="none",
        mesh=tt.Mesh(),
    )
    with tracer.step(0):
        x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(1))
        tracer.loss(model(x).square().mean()).backward()
        optimizer.step()
    tracer.close()


@pytest.fixture(scope="module")
def gathered(tmp_path_factory):
    """A folder with a folder for each collective."""
    folder = tmp_path_factory.mktemp("gathers")
    run_ranks(1, gathering_ranks, folder, COLLECTIVES)
    return folder


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_healthy_run_holds_and_faults_are_found(gathered, collective):
    folder = gathered / collective.__name__
    specification = json.loads((folder / "specification.json").read_text())
    assert "opaque" not in specification
    answer = audited(folder, "healthy.h5")
    assert answer.code == 0 and answer.judged == answer.tensors, answer
    for fault in ("swapped", "scaled"):
        answer = audited(folder, f"{fault}.h5")
        assert answer.code == 1
        assert answer.found[0] == "input head"


def test_what_a_mistake_of_the_collector_hides_is_not_given(tmp_path, monkeypatch, capfd):
    def failing(*_):
        raise IndexError("list index out of range")

    monkeypatch.setattr(recorder, "effect_of", failing)
    run_ranks(1, gathering_ranks, tmp_path, [all_gather_into_tensor])
    assert "opaque by a mistake of the collector" in capfd.readouterr().err
    folder = tmp_path / "all_gather_into_tensor"
    specification = json.loads((folder / "specification.json").read_text())
    (hidden,) = [t for t in specification["tensors"] if (t["kind"], t["name"]) == ("input", "head")]
    assert hidden["opaque"] == "a mistake of the collector"


def mixed_rank(rank, folder, renamed):
    if renamed:
        _as_in_2_15()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, 2))
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = distributed.init_device_mesh("cpu", (1,), mesh_dim_names=("dp",))
    for part in (model[0], model[2], model):
        fully_shard(part, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json"
    with tt.trace(model, optimizer, out=folder / "run.h5", specification=path) as tracer:
        with tracer.step(0):
            for number in range(2):
                x = torch.randn(4, WIDTH, generator=torch.Generator().manual_seed(number))
                tracer.loss(model(x).float().square().mean()).backward()
            optimizer.step()


def _chunk_cat(tensors, dim, num_chunks, out):
    torch._chunk_cat([x.to(out.dtype) for x in tensors], dim, num_chunks, out=out)


def _as_in_2_15():
    """Gives the reduction of FSDP2 the name that torch 2.15 gives it."""
    library = torch.library.Library("fsdp", "FRAGMENT")
    if not hasattr(torch.ops.fsdp, "chunk_cat_mixed_dtype"):
        schema = "(Tensor[] tensors, int dim, int num_chunks, *, Tensor(a!) out) -> ()"
        library.define("chunk_cat_mixed_dtype" + schema)
        library.impl("chunk_cat_mixed_dtype", _chunk_cat, "CPU")
    torch.ops.fsdp.chunk_cat = torch.ops.fsdp.chunk_cat_mixed_dtype
    globals()["_library"] = library  # it unregisters what it has when it dies


@pytest.mark.parametrize("renamed", [False, True])
def test_main_gradients_of_mixed_precision_are_judged(tmp_path, renamed):
    run_ranks(1, mixed_rank, tmp_path, renamed)
    answer = audited(tmp_path)
    assert answer.code == 0 and answer.judged == answer.tensors, answer
