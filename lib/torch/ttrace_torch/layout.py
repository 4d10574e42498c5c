"""Which module's tensors lie how: what a user describes a model's layout with.

What a tensor looks like under a layout is worked out in `shapes`, which module gets which layout in
`assignment`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ttrace_torch.batches import BatchWords, check_batch_words
from ttrace_torch.placement import Placements, TensorPlacements


@dataclass(frozen=True)
class Layout:
    """How the tensors of the modules that `pattern` matches lie on the mesh.

    pattern: glob over canonical module names ("(model)" is the root; `*` matches dots too).
    input, output, grad_output: axis -> placement for all tensors of that kind, or a list with one
        such dictionary (or None) per tensor. What is not given is replicated; `grad_output`
        defaults to the output's placement, its partial axes replicated.
    params, param_grads, main_grads: glob over the module's own parameter names -> axis ->
        placement. The two gradients default to `params`; a parameter after the step lies as before.
    input_batch, output_batch: for runs inside `tracer.microbatch([0, 1, ...])`, the dimension in
        which the micro-batches lie one after the other, or "mean" or "sum" where the tensor is that
        of the micro-batches' tensors; or a list with one of these (or None) per tensor.

    The placements refer to the default mesh, or to another one: `OnMesh(name, placements)`. Where
    several layouts match a module, later ones override earlier ones, field by field. A tensor that
    is a DTensor tells its own placement on the axes of its device mesh and overrides this; a
    parameter's Megatron attributes count where no layout names the parameter.
    """

    pattern: str
    input: TensorPlacements | None = None
    output: TensorPlacements | None = None
    grad_output: TensorPlacements | None = None
    params: Mapping[str, Placements] = field(default_factory=dict)
    param_grads: Mapping[str, Placements] = field(default_factory=dict)
    main_grads: Mapping[str, Placements] = field(default_factory=dict)
    input_batch: BatchWords | None = None
    output_batch: BatchWords | None = None

    def __post_init__(self) -> None:
        for words in (self.input_batch, self.output_batch):
            check_batch_words(words, f'Layout("{self.pattern}")')

    def all_placements(self) -> list[Placements]:
        """Every axis -> placement mapping this layout names, for checking."""
        found: list[Placements] = []
        for given in (self.input, self.output, self.grad_output):
            if isinstance(given, Mapping):
                found.append(given)
            elif given is not None:
                found.extend(one for one in given if one is not None)
        for table in (self.params, self.param_grads, self.main_grads):
            found.extend(table.values())
        return found
