"""The specification of a real run's first recorded step, made as the step runs.

The run is the reference: one process, no perturbation. Its operations run as they are; only what
they read and write is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable

import torch

from ttrace_torch.base.names import ModelNames
from ttrace_torch.base.process import say
from ttrace_torch.capture.calls import in_backward
from ttrace_torch.capture.recorder import Observer, describe
from ttrace_torch.capture.records import Key
from ttrace_torch.specification.after_backward import Combination, after_backward
from ttrace_torch.specification.document import document, write
from ttrace_torch.specification.marks import Marks
from ttrace_torch.specification.outside import constant_of
from ttrace_torch.specification.recorder import OperationRecorder
from ttrace_torch.specification.variants import Variant, variants_of, variants_of_each

# The types of the manifest's optimizers whose rule readers know.
_KNOWN = frozenset({"sgd", "adam", "adamw"})
# The most variants for sizes of micro-batches. Each is written whole, and readers accept no more.
_MOST_VARIANTS = 64


class ReferenceRun:
    """Records the specification of one step, and writes it to a file.

    An error is printed and ends the recording of the specification. It costs neither the training
    nor the trace of the step.
    """

    def __init__(self, path: str | Path, names: ModelNames, model: str) -> None:
        """model: name of its class."""
        self._path = Path(path)
        self._names = names
        self._model = model
        self._recorder = OperationRecorder()
        self._marks = Marks(self._recorder, names)
        # Whether the next traced step is the one to record.
        self.waits = True
        self._flags = (False, False)
        self._update: dict[str, Any] = {}
        self._inside: Callable[[], bool] = lambda: False

    def observer(self) -> Observer | None:
        """The function that gets every tensor of the step that begins; None if the step is not
        recorded."""
        return self._mark if self.waits else None

    def follow_scales(self, scales: Mapping[str, float]) -> None:
        """Takes over the factors of recorded tensors, by kind, and their later changes."""
        if self.waits:
            self._marks.scales = scales

    def _mark(self, key: Key, tensor: torch.Tensor, accumulate: bool, several: bool) -> None:
        """Passes a tensor of the step on to the marks, as long as nothing has failed."""
        if not self.waits:
            return
        try:
            self._marks(key, tensor, accumulate, several)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Gives the specification up."""
        say(f"no specification in {self._path}: {describe(error)}; the trace is not affected")
        self._end()

    def _end(self) -> None:
        """Records nothing any more."""
        self.waits = False
        self._recorder.paused = True
        # Not needed any more, and large.
        del self._marks, self._recorder

    @contextmanager
    def recording(
        self, running: Callable[[], bool], scale: torch.Tensor | None = None
    ) -> Iterator[None]:
        """Records the operations of the step inside.

        running: whether a module of the model is running.
        scale: what a GradScaler multiplies losses by.
        """
        if not self.waits:
            yield
            return
        self._inside = self._recorder.inside_model = lambda: running() or in_backward()
        try:
            self._marks.buffers()
            known = None if scale is None else constant_of(scale, self._recorder.make)
            if scale is not None and known is not None:
                self._recorder.storages.adopt(scale, known)
        except Exception as error:
            self._fail(error)
            yield
            return
        with self._recorder:
            yield

    def begin_update(self, step: int, settings: Sequence[Mapping[str, Any]]) -> None:
        """Notes that an optimizer begins its step, and follows what it computes unless readers know
        its rule. settings: the manifest's entries of its step."""
        if not self.waits:
            return
        recorder = self._recorder
        self._flags = recorder.sizes_depend_on_data, recorder.chooses
        if all(one.get("type") in _KNOWN for one in settings):
            recorder.paused = True
            return
        # Numbers that it makes and reads are of this very step.
        recorder.of_step = True
        self._update["step"] = step

    def end_update(self, names: Iterable[str] | None) -> None:
        """Notes that an optimizer has made its step. Where others follow, `names` are the
        parameters that it has updated: what is computed from now on follows from their new
        values."""
        if not self.waits:
            return
        recorder, followed = self._recorder, not self._recorder.paused
        recorder.paused, recorder.of_step = False, False
        recorder.sizes_depend_on_data, recorder.chooses = self._flags
        try:
            if names is not None:
                self._marks.updated(names, followed)
            elif not followed:
                self._marks.forget_parameters()
        except Exception as error:
            self._fail(error)

    def finish(self, clip_norm: float | None, settings: Sequence[Mapping[str, Any]]) -> None:
        """Writes the specification of the step, which has ended. settings: the manifest's entries
        of its optimizers, as they are now: how gradients were clipped is known."""
        if not self.waits:
            return
        if self._update:
            self._update["settings"] = list(map(_settings, settings))
        try:
            self._finish(clip_norm)
        except Exception as error:
            self._fail(error)
        else:
            self._end()

    def _finish(self, clip_norm: float | None) -> None:
        marks, recorder = self._marks, self._recorder
        if marks.several_microbatches:
            say(
                f"no specification in {self._path}: the step ran several micro-batches at once; "
                "run them one by one"
            )
            return
        marks.forget_written_buffers()
        for operation, count in recorder.mistakes.items():
            say(f"specification: {count} time(s) opaque by a mistake of the collector: {operation}")
        combination = Combination(recorder.graph, marks)
        variants = self._variants()
        _, *others = marks.by_microbatch().values()
        if len(variants) > _MOST_VARIANTS:
            say(
                f"specification: {len(variants)} micro-batches are unlike each other; what depends "
                f"on their sizes is specified for the first {_MOST_VARIANTS} of them"
            )
            del variants[_MOST_VARIANTS:]
        found = document(
            recorder.graph,
            marks.opened(),
            "reference run",
            self._model,
            after_backward(
                self._names,
                combination.main_grad,
                clip_norm if combination.clipped else None,
            ),
            marks.scales,
            variants,
            [] if variants else [{**marks.of_step(), **one} for one in others],
            self._update,
        )
        unknown = marks.read_numbers() - sum(
            "number" in tensor
            for part in found.get("variants") or [found]
            for tensor in part["tensors"]
        )
        if unknown > 0:
            say(
                f"specification: the model read {unknown} number(s) from tensors that nothing "
                "recorded explains; they are constants in it, right for this micro-batch alone"
            )
        try:
            write(found, self._path)
        except OSError as error:
            say(f"no specification in {self._path}: {error}")

    def _variants(self) -> list[Variant]:
        """The marks for each of the sizes that micro-batches have; or for each micro-batch, if
        elements decide on sizes or are read as numbers, or if micro-batches are of several kinds,
        such as those of a generator and of its critic. Empty if nothing could tell that another run
        has other sizes."""
        recorder, marks = self._recorder, self._marks
        of_step, microbatches = marks.of_step(), marks.by_microbatch()
        if recorder.sizes_depend_on_data:
            return []
        several = marks.several_phases or len({frozenset(m) for m in microbatches.values()}) > 1
        if recorder.chooses or marks.read_numbers() or several:
            return variants_of_each(of_step, microbatches)
        return variants_of(recorder.graph, of_step, list(microbatches.values()))

    def drop(self) -> None:
        """Forgets a step that threw; the next one is recorded."""
        if self.waits:
            self._recorder = OperationRecorder()
            self._marks = Marks(self._recorder, self._names)
            self._update = {}


def _settings(entry: Mapping[str, Any]) -> dict[str, Any]:
    """The type, the parameters and the numbers of an optimizer's group."""
    numbers = {
        name: value
        for name, value in entry.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and name != "step"
    }
    return {"type": entry["type"], "params": list(entry["params"]), "numbers": numbers}


class NoReference(ReferenceRun):
    """No specification is asked for."""

    def __init__(self) -> None:
        self.waits = False


def refusal(ranks: int, is_changed: bool) -> str | None:
    """Why no specification can be made from a run as the reference; None if it can.

    ranks: of its meshes. is_changed: whether it is perturbed or rewritten.
    """
    if ranks != 1:
        return f"the run has {ranks} ranks, and a specification is that of one process"
    if is_changed:
        return "the run is perturbed or rewritten"
    return None
