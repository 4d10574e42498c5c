"""Noise runs: the first activation, or every one, perturbed by one rounding error.

The spread of the results under such a perturbation is the amount by which a correct parallel run
may differ. The random numbers depend on name and position in the whole tensor, so the perturbation
is the same in every layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from ttrace_torch.base import dtypes, pytree
from ttrace_torch.base.microbatch import Batch, MicroBatches, pick_rule
from ttrace_torch.base.names import value_name
from ttrace_torch.base.narrow_products import narrow_products
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

# Attribute of a perturbed tensor: a container that hands it on does not perturb it again.
_DONE = "_ttrace_perturbed"
# The manifest's `at` if every module is perturbed.
_EVERYWHERE = "*"


@dataclass(frozen=True)
class Perturb:
    """Multiplies the first floating-point output of the first module that returns one by (1 + ε·u).

    u is uniform in [-1, 1), one number per element. It depends only on (seed, step, micro-batch,
    name) and the element's position in the whole tensor: see schemas/consistent-v1.md.

    epsilon: ε; by default the machine epsilon of the output's dtype (float32: 2^-23, bfloat16:
        2^-7, float16: 2^-10, float64: 2^-52). Of float32 on a GPU that rounds factors of the
        model's products to TF32: 2^-10.
    at: canonical name of the module to perturb instead of the first. A run of several ranks needs
        it if the ranks begin with different modules, such as the stages of a pipeline.
    everywhere: perturbs every module's floating-point outputs, in each call; an output that a
        module hands on from another is perturbed once.
    """

    seed: int
    epsilon: float | None = None
    at: str | None = None
    everywhere: bool = False

    def __post_init__(self) -> None:
        check_seed(self.seed, "Perturb")
        if self.epsilon is not None and not self.epsilon > 0:
            raise TraceError(f"{self}: epsilon is positive")
        if self.everywhere and self.at is not None:
            raise TraceError(f"{self}: give `at` or `everywhere`, not both")


class Perturber:
    """Applies a `Perturb` to the same modules in every micro-batch of every step.

    convolves, recurs: whether the model has convolutions, or recurrent layers, whose factors a GPU
        may round to TF32.
    """

    def __init__(
        self,
        settings: Perturb,
        meshes: Meshes,
        rank: int,
        *,
        convolves: bool = False,
        recurs: bool = False,
    ) -> None:
        self._settings = settings
        self._meshes = meshes
        self._rank = rank
        self._convolves = convolves
        self._recurs = recurs
        self._at = settings.at
        self._epsilon = settings.epsilon
        self._met = False

    def takes(self, name: str, call: int) -> bool:
        """Whether the outputs of module `name` may be perturbed in this call."""
        return self._settings.everywhere or (call == 0 and self._at in (None, name))

    def applied_to(
        self, output: Any, step: int, batch: Batch, call: int, name: str, layout: ModuleLayout
    ) -> Any:
        """The `output` of module `name` with perturbed tensors; None if it has none to perturb.

        The first module perturbed stays the one perturbed. Throws TraceError if the layout does not
        determine this rank's shard.
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
        """The perturbed tensor: same shape, dtype and layout, in the same graph.

        The product is computed in a wider type and rounded once.
        """
        given = self._settings.epsilon
        epsilon = self._natural_epsilon(tensor) if given is None else given
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
            along = batch.rule(along, tensor.dim())
        key = (self._settings.seed, step, batch, call, value_name(name, index))
        u = layout.swapped(torch.from_numpy(noise(own.local_layout, *key, along)))
        wide = _WIDER.get(tensor.dtype, torch.float32)
        factor = (1 + epsilon * u.double()).to(device=own.value.device, dtype=wide)
        result = _times(tensor, factor, wide)
        setattr(result, _DONE, True)
        return result

    def _natural_epsilon(self, tensor: torch.Tensor) -> float:
        # A perturbation of 2^-23 would rarely change how a kernel rounds factors to TF32, and would
        # show a thousandth of the difference that another kernel makes.
        on_gpu = tensor.is_cuda and tensor.dtype is torch.float32
        narrow = narrow_products(self._recurs) if on_gpu else {}
        if "matmul" in narrow or ("convolution" in narrow and self._convolves):
            return dtypes.TF32.epsilon or 0.0
        return dtypes.DTYPES[tensor.dtype].epsilon or 0.0

    @property
    def missed(self) -> bool:
        """Whether no tensor was perturbed although one should have been.

        One of several ranks may lack the module that is named.
        """
        elsewhere = self._settings.at is not None and len(self._meshes.ranks) > 1
        return not self._met and not elsewhere

    def facts(self) -> dict[str, Any] | None:
        """The manifest's `run.noise`; None before any tensor was perturbed."""
        if not self._met:
            return None
        at = _EVERYWHERE if self._settings.everywhere else self._at
        return {"seed": self._settings.seed, "epsilon": self._epsilon, "at": at}


def _times(tensor: torch.Tensor, factor: torch.Tensor, wide: torch.dtype) -> torch.Tensor:
    """The local values times `factor`, element by element. A DTensor stays one."""
    if not is_dtensor(tensor):
        return (tensor.to(wide) * factor).to(tensor.dtype)
    return with_local(tensor, _times(differentiable_local(tensor), factor, wide))
