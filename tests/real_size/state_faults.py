"""Jobs with state, and what is planted in them.

A job goes on from a checkpoint of two steps that one process made: weights, buffers, masters, the
optimizer's state, an average of the weights, the scheduler. Its next two steps are traced. A
training is what `Case.training` of state_cases.py says; `fault` may be several, "one+other".
"""

from __future__ import annotations

import copy
from contextlib import nullcontext

import launching
import torch
from torch import distributed, nn
from torch.distributed.nn.functional import all_reduce
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import ResNetConfig, ResNetForImageClassification

import ttrace_torch as tt
from real_size.models import build
from real_size.parallel import parallelized
from real_size.state_optimizers import Adafactor, Lion, Muon

BEFORE = 2  # steps
TOKENS = 64  # of a micro-batch
RATE = 1e-4  # of the experts' bias, by the number of tokens
SETTINGS = {
    "adamw": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.1}),
    "sgd": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4}),
    "muon": (Muon, {"lr": 0.02, "momentum": 0.95, "weight_decay": 0.01}),
    "lion": (Lion, {"lr": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.1}),
    "adafactor": (Adafactor, {"lr": 1e-2, "beta": 0.9, "weight_decay": 0.0}),
}


class SyncNorm(nn.SyncBatchNorm):
    """That of torch refuses a CPU. keeps_own: a fault, statistics are kept of the rank's own."""

    keeps_own = False

    def forward(self, x):
        own = torch.stack([x.mean((0, 2, 3)), x.square().mean((0, 2, 3))])
        ranks = distributed.get_world_size()
        mean, square = all_reduce(own) / ranks
        variance = square - mean.square()
        kept, count = (own, 1) if self.keeps_own else (torch.stack([mean, square]), ranks)
        count *= x.numel() / x.shape[1]
        spread = (kept[1] - kept[0].square()) * count / (count - 1)
        with torch.no_grad():
            self.running_mean.lerp_(kept[0], self.momentum)
            self.running_var.lerp_(spread, self.momentum)
            self.num_batches_tracked += 1
        mean, scale = mean[:, None, None], (variance + self.eps).rsqrt() * self.weight
        return (x - mean) * scale[:, None, None] + self.bias[:, None, None]


