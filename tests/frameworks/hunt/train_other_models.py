"""Trains a model of other_models.py, or one of transformers by its class, with DDP or alone."""

from __future__ import annotations

import torch
from hunt.other_models import BATCHES, MODELS
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import ttrace_torch as tt

STEPS, MICRO_BATCHES = 2, 2


class Lion(torch.optim.Optimizer):
    """An optimizer that ttrace does not know."""

    def __init__(self, parameters, lr=1e-3):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                momentum = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                ahead = 0.9 * momentum + 0.1 * parameter.grad
                parameter.add_(ahead.sign(), alpha=-group["lr"])
                momentum.mul_(0.99).add_(parameter.grad, alpha=0.01)


def optimizers_of(model, case):
    if case.get("model") == "bags":
        sparse = torch.optim.SparseAdam(list(model.bags.parameters()))
        return [sparse, torch.optim.AdamW(model.head.parameters())]
    kind = Lion if case.get("optimizer") == "lion" else torch.optim.AdamW
    return [kind(model.parameters(), lr=1e-3)]


def made(case):
    """The model, and its loss from the wrapped model and a generator."""
    torch.manual_seed(0)
    if "model" in case:
        make, loss = MODELS[case["model"]]
        return make(), loss
    import transformers

    kind, config, settings, batch = case["of_transformers"]
    model = getattr(transformers, kind)(getattr(transformers, config)(**settings)).train()
    return model, lambda wrapped, generator: wrapped(**BATCHES[batch](generator)).loss


def main(case, out):
    model, loss_of = made(case)
    optimizers = optimizers_of(model, case)
    ranks = distributed.get_world_size() if case.get("ddp") else 1
    first = distributed.get_rank() if ranks > 1 else 0
    if case.get("ddp"):
        model = DistributedDataParallel(model, find_unused_parameters=case.get("unused", False))
    noise = tt.Perturb(case["noise"]) if "noise" in case else None
    tracer = tt.trace(model, optimizers, out=out, steps=range(STEPS), perturb=noise)
    share = MICRO_BATCHES // ranks
    for step in range(STEPS):
        with tracer.step(step):
            for number in range(share):
                generator = torch.Generator().manual_seed(10 * step + first * share + number)
                loss = tracer.loss(loss_of(model, generator))
                (loss / share).backward()
            tracer.main_grads()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    tracer.close()
