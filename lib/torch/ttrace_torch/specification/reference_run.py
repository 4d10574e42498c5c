"""The specification of a real run's first recorded step, made as the step runs.

The run is the reference: one process, no perturbation. Its operations run as they are; only what
they read and write is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Callable

import torch

from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.base.process import say
from ttrace_torch.capture.calls import in_backward
from ttrace_torch.capture.recorder import Observer, describe
from ttrace_torch.capture.records import Key
from ttrace_torch.specification.after_backward import Combination, after_backward
from ttrace_torch.specification.document import document, write
from ttrace_torch.specification.marks import Marks
from ttrace_torch.specification.number_lists import noting_lists
from ttrace_torch.specification.outside import constant_of
from ttrace_torch.specification.recorder import OperationRecorder
from ttrace_torch.specification.updates import Updates
from ttrace_torch.specification.variants import Variant, variants_of, variants_of_each

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
        self._updates = Updates(names)
        self._found: dict[str, Any] | None = None

    def observer(self) -> Observer | None:
        """The function that gets every tensor of the step that begins; None if the step is not
        recorded."""
        return self._mark if self.waits or self._follows() else None

    def _follows(self) -> bool:
        """Whether updates are followed: there is a specification that they belong to, or will
        be."""
        return (self.waits or self._found is not None) and self._updates.waits

    def follow_scales(self, scales: Mapping[str, float]) -> None:
        """Takes over the factors of recorded tensors, by kind, and their later changes."""
        if self.waits:
            self._marks.scales = scales
        self._updates.scales = scales

    def _mark(self, key: Key, tensor: torch.Tensor, accumulate: bool, several: bool) -> None:
        """Passes a tensor of the step on to the marks, as long as nothing has failed."""
        if self._follows():
            try:
                self._updates(key, tensor)
            except Exception as error:
                self._updates.give_up(error)
        if not self.waits or self._is_own_buffer(key):
            return
        try:
            self._marks(key, tensor, accumulate, several)
        except Exception as error:
            self._fail(error)

    def _is_own_buffer(self, key: Key) -> bool:
        """Whether it is a buffer of the model, which the marks know from the beginning."""
        if key.kind != "buffer":
            return False
        owner, _, local = key.name.rpartition(".")
        module = self._names.modules.get(owner or ROOT)
        return module is not None and local in module._buffers

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
        if self._follows():
            self._updates.running = running
        if not self.waits:
            if not self._follows():
                yield
                return
            with self._updates.recorder:
                yield
            return
        self._recorder.inside_model = lambda: running() or in_backward()
        try:
            self._marks.buffers()
            known = None if scale is None else constant_of(scale, self._recorder.make)
            if scale is not None and known is not None:
                self._recorder.storages.adopt(scale, known)
        except Exception as error:
            self._fail(error)
            yield
            return
        with self._updates.recorder, self._recorder, noting_lists(self._recorder):
            yield

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Records no operation inside."""
        with ExitStack() as stack:
            if self.waits:
                stack.enter_context(self._recorder.resting())
            if self._follows():
                stack.enter_context(self._updates.recorder.resting())
            yield

    def end_recording(self) -> None:
        """Notes that the gradients are final: nothing after that is specified."""
        if self.waits:
            self._recorder.paused = True

    def begin_update(
        self, settings: Sequence[Mapping[str, Any]], changed: bool, rewritten: Iterable[str]
    ) -> None:
        """Notes that an optimizer begins its step.

        settings: the manifest's entries of it.
        changed: whether its gradients were changed in a way that no replay knows.
        rewritten: the parameters that are not what they were when the step began.
        """
        self.end_recording()
        if not self._follows():
            return
        try:
            self._updates.begin(settings, changed, rewritten)
        except Exception as error:
            self._updates.give_up(error)

    def note_norm(self, name: str, norm: Any) -> None:
        """Notes the norm that gradients, which were recorded, are about to be clipped by."""
        if not self._follows() or not isinstance(norm, torch.Tensor):
            return
        try:
            self._updates.note_norm(name, norm)
        except Exception as error:
            self._updates.give_up(error)

    def end_update(self, names: Iterable[str] | None) -> None:
        """Notes that an optimizer has made its step. Of several, `names` are the parameters that it
        has updated: the step goes on, and what is computed from now on follows from their new
        values."""
        if self._follows():
            self._updates.end(names)
        if not self.waits or names is None:
            return
        self._recorder.paused = False
        try:
            self._marks.updated(names)
        except Exception as error:
            self._fail(error)

    def finish(
        self,
        clip_norm: float | None,
        step: int,
        settings: Sequence[Mapping[str, Any]],
        rewritten: Sequence[str],
    ) -> None:
        """Writes the specification of a step that has ended.

        settings: the manifest's entries of its optimizers.
        rewritten: the parameters that it has changed by hand.
        """
        is_new = self.waits
        if is_new:
            try:
                self._finish(clip_norm)
            except Exception as error:
                self._fail(error)
            else:
                self._end()
        if self._found is None:
            return
        if self._follows():
            try:
                is_new |= self._updates.finish(step, settings, rewritten)
            except Exception as error:
                self._updates.give_up(error)
        if not is_new:
            return
        if self._updates.entries:
            self._found["updates"] = self._updates.entries
        try:
            write(self._found, self._path)
        except OSError as error:
            say(f"no specification in {self._path}: {error}")

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
        )
        if recorder.sizes_depend_on_data or recorder.chooses or marks.read_numbers():
            found["decided_by_values"] = True
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
        self._found = found

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
        self._updates.reset()
        if self.waits:
            self._recorder = OperationRecorder()
            self._marks = Marks(self._recorder, self._names)


class NoReference(ReferenceRun):
    """No specification is asked for."""

    def __init__(self) -> None:
        self.waits = False
        self._found = None

    def follow_scales(self, scales: Mapping[str, float]) -> None:
        """Follows nothing."""

    def drop(self) -> None:
        """Has nothing to forget."""


def refusal(ranks: int, is_changed: bool) -> str | None:
    """Why no specification can be made from a run as the reference; None if it can.

    ranks: of its meshes. is_changed: whether it is perturbed or rewritten.
    """
    if ranks != 1:
        return f"the run has {ranks} ranks, and a specification is that of one process"
    if is_changed:
        return "the run is perturbed or rewritten"
    return None
