"""What a traced step records around the optimizer's step: final gradients, settings, parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Any

import torch

from ttrace_torch.base.collection import without_collection
from ttrace_torch.base.problems import Problems
from ttrace_torch.capture.clipping import GRAD_NORM, Clip
from ttrace_torch.capture.recorder import describe
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.step import Step
from ttrace_torch.frameworks.framework import Watch
from ttrace_torch.job import TracedJob
from ttrace_torch.kept import KeptState
from ttrace_torch.optimizer.masters import is_copy
from ttrace_torch.optimizer.rewritten import RewrittenParameters
from ttrace_torch.optimizer.several import OptimizersWatch
from ttrace_torch.optimizer.watch import OptimizerWatch

_RAW = ("grad_output", "param_grad")
_UNTOLD = (
    "gradients were changed before the optimizer's step, as by clipping: tell it with "
    "tracer.grad_norm(norm, clip_norm=...), with parameters=... if it is not of all; without it "
    "the update cannot be replayed"
)
_ANOTHER_WAY = (
    "gradients are clipped by value, by another norm than L2, or several times: the updates of "
    "these parameters cannot be replayed"
)


@dataclass
class _Ways:
    """of: parameter -> number of what its gradients were clipped by.
    changes: that number, or -1 for all others -> addition to the optimizer's type, and settings."""

    of: dict[str, int]
    changes: dict[int, tuple[str, dict[str, Any]]]


