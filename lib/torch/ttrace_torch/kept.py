"""What lives between the steps and no optimizer moves: buffers, and state that the user names.

Both are recorded when a step begins and when it ends. A buffer that `state_dict()` leaves out is
made from the model's configuration, or is scratch memory: its author says that it is no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import nn

from ttrace_torch.base.names import ROOT, buffers_of
from ttrace_torch.base.problems import Problems
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import Step, version_of
from ttrace_torch.copies import CopiesOfModel, Source, tensors_of
from ttrace_torch.job import TracedJob
from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.layout.placements import Placements, Skip

BEFORE = "buffer"
AFTER = "buffer_after_step"

_OWN_SAMPLES = Skip(
    "each data-parallel rank wrote it in its own forwards, from its own samples, and nothing made "
    "the ranks agree"
)


class _Buffer(NamedTuple):
    """A buffer of the model. owner: the module that holds it."""

    name: str
    tensor: torch.Tensor
    placements: Placements
    owner: nn.Module


# The tensor, and how often it had been changed in place.
_Version = tuple[int, int]


@dataclass
class _Versions:
    """of_forward: those after the last forward of the model, and at the begin of the last update:
    what was written by then was written by forwards and backwards."""

    at_begin: dict[str, _Version] = field(default_factory=dict)
    of_forward: dict[str, _Version] = field(default_factory=dict)


class KeptState:
    """Records the state of a job that no optimizer moves.

    sources: name -> state that the user names, and its tensors with their own names behind it.
    """

    def __init__(self, job: TracedJob, problems: Problems) -> None:
        self._job = job
        self.sources: dict[str, Source] = {}
        self._copies = CopiesOfModel(job.names, problems)
        self._versions: _Versions | None = None  # once a step has begun
        # Buffers that a traced step has shown to be of the rank's own samples.
        self._of_rank: set[str] = set()

    def begin(self, step: Step, is_later: bool, stack: ExitStack) -> None:
        """Records the state at the beginning of a step, and follows the model's forwards until
        `stack` ends.

        is_later: whether the job has trained before.
        """
        buffers = list(self._buffers())
        if is_later and self._versions is None and self._shares() > 1:
            # What the steps before did with them was not seen.
            self._of_rank.update(one.name for one in buffers if _is_normed(one))
        self._record(step, BEFORE, buffers)
        if step.recorder.stores(AFTER):
            self._record_sources(step, BEFORE, self._copies.begin(self.sources))
            for name, tensor in self._copies.may_move():
                step.recorder.observe(Key(step.number, None, BEFORE, name), tensor)
        self._versions = _Versions(_versions(buffers))
        if self._shares() > 1 and buffers:
            for part in self._job.names.naming.parts(self._job.names.model):
                stack.callback(part.register_forward_hook(lambda *_: self.note()).remove)

    def note(self) -> None:
        """Notes that all buffers that have been written were so in a forward or backward."""
        if self._shares() > 1 and self._versions is not None:
            self._versions.of_forward = _versions(self._buffers())

    def end(self, step: Step) -> None:
        """Records the state at the end of a step."""
        buffers = list(self._buffers())
        now, before = _versions(buffers), self._versions or _Versions()
        for one in buffers:
            if self._shares() == 1 or _is_synchronized(one.owner):
                continue
            by_forward = now[one.name] == before.of_forward.get(one.name)
            written = now[one.name] != before.at_begin.get(one.name)
            # The kernel of a batch norm does not count what it writes.
            if by_forward and (written or _is_normed(one)):
                self._of_rank.add(one.name)
            elif not by_forward:
                # What runs behind the last forward may have made the ranks agree.
                self._of_rank.discard(one.name)
        self._record(step, AFTER, buffers)
        copies, kept = self._copies.end()
        self._record_sources(step, AFTER, copies)
        for name, tensor in kept.items():
            local = name.partition(".")[2]
            self._add(step, Key(step.number, None, BEFORE, name), tensor, local, observed=False)

    def _shares(self) -> int:
        """How many ranks have samples of their own, or may have them."""
        data = self._job.data
        return data.place[1] if data.place is not None else len(data.ranks)

    def _record(self, step: Step, kind: str, buffers: Iterable[_Buffer]) -> None:
        if not step.recorder.stores(kind):
            return
        for one in buffers:
            key = Key(step.number, None, kind, one.name)
            placements = _OWN_SAMPLES if one.name in self._of_rank else one.placements
            step.recorder.add(key, one.tensor, placements)
        self._record_sources(step, kind, self.sources)

    def _record_sources(self, step: Step, kind: str, sources: Mapping[str, Source]) -> None:
        if not step.recorder.stores(kind):
            return
        for name, source in sources.items():
            with step.recorder.guarded(Key(step.number, None, kind, name)):
                for local, tensor in tensors_of(source):
                    key = Key(step.number, None, kind, f"{name}.{local}")
                    self._add(step, key, tensor, local)

    def _add(
        self, step: Step, key: Key, tensor: torch.Tensor, local: str, observed: bool = True
    ) -> None:
        """Records a tensor that is not the model's. local: the model's name for it."""
        given = _OWN_SAMPLES if local in self._of_rank else self._placed(local, tensor)
        step.recorder.add(key, tensor, given, observed=observed)

    def _buffers(self) -> Iterator[_Buffer]:
        """The chosen buffers; of one that several modules hold, the first."""
        job = self._job
        met: set[int] = set()
        for module_name, module in job.names.modules.items():
            if module_name not in job.selection.modules:
                continue
            layout = job.assignment.modules[module_name]
            for local, tensor in buffers_of(module):
                if id(tensor) not in met:
                    met.add(id(tensor))
                    name = local if module_name == ROOT else f"{module_name}.{local}"
                    yield _Buffer(name, tensor, layout.of_buffer(local), module)

    def _placed(self, name: str, tensor: torch.Tensor) -> Placements:
        """Those of the parameter whose copy or average the tensor is."""
        layout = self._job.assignment.parameters.get(name)
        parameter = self._job.names.parameters.get(name)
        if layout is None or parameter is None or parameter.shape != tensor.shape:
            return {}
        return layout.of("param")


def _versions(buffers: Iterable[_Buffer]) -> dict[str, _Version]:
    return {one.name: (id(one.tensor), version_of(storage_of(one.tensor))) for one in buffers}


def _is_normed(one: _Buffer) -> bool:
    """Whether it holds statistics that a batch norm takes of a rank's own samples."""
    plain = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return isinstance(one.owner, plain) and one.owner.training


def _is_synchronized(owner: nn.Module) -> bool:
    return isinstance(owner, nn.SyncBatchNorm)