class Job:
    def __init__(self, training):
        self.faults = training.get("fault", "").split("+")
        self.training = training
        self.synchronized = training["model"] == "resnet-sync"
        self.microbatches = 2 if self.synchronized else 4
        self.model, self.batch = _made(training)
        self.counts = {}
        for name, module in self.model.named_modules():
            if hasattr(module, "e_score_correction_bias"):
                self.counts[name] = 0
                module.register_forward_hook(self._counting(name))
        if training.get("checkpointing"):
            self.model.gradient_checkpointing_enable({"use_reentrant": False})
        self.wrapped, self.ranks, self.rank = parallelized(self.model, training)
        # DDP, too, refuses it on a CPU.
        if self.synchronized and self.ranks > 1:
            for module in self.model.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.__class__ = SyncNorm
                    module.keeps_own = "statistics_of_own" in self.faults
        self.named = dict(self.model.named_parameters())
        self.masters = None
        if training["precision"] == "bf16":
            self.masters = {n: p.detach().float() for n, p in self.named.items()}
            if training.get("named"):
                for name, master in self.masters.items():
                    self.named[name].main_param = master
        updated = self.masters or self.named
        self.average = {n: p.detach().clone() for n, p in updated.items()}
        self.optimizers = self._optimizers(updated)
        self.schedulers = [
            torch.optim.lr_scheduler.LambdaLR(one, lambda step: 1 / (1 + step))
            for one in self.optimizers
        ]

    def _counting(self, name):
        def count(router, inputs, outputs):
            # What activation checkpointing runs again runs inside a backward.
            again = torch._C._current_graph_task_id() != -1
            if not again or "bias_counted_again" in self.faults:
                chosen = outputs[-1].flatten()
                self.counts[name] += torch.bincount(chosen, minlength=router.num_experts).float()

        return count

    def _optimizers(self, updated):
        name = self.training["optimizer"]
        make, settings = SETTINGS[name]
        wrong = {}
        if name in ("muon", "adafactor"):
            wrong["by_shard"] = "by_shard" in self.faults
        if name == "lion":
            wrong["momentum_first"] = "momentum_first" in self.faults
        held = list(updated.items())
        found = []
        if name == "muon":
            hidden = [n for n, p in held if p.dim() == 2 and not _is_outer(n)]
            found.append(Muon([updated[n] for n in hidden], **settings, **wrong))
            held = [(n, p) for n, p in held if n not in hidden]
            make, settings = SETTINGS["adamw"]
            wrong = {}
        groups = [
            {"params": [p for _, p in held if p.dim() > 1]},
            {"params": [p for _, p in held if p.dim() < 2], "weight_decay": 0.0},
        ]
        groups[1]["lr"] = 2 * settings["lr"]
        if self.training.get("zero"):
            zero = ZeroRedundancyOptimizer(groups, optimizer_class=make, **settings)
            if "shard_not_broadcast" in self.faults:
                broadcast = zero._broadcast_params_from_rank
                zero._broadcast_params_from_rank = lambda rank: [] if rank else broadcast(rank)
            return [zero]
        return [*found, make(groups, **settings, **wrong)]

    @torch.no_grad()
    def resume(self, saved):
        """Goes on from where the other job, of one process, is."""
        theirs = saved.model.state_dict()
        for name, mine in (*self.named.items(), *self.model.named_buffers()):
            if name in theirs:
                mine.copy_(_like(mine, theirs[name]))
        for name, average in self.average.items():
            average.copy_(_like(average, saved.average[name]))
        for name, master in (self.masters or {}).items():
            if "masters_from_weights" in self.faults:
                master.copy_(self.named[name])
            elif "masters_stale" not in self.faults:
                master.copy_(saved.masters[name])
        for mine, other in zip(self.optimizers, saved.optimizers, strict=True):
            state = copy.deepcopy(other.state_dict())
            held = [p for group in mine.param_groups for p in group["params"]]
            state["state"] = self._state(state["state"], held)
            mine.load_state_dict(state)
        for mine, other in zip(self.schedulers, saved.schedulers, strict=True):
            mine.load_state_dict(other.state_dict())
        first, last = self.optimizers[-1].param_groups
        if "rate_of_other_group" in self.faults:
            first["lr"], last["lr"] = last["lr"], first["lr"]
            self.schedulers[-1].base_lrs.reverse()
        if "norms_decayed" in self.faults:
            last["weight_decay"] = first["weight_decay"]
        if "never_stepped" in self.faults:
            group = self.optimizers[0].param_groups[0]["params"]
            group.pop(len(group) // 2)

    def _state(self, state, held):
        """The optimizer's state by the number of the parameter, in this job's layout."""
        if "moments_lost" in self.faults:
            return {}
        alike = {}
        for number, parameter in enumerate(held):
            alike.setdefault(tuple(parameter.shape), []).append(number)
        taken = {number: number for number in state}
        if "moments_shifted" in self.faults:
            for numbers in alike.values():
                taken.update(zip(numbers, [*numbers[-1:], *numbers[:-1]], strict=True))
        found = {n: dict(state[taken[n]]) for n in state}
        if "squares_of_other" in self.faults:
            one, other = max((n for n in alike.values() if len(n) > 1), key=len)[:2]
            found[other]["exp_avg_sq"] = state[one]["exp_avg_sq"]
        for number, values in found.items():
            if "count_lost" in self.faults:
                values["step"] = torch.zeros(())
            for key, value in values.items():
                if isinstance(value, torch.Tensor) and value.shape == held[number].shape:
                    values[key] = _like(held[number], value)
        return found

    def step(self, step, tracer):
        share = self.microbatches // self.ranks
        if self.synchronized and self.ranks == 1:
            numbers = [([0, 1], {"dim": 0})]
        else:
            numbers = [(n, {"of": share}) for n in range(share)]
        for number, told in numbers:
            last = number == share - 1 or isinstance(number, list)
            with tracer.microbatch(number, **told), self._accumulating(not last):
                loss = self.wrapped(**self.batch(step, self._global(number, share))).loss
                tracer.loss(loss)
                (loss / len(numbers)).backward()
            if "averaged_each_microbatch" in self.faults:
                self._follow()
            if "scheduled_each_microbatch" in self.faults:
                self._schedule()
        if self.masters:
            for name, master in self.masters.items():
                master.grad = self.named[name].grad.float()
        tracer.main_grads()
        for optimizer in self.optimizers:
            optimizer.step()
        self._publish()
        if "scheduled_each_microbatch" not in self.faults:
            self._schedule()
        if not {"never_averaged", "averaged_each_microbatch"} & set(self.faults):
            self._follow()
        self._balance()
        self.wrapped.zero_grad()

    def _global(self, number, share):
        return number if isinstance(number, list) else [self.rank * share + number]

    def _accumulating(self, more):
        ddp = isinstance(self.wrapped, nn.parallel.DistributedDataParallel)
        return self.wrapped.no_sync() if ddp and more else nullcontext()

    @torch.no_grad()
    def _publish(self):
        for name, master in (self.masters or {}).items():
            self.named[name].copy_(master)

    def _schedule(self):
        for scheduler in self.schedulers:
            scheduler.step()

    @torch.no_grad()
    def _follow(self):
        for name, average in self.average.items():
            average.lerp_((self.masters or self.named)[name], 0.1)

    @torch.no_grad()
    def _balance(self):
        for name, count in self.counts.items():
            if self.ranks > 1 and "bias_of_own" not in self.faults:
                distributed.all_reduce(count)
            bias = self.model.get_submodule(name).e_score_correction_bias
            bias += RATE * (count.mean() - count)
            self.counts[name] = 0


def _is_outer(name):
    return any(part in name for part in ("wte", "wpe", "embed_tokens", "lm_head"))


def _like(mine, value):
    """A whole tensor in the layout of the other."""
    if not isinstance(mine, DTensor):
        return value.clone()
    return distribute_tensor(value, mine.device_mesh, mine.placements, src_data_rank=None)


def _made(training):
    """The model, and the batch of a step's micro-batches."""
    tiny = training["tiny"]
    if not training["model"].startswith("resnet"):
        dtype = torch.bfloat16 if training["precision"] == "bf16" else torch.float32
        model = build(training["model"], dtype, tiny)

        def tokens(step, numbers):
            ids = torch.cat([_drawn(step, n, model.config.vocab_size) for n in numbers])
            return {"input_ids": ids, "labels": ids, "use_cache": False}

        return model, tokens
    small = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 2]} if tiny else {}
    torch.manual_seed(0)
    config = ResNetConfig(layer_type="basic" if tiny else "bottleneck", num_labels=10, **small)

    def images(step, numbers):
        drawn = [torch.Generator().manual_seed(1000 + 10 * step + n) for n in numbers]
        pixels = torch.cat([torch.randn(8, 3, 32, 32, generator=one) for one in drawn])
        labels = torch.cat([torch.randint(10, (8,), generator=one) for one in drawn])
        return {"pixel_values": pixels, "labels": labels}

    return ResNetForImageClassification(config).train(), images


def _drawn(step, number, vocabulary):
    generator = torch.Generator().manual_seed(1000 + 10 * step + number)
    return torch.randint(vocabulary, (1, TOKENS), generator=generator)


def train(training, out):
    saved = Job({**training, "layout": "one", "axes": {}, "fault": "", "zero": False})
    inert = tt.trace(saved.model, saved.optimizers)
    # The factors of a shard, which one fault keeps, are in no checkpoint of one process.
    for step in range(0 if training["optimizer"] == "adafactor" else BEFORE):
        saved.step(step, inert)
    job = Job(training)
    job.resume(saved)
    noise = tt.Perturb(training["noise"]) if "noise" in training else None
    specification = out.with_suffix(".specification.json") if training.get("specify") else None
    optimizers = job.optimizers if len(job.optimizers) > 1 else job.optimizers[0]
    tracer = tt.trace(job.wrapped, optimizers, out=out, perturb=noise, specification=specification)
    if training.get("average"):
        tracer.state("average", job.average)
    for step in range(training["steps"]):
        with tracer.step(step):
            job.step(BEFORE + step, tracer)
    tracer.close()


if __name__ == "__main__":
    launching.launch(launching.begin_gloo, train)
