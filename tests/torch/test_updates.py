"""Parameters of one group that differ in updates made, behind what frameworks wrap an optimizer in.

The wrappers are those frameworks' as far as the collector reads them; the optimizers are real.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ttrace_torch.base.names import ModelNames
from ttrace_torch.frameworks.deepspeed_optimizer import EngineWatch
from ttrace_torch.frameworks.deepspeed_partitions import Partitions
from ttrace_torch.frameworks.megatron_optimizer import MegatronOptimizerWatch


class Engine:
    """What EngineWatch reads of a DeepSpeed engine."""

    def __init__(self, optimizer, inner):
        self.optimizer, self.basic_optimizer = optimizer, inner

    def _take_model_step(self):
        raise AssertionError("no step is made here")


def updated(tensors, late):
    """Adam after two updates, of which the tensors `late` have missed the first."""
    optimizer = torch.optim.AdamW(tensors, lr=0.1)
    for step in range(2):
        for number, tensor in enumerate(tensors):
            tensor.grad = None if step == 0 and number in late else torch.ones_like(tensor)
        optimizer.step()
    return optimizer


def copies(model):
    return [nn.Parameter(p.detach().double()) for p in model.parameters()]


def plain_engine(model):
    inner = updated(list(model.parameters()), late=[1])
    return Engine(inner, inner)


def engine_of_copies(model):
    wider = copies(model)
    wrapper = SimpleNamespace(fp32_groups=[wider], fp16_groups=[list(model.parameters())])
    return Engine(wrapper, updated(wider, late=[1]))


def engine_of_sub_groups(model):
    """ZeRO-3: one group of parameters is updated in two flat parts."""
    first, last = list(model.parameters())[:1], list(model.parameters())[1:]
    flats = [
        nn.Parameter(torch.cat([p.detach().flatten() for p in part])) for part in (first, last)
    ]
    wrapper = SimpleNamespace(
        sub_group_to_group_id={0: 0, 1: 0},
        fp32_partitioned_groups_flat=flats,
        fp16_groups=[first, last],
    )
    inner = updated(flats, late=[1])
    # As between steps of ZeRO-3, which gives the optimizer one part at a time.
    inner.param_groups[0]["params"] = []
    return Engine(wrapper, inner)


def watch_engine(make):
    return lambda model: EngineWatch(make(model), None, Partitions())


def watch_megatron(model):
    wider = copies(model)
    for parameter, copy in zip(model.parameters(), wider, strict=True):
        parameter.main_param = copy
    inner = updated(wider, late=[1])
    return MegatronOptimizerWatch(SimpleNamespace(optimizer=inner, step=inner.step), None)


@pytest.mark.parametrize(
    ("watching", "late"),
    [
        (watch_engine(plain_engine), ["0.bias"]),
        (watch_engine(engine_of_copies), ["0.bias"]),
        (watch_engine(engine_of_sub_groups), ["0.bias", "1.weight", "1.bias"]),
        (watch_megatron, ["0.bias"]),
    ],
    ids=["engine", "engine of copies", "engine of sub-groups", "Megatron"],
)
def test_counts_are_told_apart(watching, late):
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    entries = watching(model).entries(7, ModelNames.of(model))
    assert {entry["step"] for entry in entries} == {7}
    told = {name: entry["updates"] for entry in entries for name in entry["params"]}
    assert told == {name: 2 if name in late else 3 for name, _ in model.named_parameters()}


class Distributed:
    """Of Megatron's distributed optimizer, what the collector reads; it holds some shards."""

    def __init__(self, parameters):
        shards = [nn.Parameter(one.detach().flatten()[:2].clone()) for one in parameters]
        self.model_fp32_groups, self.shard_fp32_groups = [parameters], [shards]
        self.optimizer = SimpleNamespace(param_groups=[{"params": shards}], state={})

    def step(self):
        raise AssertionError("no step is made here")


def test_what_a_distributed_optimizer_lacks_other_ranks_hold():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    names = ModelNames.of(model)
    for parameters in ([], list(model.parameters())[:2]):
        assert MegatronOptimizerWatch(Distributed(parameters), None).held(names) is None
    other = list(nn.Linear(3, 3).parameters())
    assert MegatronOptimizerWatch(Distributed(other), None).held(names) == set()
    assert watch_megatron(model).held(names) == {name for name, _ in model.named_parameters()}


def test_what_a_layer_wise_optimizer_deals_out_is_held():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    names = ModelNames.of(model)
    first, second, *others = model.parameters()
    inner = SimpleNamespace(param_groups=[{"params": [first]}], state={})
    one = SimpleNamespace(optimizer=inner)
    whole = {"chained_optimizers": [one], "expt_dp_params_list": None, "step": None}
    dealt = SimpleNamespace(dp_cp_params_list=[[first], [second]], **whole)
    watch = MegatronOptimizerWatch(SimpleNamespace(chained_optimizers=[dealt], step=None), None)
    assert watch.held(names) == {"0.weight", "0.bias"}
    dealt.dp_cp_params_list[1].extend(others)
    assert watch.held(names) == set(names.parameters)


def test_state_of_copies_is_that_of_their_parameters():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    watch = watch_engine(engine_of_copies)(model)
    found = {
        (state.parameter, state.name): state.value for state in watch.states(ModelNames.of(model))
    }
    names = [name for name, _ in model.named_parameters()]
    assert set(found) == {(n, s) for n in names for s in ("main_param", "exp_avg", "exp_avg_sq")}
    assert all(found[name, "exp_avg"].shape == p.shape for name, p in model.named_parameters())
