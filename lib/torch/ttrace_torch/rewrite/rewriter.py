"""Rewritten runs: a plan's modules get generated tensors, so errors do not travel between them.

schemas/plan-v1.md defines the values. Every rank generates its own shards.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any, Callable

import torch

from ttrace_torch.base import pytree
from ttrace_torch.base.microbatch import Batch, BatchRules, MicroBatches, gradient_rule, pick_rule
from ttrace_torch.base.names import value_name
from ttrace_torch.errors import TraceError
from ttrace_torch.init.generate import generated
from ttrace_torch.init.normal import normal
from ttrace_torch.init.philox import plan_key
from ttrace_torch.layout.dtensor import is_dtensor, with_local
from ttrace_torch.layout.layouts import ModuleLayout
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placements import Partial, Placements
from ttrace_torch.layout.placing import LocalShard, local_shard
from ttrace_torch.perturb.noise import Array, by_microbatch
from ttrace_torch.rewrite.overwrite import overwritten, with_gradient
from ttrace_torch.rewrite.plan import Plan, Tensors, Values
from ttrace_torch.rewrite.targets import MEMBERS, targets_of

# A micro-batch or several, and the call in it.
Turn = tuple[Batch, int]


class Rewriter:
    """Applies a plan to the modules of one rank."""

    def __init__(self, plan: Plan, modules: Iterable[str], meshes: Meshes, rank: int) -> None:
        self._plan = plan
        self._meshes = meshes
        self._rank = rank
        self._several = len(meshes.ranks) > 1
        self._targets = targets_of(plan, modules, self._several)
        self._step = 0
        self._scales: Mapping[str, float] = {}
        self._met: set[tuple[str, str]] = set()
        # Module -> the turn whose values its last recomputation got.
        self._recomputed: dict[str, Turn] = {}

    def takes(self, name: str) -> bool:
        """Whether any tensor of module `name` is overwritten."""
        return name in self._targets

    def begin(self, step: int, scales: Mapping[str, float]) -> None:
        """Begins a step. scales: kind -> factor that makes its tensors the logical ones."""
        self._step, self._scales = step, scales
        self._met.clear()
        self._recomputed.clear()

    def end(self) -> None:
        """Ends a step. Throws TraceError if an entry of the plan met no tensor; on one of
        several ranks this is only a warning."""
        for member in MEMBERS:
            entries = {getattr(target, f"{member}_entry") for target in self._targets.values()}
            for entry in sorted(entries - {""}):
                if (entry, member) in self._met:
                    continue
                text = (
                    f"plan {self._plan.source}: in step {self._step} nothing was met that the "
                    f"{member} of {entry!r} could overwrite; its modules did not run, or have no "
                    "floating-point tensor there, or no gradient came"
                )
                if not self._several:
                    raise TraceError(text)
                warnings.warn(f"{text} on rank {self._rank}", stacklevel=2)

    def facts(self) -> dict[str, Any]:
        """The manifest's `run.plan`."""
        return {
            "digest": self._plan.digest,
            "modules": [entry.name for entry in self._plan.entries],
        }

    def inputs(
        self, name: str, given: Any, turn: Turn, recomputed: bool, layout: ModuleLayout
    ) -> Any:
        """The inputs that module `name` gets instead of `given`, (args, kwargs); None to keep them.

        recomputed: whether this repeats the first pass of `turn`, judging by the current
            micro-batch; checked when the gradient comes back.
        """
        target = self._targets.get(name)
        if target is None or target.inputs is None:
            return None
        tensors = pytree.tensors_in(given)
        chosen = self._chosen(target.inputs, tensors, f"input of {name}")
        if chosen:
            self._met.add((target.inputs_entry, "inputs"))
        if recomputed:
            self._recomputed[name] = turn
        for index, values in chosen.items():
            value = self._value(
                "input",
                value_name(name, index),
                tensors[index],
                layout.of_input(index, tensors[index]),
                values,
                turn,
                _rule(turn[0], layout.input_batch, index, tensors[index]),
            )
            if value is None:
                continue

            def change(tensor: torch.Tensor, value: torch.Tensor = value) -> torch.Tensor:
                return overwritten(tensor, value, lambda: self._check_recomputed(name, turn))

            given = pytree.replace_tensor(given, index, change)
        return given if chosen else None

    def outputs(self, name: str, output: Any, turn: Turn, layout: ModuleLayout) -> Any:
        """The output that replaces a module's `output`, so that gradients coming back are
        overwritten; None to keep it."""
        target = self._targets.get(name)
        if target is None or target.grad_outputs is None:
            return None
        tensors = pytree.tensors_in(output)
        chosen = self._chosen(target.grad_outputs, tensors, f"output of {name}")
        chosen = {k: values for k, values in chosen.items() if tensors[k].requires_grad}
        for index, values in chosen.items():
            placements = layout.of_grad_output(index, tensors[index])
            rule = _rule(turn[0], layout.output_batch, index, tensors[index])
            rule = None if rule is None else gradient_rule(rule)

            def overwrite(
                gradient: torch.Tensor,
                index: int = index,
                values: Values = values,
                placements: Placements = placements,
                rule: Any = rule,
            ) -> torch.Tensor:
                self._met.add((target.grad_outputs_entry, "grad_outputs"))
                full = value_name(name, index)
                value = self._value(
                    "grad_output", full, gradient, placements, values, turn, rule, layout.swapped
                )
                return gradient if value is None else value

            def change(
                tensor: torch.Tensor,
                overwrite: Callable[[torch.Tensor], torch.Tensor] = overwrite,
            ) -> torch.Tensor:
                return with_gradient(tensor, overwrite)

            output = pytree.replace_tensor(output, index, change)
        return output if chosen else None

    def _chosen(self, given: Tensors, tensors: list[torch.Tensor], what: str) -> dict[int, Values]:
        """Index -> values of the overwritten tensors. Throws TraceError for an index without a
        tensor."""
        if isinstance(given, Values):
            return {
                index: given
                for index, tensor in enumerate(tensors)
                if tensor.is_floating_point() and not isinstance(tensor, torch.nn.Parameter)
            }
        for index in given:
            if index >= len(tensors) or not tensors[index].is_floating_point():
                have = ", ".join(str(t.dtype).rpartition(".")[2] for t in tensors) or "none"
                raise TraceError(
                    f"plan {self._plan.source}: there is no floating-point {what} with the index "
                    f"{index}; its tensors are: {have}"
                )
        return given

    @torch.no_grad()
    def _value(
        self,
        kind: str,
        name: str,
        tensor: torch.Tensor,
        placements: Placements,
        values: Values,
        turn: Turn,
        rule: Any,
        swapped: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
    ) -> torch.Tensor | None:
        """The plan's values in the layout of `tensor`; None if this rank holds no element."""
        what = f"{name} · {kind} · step {self._step} on rank {self._rank}"
        batch, call = turn
        try:
            own = local_shard(swapped(tensor), placements, kind, self._meshes, self._rank, what)
        except TraceError as error:
            raise TraceError(f"plan {self._plan.source}: {error}") from error
        if own is None:
            return None

        def made(part: Any, number: int) -> Array:
            key = plan_key(self._plan.seed, kind, self._step, number, call, name)
            mean, std = values.mean, values.std
            return generated(key, part, lambda words: normal(words, mean, std), "float32")

        array = by_microbatch(own.local_layout, batch, rule, made)
        if array is None:
            raise TraceError(
                f"plan {self._plan.source}: {what}: the micro-batches {batch} do not lie one after "
                "the other in it, equally long, so it cannot get the values each has alone; run "
                "them one by one, or say by index which tensors are overwritten"
            )
        logical = torch.from_numpy(array).double() / self._scales.get(kind, 1.0)
        local = torch.empty_like(own.value).copy_(logical * _share(own))
        return with_local(tensor, swapped(local)) if is_dtensor(tensor) else swapped(local)

    def _check_recomputed(self, name: str, turn: Turn) -> None:
        earlier = self._recomputed.pop(name, turn)
        if earlier != turn:
            raise TraceError(
                f"{name} was recomputed inside micro-batch {earlier[0]}, but the backward is that "
                f"of micro-batch {turn[0]}; put `with tracer.microbatch({turn[0]}):` around it"
            )


def _rule(batch: Batch, rules: BatchRules | None, index: int, tensor: torch.Tensor) -> Any:
    given = pick_rule(rules, index)
    return batch.rule(given, tensor.dim()) if isinstance(batch, MicroBatches) else given


def _share(own: LocalShard) -> float:
    """1, or 0 if another rank has the whole value of a sum."""
    for axis, placement in own.placements.items():
        if placement == Partial("sum") and own.coordinate[axis] != 0:
            return 0.0
    return 1.0
