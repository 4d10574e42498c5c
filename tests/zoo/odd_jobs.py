"""Jobs that nobody ships: small models of many kinds, each with an objective of its own.

Usage: python -m zoo.odd_jobs [--device cuda] [--autocast] [--only JOB]... [--at-once N]

The reference, its noise run and its specification are made on the CPU; the candidate by other
kernels there, or on a GPU. `ttrace audit` judges both, `ttrace compare` the candidate without
noise and with it, and both commands judge a run whose gradient of one parameter, drawn by the job's
name, is 1.05 times too large. Exits with 1 if a healthy run is accused, with 3 if a job was not
trained. A fault that passes is counted and is no failure: a bias before a batch norm has no
gradient but rounding.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt
from zoo import odd_networks as networks
from zoo import odd_objectives as objectives

Batch = tuple[torch.Tensor, ...]
SECONDS = 300
_PROCESSES = multiprocessing.get_context("forkserver")


class Job(NamedTuple):
    """loss: of the model and a batch. labelled: its last tensor is read by the loss alone."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    loss: Callable[[Any, Batch], torch.Tensor] = lambda model, batch: model(*batch)
    labelled: bool = False


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def _choices(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(below, shape)


def _labelled(
    model: Callable[[], nn.Module],
    batch: Callable[[], Batch],
    loss: Callable[..., torch.Tensor] = F.cross_entropy,
) -> Job:
    def of(model: Any, batch: Batch) -> torch.Tensor:
        return loss(model(*batch[:-1]), batch[-1])

    return Job(model, batch, of, labelled=True)


def _next_word(model: Any, batch: Batch) -> torch.Tensor:
    scores = model(*batch)
    return F.cross_entropy(scores[:, :-1].flatten(0, 1), batch[-1][:, 1:].flatten())


def _expert_loss(model: Any, batch: Batch) -> torch.Tensor:
    scores, balance = model(batch[0])
    return F.cross_entropy(scores, batch[1]) + 0.01 * balance


def _critic_loss(model: Any, batch: Batch) -> torch.Tensor:
    """With a penalty on the gradient of its own input: a second derivative."""
    real, made = batch
    between = (real * 0.3 + made * 0.7).requires_grad_()
    (slope,) = torch.autograd.grad(model(between).sum(), between, create_graph=True)
    penalty = (slope.norm(2, dim=1) - 1).square().mean()
    return model(real).mean() - model(made).mean() + 10 * penalty


def _mixed(model: Any, batch: Batch) -> torch.Tensor:
    images, labels = (0.7 * x + 0.3 * x.flip(0) for x in batch)
    return F.cross_entropy(model(images), labels)


JOBS = {
    "flow": Job(objectives.Flow, lambda: (_numbers(8, 8),)),
    "neural ode": _labelled(
        networks.NeuralOde, lambda: (_numbers(6, 4), _numbers(6, 2)), F.mse_loss
    ),
    "triplets": Job(objectives.Triplets, lambda: (_numbers(8, 12),)),
    "u-net": _labelled(networks.UNet, lambda: (_numbers(2, 3, 8, 8), _choices(2, 2, 8, 8))),
    "gaussian process": Job(objectives.GaussianProcess, lambda: (_numbers(10, 3), _numbers(10))),
    "actor and critic": Job(
        objectives.ActorCritic, lambda: (_numbers(3, 5, 6), _choices(4, 3, 5), _numbers(3, 5))
    ),
    "relative positions": Job(
        networks.RelativePositions, lambda: (_choices(40, 3, 10),), _next_word
    ),
    "latent attention": _labelled(
        networks.LatentAttention, lambda: (_numbers(4, 9, 12), _choices(3, 4))
    ),
    "experts with a capacity": Job(
        networks.ExpertsWithCapacity,
        lambda: (_numbers(12, 12), _choices(5, 12)),
        _expert_loss,
        labelled=True,
    ),
    "mixture density": Job(objectives.MixtureDensity, lambda: (_numbers(9, 3), _numbers(9))),
    "hypernetwork": _labelled(
        networks.Hypernetwork, lambda: (_numbers(4, 3, 6, 6), _choices(4, 4)), F.multi_margin_loss
    ),
    "negative sampling": Job(
        objectives.NegativeSampling,
        lambda: (_choices(60, 8), _choices(60, 8), _choices(60, 8, 5)),
    ),
    "codebook": Job(objectives.Codebook, lambda: (_numbers(9, 12),)),
    "rays": _labelled(
        objectives.Rays, lambda: (_numbers(5, 7, 3), _numbers(5, 3).sigmoid()), F.mse_loss
    ),
    "chain": Job(objectives.Chain, lambda: (_choices(30, 3, 6), _choices(5, 3, 6))),
    "graph attention": _labelled(
        networks.GraphAttention,
        lambda: (_numbers(12, 8), _choices(12, 2, 40), _choices(4, 12)),
    ),
    "clipped policy": Job(
        objectives.ClippedPolicy,
        lambda: (_numbers(8, 6), _numbers(8, 3), _numbers(8) - 3, _numbers(8), _numbers(8)),
    ),
    "translator": Job(
        networks.Translator, lambda: (_choices(30, 3, 6), _choices(30, 3, 5)), _next_word
    ),
    "wavenet": _labelled(networks.WaveNet, lambda: (_numbers(2, 1, 20), _choices(12, 2, 20))),
    "splines": _labelled(
        networks.Splines, lambda: (_numbers(9, 4).clamp(-2, 2), _numbers(9, 1)), F.l1_loss
    ),
    "critic": Job(objectives.Critic, lambda: (_numbers(7, 6), _numbers(7, 6)), _critic_loss),
    "deformed sampling": _labelled(
        networks.DeformedSampling, lambda: (_numbers(3, 3, 7, 7), _choices(4, 3))
    ),
    "sinkhorn": Job(objectives.Sinkhorn, lambda: (_numbers(6, 6), _numbers(7, 6))),
    "channel weights": Job(
        networks.ChannelWeights,
        lambda: (_numbers(6, 3, 16, 16), _numbers(6, 5).softmax(-1)),
        _mixed,
        labelled=True,
    ),
}
OPTIMIZERS: tuple[tuple[type[torch.optim.Optimizer], dict[str, float]], ...] = (
    (torch.optim.AdamW, {"lr": 1e-3}),
    (torch.optim.NAdam, {"lr": 1e-3}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
    (torch.optim.Adamax, {"lr": 1e-3}),
)


def optimizer_of(job: str) -> tuple[type[torch.optim.Optimizer], dict[str, float]]:
    return OPTIMIZERS[list(JOBS).index(job) % len(OPTIMIZERS)]


def train(
    name: str,
    out: Path,
    device: str = "cpu",
    *,
    specification: Path | None = None,
    seed: int | None = None,
    other: bool = False,
    faulty: bool = False,
    autocast: bool = False,
) -> None:
    """Writes a step of two micro-batches. other: without oneDNN. autocast: in bfloat16."""
    torch.set_num_threads(1)
    if other:
        torch.backends.mkldnn.set_flags(False)
    job = JOBS[name]
    torch.manual_seed(1)
    model = job.model().to(device)
    kind, settings = optimizer_of(name)
    optimizer = kind(model.parameters(), **settings)
    torch.manual_seed(2)
    batches = [tuple(x.to(device) for x in job.batch()) for _ in range(2)]
    if faulty:
        parameters = [p for p in model.parameters() if p.numel() > 3]
        chosen = random.Random(name).choice(parameters)
        chosen.register_hook(lambda gradient: gradient * 1.05)
    perturb = None if seed is None else tt.Perturb(seed)
    tracer = tt.trace(model, optimizer, out=out, specification=specification, perturb=perturb)
    with tracer.step(0):
        for number, batch in enumerate(batches):
            with tracer.microbatch(number):
                with torch.autocast(device, torch.bfloat16, enabled=autocast):
                    loss = job.loss(model, batch) / len(batches)
                labels = {"labels": batch[-1]} if job.labelled else {}
                tracer.loss(loss, **labels).backward()
        tracer.main_grads()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        tracer.grad_norm(norm, clip_norm=0.5)
        optimizer.step()
    tracer.close()


def _child(log: Path, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
    with log.open("a") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        train(*arguments, **options)


def _trained(log: Path, *arguments: Any, **options: Any) -> bool:
    process = _PROCESSES.Process(target=_child, args=(log, arguments, options))
    process.start()
    process.join(SECONDS)
    process.kill()
    return process.exitcode == 0


class Answer(NamedTuple):
    job: str
    asked: str
    healthy: bool
    code: int | None  # None: the job was not trained
    line: str


def answers_of(
    job: str, reference: Path, noise: Path, specification: Path, run: Path, faulty: Path
) -> list[Answer]:
    """What both commands say of a healthy run and of a faulty one, printed as well."""
    followed = ("--specification", specification)
    pairs = ((), ("--noise", noise))
    asked: list[tuple[str, bool, tuple[Any, ...]]] = [
        ("audit of the reference", True, ("audit", reference, *followed))
    ]
    for healthy, candidate in ((True, run), (False, faulty)):
        asked.append(("audit", healthy, ("audit", candidate, *followed)))
        asked += [
            ("compare" + " --noise" * bool(n), healthy, ("compare", reference, candidate, *n))
            for n in pairs
        ]
    answers = []
    for what, healthy, arguments in asked:
        done = run_ttrace(*arguments, timeout=SECONDS)
        line = (done.stdout or done.stderr).partition("\n")[0]
        answers.append(Answer(job, what, healthy, done.returncode, line))
    return answers


def tried(name: str, device: str, autocast: bool) -> list[Answer]:
    with tempfile.TemporaryDirectory(prefix="ttrace-odd-") as folder:
        here = Path(folder)
        log, specification = here / "log", here / "specification.json"
        reference, noise, run, faulty = (here / f"{n}.h5" for n in ("ref", "noise", "run", "bad"))
        runs: tuple[tuple[Path, str, dict[str, Any]], ...] = (
            (reference, "cpu", {"specification": specification}),
            (noise, "cpu", {"seed": 1}),
            (run, device, {"other": device == "cpu"}),
            (faulty, device, {"faulty": True}),
        )
        trained = all(
            _trained(log, name, out, where, autocast=autocast, **options)
            for out, where, options in runs
        )
        if not trained:
            return [Answer(name, "training", True, None, log.read_text(errors="replace")[-600:])]
        return answers_of(name, reference, noise, specification, run, faulty)


def each_of(jobs: list[str], tried: Callable[[str], list[Answer]], at_once: int) -> list[Answer]:
    """All answers, each printed when its job has ended."""
    answers = []
    with ThreadPoolExecutor(at_once) as pool:
        for some in pool.map(tried, jobs):
            for answer in some:
                state = "healthy" if answer.healthy else "faulty"
                print(f"{answer.job}, {state}: {answer.asked}: {answer.line[:200]}", flush=True)
            answers += some
    return answers


def told(answers: list[Answer]) -> int:
    """Prints the counts; the exit code."""
    lost = [a for a in answers if a.code is None]
    for what in dict.fromkeys(a.asked for a in answers if a.code is not None):
        codes = [a.code for a in answers if a.asked == what and a.healthy]
        faults = [a.code for a in answers if a.asked == what and not a.healthy]
        found = f"; of {len(faults)} faults {faults.count(1)} found" if faults else ""
        print(
            f"{what}: of {len(codes)} healthy runs {codes.count(1)} accused and {codes.count(3)}"
            f" inconclusive{found}"
        )
    accused = any(a.code not in (0, 3, None) for a in answers if a.healthy)
    return 1 if accused else 3 if lost or not answers else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--autocast", action="store_true", help="in bfloat16")
    parser.add_argument("--only", action="append", choices=sorted(JOBS))
    parser.add_argument("--at-once", type=int, default=2, help="how many jobs at a time")
    args = parser.parse_args()
    _PROCESSES.set_forkserver_preload(["zoo.odd_jobs"])

    def one(name: str) -> list[Answer]:
        return tried(name, args.device, args.autocast)

    return told(each_of(args.only or list(JOBS), one, args.at_once))


if __name__ == "__main__":
    sys.exit(main())