class TracedUpdates:
    """Records the updates of a job.

    watch: follows the optimizer; None without one.

    Several optimizers may make their steps at different times of a step. `part` is the watch of the
    one that does; None where there is only one.
    """

    def __init__(self, job: TracedJob, problems: Problems, kept: KeptState) -> None:
        self.watch: Watch | None = None
        # How many updates each optimizer has made, traced or not.
        self._made: Counter[int] = Counter()
        self._job = job
        self._problems = problems
        self._kept = kept
        self._rewritten = RewrittenParameters()

    def scales(self) -> dict[str, float]:
        """Kind -> factor that its tensors must be multiplied by, with that of a GradScaler and that
        by which the job averages."""
        scales, scaler = self._job.framework.scales(), self._job.scaler
        if self._job.divisor != 1:
            for kind in _RAW:
                scales[kind] = scales.get(kind, 1.0) / self._job.divisor
        if scaler.active:
            for kind in _RAW:
                scales[kind] = scales.get(kind, 1.0) / scaler.scale()
        return scales

    def rewritten(self) -> list[str]:
        """The parameters that the step has changed by hand."""
        return sorted(self._rewritten.names)

    def count(self) -> int:
        """How many updates the optimizer has made, traced or not; of several, the one that has made
        most."""
        return max(self._made.values(), default=0)

    def made(self, step: Step | None, part: OptimizerWatch | None) -> None:
        """Notes that an optimizer has made its step."""
        self._made[id(part)] += 1
        if step is None:
            return
        step.updated.append(part)
        names = self._job.names
        held = None if part is None else (part.held(names) or set()) & set(names.parameters)
        self._job.reference.end_update(held)
        with self._job.reference.resting():
            self._rewritten.end_update(self.watch if part is None else part)

    @without_collection()
    def record_parameters(
        self,
        step: Step,
        kind: str,
        names: Set[str] | None = None,
        instead: Mapping[str, torch.Tensor] | None = None,
    ) -> None:
        """Records the tensors of that kind of these parameters, or of all.

        instead: name -> tensor that is recorded in the place of the framework's.
        """
        job = self._job
        if kind == "param":
            wanted = step.recorder.wants("param_after_step")
            with job.reference.resting():
                self._rewritten.begin(job.names, self.watch, wanted)
        for name, parameter in job.names.parameters.items():
            if name not in job.selection.parameters or (names is not None and name not in names):
                continue
            key = Key(step.number, None, kind, name)
            try:
                tensor = (instead or {}).get(name)
                if tensor is None:
                    tensor = job.framework.held(name, parameter, kind)
                placements = job.assignment.parameters[name].of(kind)
            except Exception as error:
                step.recorder.leave_out(key, error)
                continue
            if kind == "param_after_step":
                with job.reference.resting():
                    self._rewritten.compare([name])
            if tensor is not None:
                step.recorder.add(key, tensor, placements)
            if kind == "param":
                step.recorder.precision.note(parameter)

    def record_main_gradients(
        self, step: Step, consumed: bool = False, part: OptimizerWatch | None = None
    ) -> None:
        """Records the gradients that the optimizer will consume, once.

        consumed: whether its step begins: from then on only a GradScaler that makes the step
            divides them by the scale, if they are not divided yet.
        """
        names = self._held_by(part) - step.main_grads
        if not names:
            return
        step.main_grads |= names
        scaler = self._job.scaler
        later = not consumed or scaler.stepping
        if later and not scaler.unscaled(part.optimizer if part else self._job.optimizer):
            scale = self._job.framework.scales().get("main_grad", 1.0) / scaler.scale()
            step.recorder.set_scale("main_grad", scale)
        others = {}
        for name, given in (self._gradients_of_masters() if consumed else {}).items():
            gradient = self._job.names.parameters[name].grad
            if gradient is None or not is_copy(given, gradient):
                others[name] = given
        self.record_parameters(step, "main_grad", names, others)
        if not consumed and not scaler.active:
            step.recorded_gradients.update(self._gradients(names))
        if part is None:
            self._job.reference.end_recording()

    def record_before_clipping(self, step: Step, clipped: Set[str]) -> None:
        """Records the gradients of an optimizer, some of which torch is about to clip."""
        try:
            parts = self.watch.parts if isinstance(self.watch, OptimizersWatch) else [None]
            for part in parts:
                if part is None or clipped & self._held_by(part):
                    self.record_main_gradients(step, part=part)
        except Exception as error:
            self._problems.mistake(step.number, f"step {step.number}: {describe(error)}")

    def begin(self, step: Step, part: OptimizerWatch | None) -> None:
        """Records what the optimizer's step begins with. Once more from within it: the settings
        have changed since."""
        if part in step.updated:
            step.params_after_done = True
            mistake = f"step {step.number}: the optimizer makes a second step in it"
            self._problems.mistake(step.number, f"{mistake}, so its update is not recorded")
            return
        names = self._held_by(part)
        before = {n: g for n, g in step.recorded_gradients.items() if n in names}
        now = self._gradients(names) if before else {}
        of_masters = self._gradients_of_masters() if before else {}
        for name, (gradient, version) in before.items():
            found = now.get(name)
            if (given := of_masters.get(name)) is not None and not is_copy(given, gradient):
                step.gradients_changed = True
            # Another tensor may hold the same values, as a copy of a framework's.
            if found is not None and found[0] is gradient and found[1] != version:
                step.gradients_changed = True
            del step.recorded_gradients[name]
        self.record_main_gradients(step, consumed=True, part=part)
        self._kept.note()
        outdated = step.begun.get(part)
        step.begun[part] = self._settings(step, part)
        if outdated is not None:
            step.optimizer = [e for e in step.optimizer if not any(e is one for one in outdated)]
        else:
            clips = step.clipping.clips if step.clipping is not None else []
            changed = step.gradients_changed or any(clip.limit is None for clip in clips)
            with self._job.reference.resting():
                self._rewritten.begin_update(self.watch if part is None else part)
            self._job.reference.begin_update(step.begun[part], changed, self._rewritten.names)
        step.optimizer += step.begun[part]

    def _gradients_of_masters(self) -> dict[str, torch.Tensor]:
        """The gradients of masters that nobody names, which their optimizer's step consumes."""
        if not isinstance(self.watch, (OptimizerWatch, OptimizersWatch)):
            return {}
        masters = self.watch.masters(self._job.names)
        return {name: one.grad for name, one in masters.items() if one.grad is not None}

    def _held_by(self, part: OptimizerWatch | None) -> set[str]:
        """The parameters that an optimizer updates; those that none does are the first one's."""
        names = set(self._job.names.parameters)
        if part is None or not isinstance(self.watch, OptimizersWatch):
            return names
        if part is not self.watch.parts[0]:
            return (part.held(self._job.names) or set()) & names
        others = (one.held(self._job.names) or set() for one in self.watch.parts[1:])
        return names.difference(*others)

    def end(self, step: Step) -> None:
        """Adds to the settings what the whole step has shown: the limits that gradients were
        clipped to, or that they were changed in an unknown way."""
        clips = step.clipping.clips if step.clipping is not None else []
        if step.clip_norm is None and not clips:
            if step.gradients_changed:
                self._problems.say_once(_UNTOLD)
                self._call(step, "of gradients changed after they were recorded")
            return
        found = []
        told = {} if step.clip_norm is None else {"clip_norm": step.clip_norm}
        ways = self._ways(step, clips)
        for entry in step.optimizer:
            by_way: dict[int, list[str]] = {}
            for name in entry["params"]:
                by_way.setdefault(ways.of.get(name, -1), []).append(name)
            for way, names in by_way.items() or [(-1, [])]:
                kind, changed = ways.changes.get(way, ("", told))
                found.append({**entry, **changed, "type": entry["type"] + kind, "params": names})
        step.optimizer = found

    def _ways(self, step: Step, clips: list[Clip]) -> _Ways:
        """How the gradients of each parameter were clipped, and what readers are told of that."""
        by_name: dict[str, list[int]] = {}
        for number, clip in enumerate(clips):
            for name in clip.names:
                by_name.setdefault(name, []).append(number)
        # A norm that was taken after some of its gradients had been clipped is not known.
        unclear = {n for numbers in by_name.values() if len(numbers) > 1 for n in numbers}
        if step.clip_norm is not None and not all(clip.whole for clip in clips):
            unclear = set(range(len(clips)))
        recorded = {key.name for key in step.recorder.records if key.kind == "main_grad"}
        # Readers know whose the norm of a part is from the groups that are clipped by it.
        held = {name for entry in step.optimizer for name in entry["params"]}
        has_norm = any(
            key.kind == "grad_norm" and key.name == GRAD_NORM for key in step.recorder.records
        )
        changes: dict[int, tuple[str, dict[str, Any]]] = {}
        for number, clip in enumerate(clips):
            if clip.whole and step.clip_norm is not None and number not in unclear:
                changes[number] = ("", {"clip_norm": step.clip_norm})
            elif number in unclear or clip.limit is None:
                self._problems.say_once(_ANOTHER_WAY)
                changes[number] = (" of gradients clipped in another way", {})
            elif (
                clip.told
                or (clip.whole and has_norm)
                or clip.known_from(recorded if clip.whole else recorded & held)
            ):
                whose = {} if clip.whole else {"clipped_by": clip.name}
                changes[number] = ("", {"clip_norm": clip.limit, **whose})
            else:
                self._problems.say_once(_UNTOLD)
                why = " of gradients clipped by a norm that was not recorded"
                changes[number] = (why, {"clip_norm": clip.limit})
        if unclear and step.clip_norm is not None:
            changes[-1] = (" of gradients clipped in another way", {})
        return _Ways({name: numbers[0] for name, numbers in by_name.items()}, changes)

    def _gradients(self, names: Set[str]) -> dict[str, tuple[torch.Tensor, int]]:
        """The gradients of PyTorch's own, by parameter, and how often each was changed in place."""
        found = {}
        for name in names:
            gradient = self._job.names.parameters[name].grad
            if gradient is None or gradient.is_inference():
                continue
            local = getattr(gradient, "_local_tensor", gradient)
            found[name] = (gradient, local._version)
        return found

    def _call(self, step: Step, addition: str) -> None:
        """Gives the optimizer of a step a name for which readers have no replay."""
        step.optimizer = [
            {**entry, "type": f"{entry['type']} {addition}"} for entry in step.optimizer
        ]

    def evaluated_again(self, step: Step) -> None:
        """Notes that the optimizer evaluates its closure more than once: no optimizer of the type
        that is recorded is known, so nothing is expected of the update."""
        if step.evaluated_again:
            return
        step.evaluated_again = True
        self._problems.say_once(
            "the optimizer evaluates its closure several times in a step; the first evaluation "
            "is recorded, and the update cannot be replayed"
        )
        self._call(step, "over several evaluations")

    def met_scaler(self, step: Step) -> None:
        """Notes that a GradScaler that nobody has named is the job's: what the step has recorded of
        its gradients carries the scale."""
        scaler = self._job.scaler
        # A scaler with an `unscale_` of its own is noticed only after it, and so are its main
        # gradients.
        scaled = step.main_grads and not scaler.unscaled(self._job.optimizer)
        step.recorder.rescale((*_RAW, "main_grad") if scaled else _RAW, 1.0 / scaler.scale())

    def skipped(self, step: Step, optimizer: Any) -> None:
        """Notes that a GradScaler has skipped the optimizer's step: gradients are infinite."""
        watch = self.watch
        part = watch.part_of(optimizer) if isinstance(watch, OptimizersWatch) else None
        self.record_main_gradients(step, part=part)
        step.optimizer += [{**entry, "skipped": True} for entry in self._settings(step, part)]
        reason = f"the GradScaler skipped the update of step {step.number}: infinite gradients"
        self._problems.note(f"{step.number}/-/param_after_step/*", reason)

    def _without_sparse(self, entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Gives parameters whose sparse gradients are added entry by entry an optimizer of their
        own, for which readers have no replay: nobody records how the entries were rounded."""
        parameters = self._job.names.parameters
        sparse = {n for n, p in parameters.items() if _is_added_entry_by_entry(p.grad)}
        found = []
        for entry in entries:
            mine = [name for name in entry["params"] if name in sparse]
            others = [name for name in entry["params"] if name not in sparse]
            if others or not mine:
                found.append({**entry, "params": others})
            if mine:
                kind = f"{entry['type']} of sparse gradients"
                found.append({**entry, "type": kind, "params": mine})
        return found

    def _settings(self, step: Step, part: OptimizerWatch | None) -> list[dict[str, Any]]:
        """The manifest's entries for the step of an optimizer."""
        watch = self.watch if part is None else part
        try:
            if watch is not None:
                return self._without_sparse(watch.entries(step.number, self._job.names))
        except Exception as error:
            self._problems.mistake(step.number, f"step {step.number}: {describe(error)}")
        return []


def _is_added_entry_by_entry(gradient: torch.Tensor | None) -> bool:
    """Whether an optimizer that adds the gradient rounds an element once for each of its entries: a
    sparse one that may have several for one element."""
    if gradient is None or gradient.layout != torch.sparse_coo:
        return False
    return not gradient.is_coalesced()
