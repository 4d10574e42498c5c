"""The seam to the collector: a run without `--trace` neither needs nor imports it."""

import functools
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from torch import Tensor

from gallery.config import Config
from gallery.experts import Experts
from gallery.model import Gpt
from gallery.optim import Optimizer
from gallery.stages import canonical


class Tracer(Protocol):
    """What the training loop tells a collector."""

    def step(self, number: int) -> AbstractContextManager[Any]: ...
    def microbatch(self, number: int) -> AbstractContextManager[Any]: ...
    def loss(self, loss: Tensor, placements: Any = None) -> object: ...
    def main_grads(self) -> None: ...
    def grad_norm(self, norm: Tensor, clip_norm: float | None) -> None: ...
    def close(self) -> None: ...


class NoTracer:
    """Listens to nothing."""

    def step(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def microbatch(self, number: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def loss(self, loss: Tensor, placements: Any = None) -> None:
        pass

    def main_grads(self) -> None:
        pass

    def grad_norm(self, norm: Tensor, clip_norm: float | None) -> None:
        pass

    def close(self) -> None:
        pass


def loss_placements(config: Config) -> Any:
    """How the loss of a micro-batch lies, for `Tracer.loss`."""
    if not config.trace or config.cp == 1:
        return None
    from ttrace_torch import Partial

    return {"cp": Partial("sum")}


def open_tracer(config: Config, model: Gpt, optimizer: Optimizer) -> Tracer:
    if not config.trace:
        return NoTracer()
    import ttrace_torch
    from gallery.layouts import layouts, main_gradients

    # Main gradients and the norm are told by the loop, so of the optimizer only its
    # hyperparameters and the fact that it made its step are left to learn.
    tracer = ttrace_torch.trace(
        model,
        optimizer=optimizer.inner,
        out=config.trace,
        mesh=ttrace_torch.Mesh(config.mesh_sizes),
        meshes={"expert": ttrace_torch.Mesh(config.expert_mesh_sizes)} if config.experts else None,
        layouts=[*layouts(config, model.stage), *main_gradients(model, optimizer.buckets)],
        rename=canonical,
        perturb=ttrace_torch.Perturb(seed=config.perturb) if config.perturb else None,
        run={"framework": "gallery", "model": "tiny_gpt", "precision": config.precision},
    )
    if config.mixes_microbatches:
        everything = range(config.microbatches)
        for module in model.modules():
            if isinstance(module, Experts):
                # Over all turns and ranks: the gradients of one turn have no key of their own.
                module.during_backward = functools.partial(tracer.microbatch, list(everything))
    return tracer
