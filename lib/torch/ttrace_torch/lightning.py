"""A callback that traces a Trainer of Lightning, without a line in the module that it trains."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.utils.data.distributed import DistributedSampler

from ttrace_torch.api import trace
from ttrace_torch.base.names import ModelNames
from ttrace_torch.base.process import say_for_job
from ttrace_torch.config import is_active
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks.native import Native
from ttrace_torch.frameworks.registry import register_framework
from ttrace_torch.tracer import Tracer

# Two distributions have it, and a job uses one of them.
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _lightning() -> Any:
    """The package that the job uses. Throws TraceError without one."""
    for name in (*(name for name in _PACKAGES if name in sys.modules), *_PACKAGES):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError:
            continue
    raise TraceError("ttrace_torch.lightning needs Lightning: pip install lightning")


_package = _lightning()
_Base: Any = _package.Callback


@register_framework
class Lightning(Native):
    """PyTorch's parallelism, as Lightning's strategies set it up."""

    name = "lightning"

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.label = f"Lightning {_package.__version__} on {self.label}"
        self._module = getattr(model, "module", model)  # under DDP

    @staticmethod
    def made(model: Any) -> bool:
        return isinstance(getattr(model, "module", model), _package.LightningModule)

    def model_class(self, names: ModelNames) -> str:
        # FSDP2 puts a class of its own in front.
        bases = type(self._module).__mro__
        own = (b for b in bases if all(inner.__name__ != "FSDPModule" for inner in b.__mro__))
        return next(own).__name__


class Callback(_Base):  # type: ignore[misc]
    """Traces the optimizer steps of `Trainer.fit`, as one of `Trainer(callbacks=[...])`.

    arguments: those of `ttrace_torch.trace`, without model and optimizer.

    The steps have Lightning's numbers, `trainer.global_step`. Recorded are also the loss that
    `training_step` returns, before Lightning divides it, and the gradients before Lightning clips
    them, which tells nobody their norm. A module that steps its optimizers itself
    (`automatic_optimization = False`) is refused.
    """

    def __init__(self, **arguments: Any) -> None:
        super().__init__()
        self._arguments = arguments
        self._job = ExitStack()
        self._step = ExitStack()
        self._microbatch = ExitStack()
        self._begun: int | None = None  # the step that is traced
        self._sampler: DistributedSampler[Any] | None = None
        self.tracer: Tracer | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        if not pl_module.automatic_optimization:
            self._refuse(
                f"{type(pl_module).__name__}.automatic_optimization is False: its training_step "
                "makes the optimizer steps, so call tt.trace() and its contexts there"
            )
            return
        optimizers = list(trainer.optimizers)
        optimizer = optimizers[0] if len(optimizers) == 1 else optimizers
        self.tracer = trace(trainer.model, optimizer, **self._arguments)
        self._sampler = next(_dealing(trainer.train_dataloader), None)
        if self.tracer.active:
            wrapped = trainer.model is not pl_module
            self._job.enter_context(_followed(pl_module, wrapped, self.tracer))

    def on_train_batch_start(
        self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        tracer = self.tracer
        if tracer is None or not tracer.active:
            return
        accumulated = trainer.accumulate_grad_batches
        number = batch_idx % accumulated
        if self._begun is None:
            self._begun = trainer.global_step
            self._step.enter_context(tracer.step(self._begun))
        if self._sampler is not None:
            given = number * self._sampler.num_replicas + self._sampler.rank
            self._microbatch.enter_context(tracer.microbatch(given))
        else:
            # The last step of an epoch takes what is left.
            count = min(accumulated, trainer.num_training_batches - (batch_idx - number))
            self._microbatch.enter_context(tracer.microbatch(number, of=int(count)))

    def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
        self._microbatch.close()

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._microbatch.close()
        if self._begun is not None and trainer.global_step > self._begun:
            self._leave()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        self._leave()
        self._job.close()
        if self.tracer is not None:
            self.tracer.close()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        # A step that was not finished is dropped.
        self._microbatch.close()
        self._begun = None
        self._step.__exit__(type(exception), exception, exception.__traceback__)
        self.on_train_end(trainer, pl_module)

    def _leave(self) -> None:
        """Ends the step that runs, if any."""
        self._begun = None
        self._step.close()

    def _refuse(self, why: str) -> None:
        """Throws if the arguments ask for a trace; says so if the environment alone does."""
        out, specification = (self._arguments.get(name) for name in ("out", "specification"))
        if out or specification:
            raise TraceError(why)
        if is_active(out, specification):
            say_for_job(f"nothing is recorded: {why}")


def _dealing(loaders: Any) -> Iterator[DistributedSampler[Any]]:
    """The samplers that deal out samples to the ranks in turn, as Lightning's own do."""
    if isinstance(loaders, (Mapping, list, tuple)):
        for loader in loaders.values() if isinstance(loaders, Mapping) else loaders:
            yield from _dealing(loader)
    elif isinstance(getattr(loaders, "sampler", None), DistributedSampler):
        yield loaders.sampler


@contextmanager
def _followed(module: Any, wrapped: bool, tracer: Tracer) -> Iterator[None]:
    """Tells `tracer` of the losses that training_step returns.

    wrapped: whether the module is called with what training_step gets, as Lightning does through
        the wrapper of DDP. Where it calls training_step alone, the module is called here, so that
        the traces of both have the same tensors.
    """
    training_step = module.training_step

    def recorded(*given: Any, **named: Any) -> Any:
        returned = training_step(*given, **named)
        loss = returned.get("loss") if isinstance(returned, Mapping) else returned
        if isinstance(loss, torch.Tensor):
            tracer.loss(loss)
        return returned

    def called(*given: Any, **named: Any) -> Any:
        own = vars(module).get("forward")

        def forward(*args: Any, **kwargs: Any) -> Any:
            _put_back(module, "forward", own)  # training_step may call the module
            return recorded(*args, **kwargs)

        module.forward = forward
        return module(*given, **named)

    own = vars(module).get("training_step")
    module.training_step = recorded if wrapped else called
    try:
        yield
    finally:
        _put_back(module, "training_step", own)


def _put_back(module: Any, name: str, own: Any) -> None:
    """Gives `module` its attribute back; None: it had that of its class."""
    if own is None:
        vars(module).pop(name, None)
    else:
        setattr(module, name, own)
