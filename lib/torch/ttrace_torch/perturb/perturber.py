"""Noise runs: the first activation, or every one, disturbed by one rounding.

The spread of the results under such a disturbance is what a correct parallel run may differ by. The
random numbers go by name and place in the whole tensor, so a run is disturbed alike in any layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ttrace_torch.base import dtypes, pytree
from ttrace_torch.base.microbatch import Batch, MicroBatches, pick_rule
from ttrace_torch.base.names import value_name
from ttrace_torch.errors import TraceError
from ttrace_torch.init.philox import check_seed
from ttrace_torch.layout.dtensor import differentiable_local, is_dtensor, with_local
from ttrace_torch.layout.layouts import ModuleLayout
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.layout.placing import local_shard
from ttrace_torch.perturb.noise import noise

_WIDER = {
    torch.float64: torch.float64,
    torch.float32: torch.float64,
}

# Attribute of a tensor that has been disturbed: a container that hands it on leaves it alone.
_DONE = "_ttrace_perturbed"
# What the manifest gives as the place where every module was disturbed.
_EVERYWHERE = "*"


@dataclass(frozen=True)
class Disturb:
    """Multiplies the first floating-point output of the first module to return one by (1 + ε·u).

    u is uniform in [-1, 1), one number per element, which depends on (seed, step, micro-batch,
    name) and the element's place in the whole tensor alone: see schemas/consistent-v1.md.
    epsilon: ε; by default the machine epsilon of the output's dtype (float32: 2^-23, bfloat16:
        2^-7, float16: 2^-10, float64: 2^-52).
    at: canonical name of the module to disturb instead of the first. A run of several ranks needs
        it where not all ranks begin with the same module, such as the stages of a pipeline.
    everywhere: every module's floating-point outputs, in each call; those that a module hands on
        from another are disturbed once.
    """

    seed: int
    epsilon: float | None = None
    at: str | None = None
    everywhere: bool = False

    def __post_init__(self) -> None:
        check_seed(self.seed, "Disturb")
        if self.epsilon is not None and not self.epsilon > 0:
            raise TraceError(f"{self}: epsilon is positive")
        if self.everywhere and self.at is not None:
            raise TraceError(f"{self}: give `at` or `everywhere`, not both")


class Perturber:
    """Applies a `Disturb` to the same modules in every micro-batch of every step."""

    def __init__(self, settings: Disturb, meshes: Meshes, rank: int) -> None:
        self._settings = settings
        self._meshes = meshes
        self._rank = rank
        self._at = settings.at
        self._epsilon = settings.epsilon
        self._met = False

    def takes(self, name: str, call: int) -> bool:
        """Whether the outputs of module `name` are to be disturbed in this call, or may be."""
        return self._settings.everywhere or (call == 0 and self._at in (None, name))

    def applied_to(
        self, output: Any, step: int, batch: Batch, call: int, name: str, layout: ModuleLayout
    ) -> Any:
        """What module `name` returned, its tensors disturbed; None where there are none to disturb.

        Settles on module `name`. Throws TraceError where this rank's part of one cannot be told.
        """
        tensors = pytree.tensors_in(output)
        # A parameter that is handed on, such as a bias to be added later, is no activation.
        chosen = [
            i
            for i, tensor in enumerate(tensors)
            if tensor.is_floating_point() and not isinstance(tensor, torch.nn.Parameter)
        ]
        if not self._settings.everywhere:
            chosen = chosen[:1]
        chosen = [i for i in chosen if not getattr(tensors[i], _DONE, False)]
        for index in chosen:

            def change(tensor: torch.Tensor, index: int = index) -> torch.Tensor:
                return self._perturbed(tensor, step, batch, call, name, index, layout)

            output = pytree.replace_tensor(output, index, change)
        return output if chosen else None

    def _perturbed(
        self,
        tensor: torch.Tensor,
        step: int,
        batch: Batch,
        call: int,
        name: str,
        index: int,
        layout: ModuleLayout,
    ) -> torch.Tensor:
        """The disturbed tensor: same shape, dtype and layout, in the same graph.

        The product is formed in a wider type and rounded once.
        """
        natural = dtypes.DTYPES[tensor.dtype].epsilon or 0.0
        epsilon = natural if self._settings.epsilon is None else self._settings.epsilon
        self._met = True
        self._at = name if self._at is None else self._at
        self._epsilon = epsilon if self._epsilon is None else self._epsilon
        what = f"{value_name(name, index)} · output · step {step} on rank {self._rank}"
        placements = layout.of_output(index, tensor)
        own = local_shard(
            layout.swapped(tensor), placements, "output", self._meshes, self._rank, what
        )
        if own is None:
            return tensor
        along = pick_rule(layout.output_batch, index)
        if isinstance(batch, MicroBatches):
            along = batch.word(along, tensor.dim())
        key = (self._settings.seed, step, batch, call, value_name(name, index))
        u = layout.swapped(torch.from_numpy(noise(own.local_layout, *key, along)))
        wide = _WIDER.get(tensor.dtype, torch.float32)
        factor = (1 + epsilon * u.double()).to(device=own.value.device, dtype=wide)
        result = _times(tensor, factor, wide)
        setattr(result, _DONE, True)
        return result

    @property
    def missed(self) -> bool:
        """Whether nothing was disturbed where something should have been.

        A rank of several may lack the module that is named.
        """
        elsewhere = self._settings.at is not None and len(self._meshes.ranks) > 1
        return not self._met and not elsewhere

    def facts(self) -> dict[str, Any] | None:
        """The manifest's `run.noise`, None before anything was disturbed."""
        if not self._met:
            return None
        at = _EVERYWHERE if self._settings.everywhere else self._at
        return {"seed": self._settings.seed, "epsilon": self._epsilon, "at": at}


def _times(tensor: torch.Tensor, factor: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """The local values times `factor`, element by element; a DTensor stays one."""
    if not is_dtensor(tensor):
        return (tensor.to(wide) * factor).to(tensor.dtype)
    return with_local(tensor, _times(differentiable_local(tensor), factor, wide))
