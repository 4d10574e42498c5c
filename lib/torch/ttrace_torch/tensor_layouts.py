"""The placements of one module's and one parameter's tensors, with the defaults between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttrace_torch.batches import BatchWords
from ttrace_torch.placement import OnMesh, Partial, Placements, Replicate, TensorPlacements


@dataclass
class ModuleLayout:
    """Placements of one module's activations, and where micro-batches lie in them."""

    input: TensorPlacements = field(default_factory=dict)
    output: TensorPlacements = field(default_factory=dict)
    grad_output: TensorPlacements | None = None
    input_batch: BatchWords | None = None
    output_batch: BatchWords | None = None

    def of_input(self, index: int) -> Placements:
        """Placements of the module's `index`-th input tensor."""
        return _pick(self.input, index)

    def of_output(self, index: int) -> Placements:
        """Placements of the module's `index`-th output tensor."""
        return _pick(self.output, index)

    def of_grad_output(self, index: int) -> Placements:
        """Placements of the gradient of the module's `index`-th output tensor."""
        if self.grad_output is not None:
            return _pick(self.grad_output, index)
        output = self.of_output(index)
        # The gradient of a sum is the same for every part of it.
        placements = {
            axis: Replicate() if isinstance(placement, Partial) else placement
            for axis, placement in output.items()
        }
        return OnMesh(output.mesh, placements) if isinstance(output, OnMesh) else placements


@dataclass
class ParameterLayout:
    """Placements of one parameter and its gradients.

    told: what the parameter's own attributes say; counts where no layout gives `param`.
    """

    param: Placements | None = None
    param_grad: Placements | None = None
    main_grad: Placements | None = None
    told: ParameterLayout | None = None

    def of(self, kind: str) -> Placements:
        """Placements of the parameter's tensor of that kind."""
        given = {"param_grad": self.param_grad, "main_grad": self.main_grad}.get(kind)
        if given is None:
            given = self.param
        if given is None:
            return {} if self.told is None else self.told.of(kind)
        return given


def _pick(placements: TensorPlacements, index: int) -> Placements:
    if isinstance(placements, Mapping):
        return placements
    return (placements[index] or {}) if index < len(placements) else {}
