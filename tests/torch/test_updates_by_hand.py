"""Updates that no torch optimizer makes: ZeRO-1 by hand, each rank updates a range of one flat
buffer."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from process_groups import run_ranks
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

RANKS, SAMPLES, LEARNING_RATE = 2, 4, 1e-3
# The border between the ranks' ranges lies in the second weight.
SIZES = {
    "0.weight": 512,
    "0.bias": 64,
    "2.weight": 4096,
    "2.bias": 64,
    "4.weight": 256,
    "4.bias": 4,
}


def ranges(ranks):
    """Parameter -> its range on each rank."""
    whole, found, start = sum(SIZES.values()), {}, 0
    share = -(-whole // ranks)
    for name, size in SIZES.items():
        cuts = [min(max(rank * share - start, 0), size) for rank in range(ranks + 1)]
        found[name] = list(zip(cuts[:-1], cuts[1:], strict=True))
        start += size
    return found


class Adam:
    """Of one range of each parameter. `fault`: how its steps are wrong."""

    def __init__(self, model, own, fault=""):
        self.model, self.own, self.fault, self.count = model, own, fault, 0
        self.states = {name: torch.zeros(2, stop - start) for name, (start, stop) in own.items()}

    def step(self, gradients):
        """Returns the ranges of the updated parameters."""
        self.count += 1
        found = {}
        for name, parameter in self.model.named_parameters():
            start, stop = self.own[name]
            gradient, (first, second) = gradients[name], self.states[name]
            first.mul_(0.9).add_(gradient, alpha=0.1)
            second.mul_(0.99).addcmul_(gradient, gradient, value=0.01)
            step = first / (1 - 0.9**self.count)
            step /= (second / (1 - 0.99**self.count)).sqrt() + 1e-8
            before = parameter.detach().flatten()[start:stop]
            if self.fault == "scale" and start > 0:
                step /= 6
            if self.fault == "decay":
                step += 0.1 * before
            if self.fault == "rate":
                step *= 1.05
            if self.fault == "turned" and name == "2.weight":
                step *= 1 - 2 * (torch.arange(len(step)) % 5 == 0)
            found[name] = before - LEARNING_RATE * step
        return found


def train(out, rank=0, ranks=1, fault="", **given):
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Linear(8, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 4)
    )
    every = ranges(ranks)
    own = {name: parts[rank] for name, parts in every.items()}
    optimizer = Adam(model, own, fault)
    if ranks > 1:
        shapes = {name: tuple(one.shape) for name, one in model.named_parameters()}
        flat = {name: {"dp": tt.Flat(every[name], shapes[name])} for name in every}
        layouts = [
            tt.Layout(
                module, main_grads={one: flat[f"{module}.{one}"] for one in ("weight", "bias")}
            )
            for module in ("0", "2", "4")
        ]
        given |= {"mesh": tt.Mesh({"dp": ranks}), "layouts": layouts}
    with tt.trace(model, out=out, **given) as tracer:
        for step in range(2):
            with tracer.step(step):
                mine = range(rank * SAMPLES // ranks, (rank + 1) * SAMPLES // ranks)
                for number in mine:
                    with tracer.microbatch(number):
                        generator = torch.Generator().manual_seed(10 * step + number)
                        x = torch.randn(5, 8, generator=generator)
                        (tracer.loss(model(x).square().mean()) / SAMPLES).backward()
                gradients = {}
                for name, parameter in model.named_parameters():
                    if ranks > 1:
                        dist.all_reduce(parameter.grad)
                    start, stop = own[name]
                    gradients[name] = parameter.grad.flatten()[start:stop].clone()
                    parameter.main_grad = gradients[name].view(-1 if ranks > 1 else parameter.shape)
                tracer.main_grads()
                for name, updated in optimizer.step(gradients).items():
                    parameter = model.get_parameter(name)
                    flat_one = torch.zeros(parameter.numel())
                    flat_one[own[name][0] : own[name][1]] = updated
                    if ranks > 1:
                        dist.all_reduce(flat_one)
                    parameter.data.copy_(flat_one.view_as(parameter))
                    parameter.grad = None
                tracer.params_after_step()


def train_rank(rank, out, fault):
    train(out, rank, RANKS, fault)


def answer(folder, fault):
    train(folder / "ref.h5")
    run_ranks(RANKS, train_rank, folder / "run", fault)
    return run_ttrace("compare", folder / "ref.h5", folder / "run", timeout=120)


def test_a_healthy_update_is_not_accused(tmp_path):
    done = answer(tmp_path, "")
    assert done.returncode == MATCH, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (
            "scale",
            "the update of 2.weight is 0.166667 = 1/6 times the reference's on rank 1 (2174 of 4096"
            " elements), and right elsewhere",
        ),
        ("decay", "times the parameter, as another weight decay makes it"),
        ("rate", "are 21/20 times what they should be"),
        ("turned", "of 2.weight"),
    ],
)
def test_a_wrong_update_is_the_headline(tmp_path, fault, told):
    done = answer(tmp_path, fault)
    assert done.returncode == DIVERGED, done.stdout + done.stderr
    first = done.stdout.splitlines()[0]
    assert "update" in first and told in first and "optimizer" in first, first
