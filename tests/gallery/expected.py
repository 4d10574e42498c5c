"""What a correct tool says of each bug, fixed before anything is measured.

From what happened in the frameworks: the tensors that are wrong although nothing they depend on
is, in a layout in which the bug shows; and the cause that the numbers support.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from gallery.config import Config

# Kinds by the part of a step that they belong to: the direction of a finding.
DIRECTIONS = {
    "parameters": ("param", "buffer", "optimizer_state"),
    "forward": ("input", "output", "scalar", "loss"),
    "backward": ("grad_output", "grad_input", "param_grad"),
    "update": ("main_grad", "grad_norm", "param_after_step"),
}

_OF_PARAMETERS = ("param", "main_grad", "param_grad", "param_after_step", "optimizer_state")


@dataclass(frozen=True)
class Expected:
    """config: a run in which the bug shows.

    kind, names: of the tensors that are wrong first; names are globs.
    also: other kinds that may be wrong too although nothing before them is.
    causes: the names under which the cause is right. The outcomes `replica_conflict` and
        `missing` are causes of themselves.
    audit: whether the run alone tells, without a reference: it breaks a formula of the step, or
        its replicas differ. Wrong data that every rank agrees on do not.
    """

    config: Config
    kind: str
    names: tuple[str, ...]
    causes: tuple[str, ...]
    also: tuple[str, ...] = ()
    audit: bool = True

    def covers(self, key: Mapping[str, Any]) -> bool:
        """Whether the bug makes the tensor wrong first."""
        return key["kind"] in (self.kind, *self.also) and self.names_tensor(key["name"])

    def names_module(self, name: str) -> bool:
        """Whether `name` is that of a tensor that is wrong first, or of its module."""
        modules = [module_of(self.kind, pattern) for pattern in self.names]
        return self.names_tensor(name) or any(fnmatchcase(name, pattern) for pattern in modules)

    def names_tensor(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.names)

    def in_direction(self, kind: str) -> bool:
        mine = (self.kind, *self.also)
        return any(kind in kinds and set(mine) & set(kinds) for kinds in DIRECTIONS.values())


def module_of(kind: str, name: str) -> str:
    """The module of a tensor, from its name or from a glob."""
    return name.rpartition(".")[0] if kind in _OF_PARAMETERS else name.partition("[")[0]


def named_cause(finding: Mapping[str, Any]) -> str:
    """The cause of a finding of a report, as `Expected.causes` names it."""
    if finding["causes"]:
        return finding["causes"][0]["name"]
    outcome = finding["outcome"]
    return outcome if outcome in ("replica_conflict", "missing") else "unknown"


def _run(**options: Any) -> Config:
    return Config(**{"microbatches": 4, **options})


def _experts(**options: Any) -> Config:
    return _run(**{"experts": 4, "seed": 1, **options})


_NORMS = ("layers.*.norm1.*", "layers.*.norm2.*", "final_norm.*")

EXPECTED = {
    "P1": Expected(_run(tp=2), "output", ("embedding.word",), ("mask_or_rows",)),
    "P2": Expected(
        # What the layers are given in the recomputation is not recorded.
        _run(tp=2, recompute=True),
        "param_grad",
        ("layers.*",),
        ("stale", "other_input"),
        also=("grad_output",),
    ),
    # The gradient of the loss itself, where a trace has it.
    "P3": Expected(_run(cp=2), "grad_output", ("loss", "(model)", "criterion"), ("scaled",)),
    "P4": Expected(_run(dp=2), "main_grad", ("*",), ("scaled",)),
    "P5": Expected(
        _run(pp=2, dp=2, zero=True, packed=True),
        "main_grad",
        ("embedding.word.weight",),
        ("replica_conflict",),
    ),
    "P6": Expected(
        _experts(tp=2, sp=True),
        "main_grad",
        ("layers.*.mlp.router.weight",),
        ("missing_reduction",),
    ),
    "P7": Expected(
        _run(tp=2, sp=True, precision="fp8"),
        "output",
        ("layers.*.attn.qkv*", "layers.*.mlp.fc1*"),
        # FP8 products read bytes that were not meant so, and some of these mean NaN.
        ("unknown", "lower_precision", "non_finite"),
    ),
    "P8": Expected(
        _run(tp=2, precision="fp8"),
        "output",
        ("layers.*.fp8.input_scale", "layers.*.fp8.weight_scale"),
        ("replica_conflict",),
    ),
    "P9": Expected(
        _run(dp=2, zero=True),
        "param_after_step",
        ("embedding.position.weight", "layers.0.*"),
        ("stale", "replica_conflict"),
    ),
    "P10": Expected(_run(pp=2, layers=3), "param", ("layers.2*",), ("missing_layer", "missing")),
    "P11": Expected(
        _run(tp=2, sp=True),
        "param_grad",
        ("layers.*.attn.qkv.weight", "layers.*.mlp.fc1.weight"),
        ("wrong_order",),
    ),
    "P12": Expected(_run(tp=2, sp=True), "main_grad", _NORMS, ("missing_reduction",)),
    "P13": Expected(_run(cp=2), "grad_output", ("layers.*.attn.qkv",), ("unknown", "mask_or_rows")),
    "P14": Expected(
        # Each of the terms that are added up is the sum already: a factor of two, and why.
        _run(tp=2, sp=True, cp=2),
        "param_grad",
        _NORMS,
        ("scaled", "double_reduction"),
    ),
    "G1": Expected(
        _experts(tp=2, expert_tp=True), "grad_output", ("layers.*.norm2",), ("missing_reduction",)
    ),
    "G2": Expected(
        _run(tp=2, freeze="layers.1.mlp.fc1.*"),
        "grad_output",
        ("layers.1.norm2",),
        ("missing_reduction",),
    ),
    "G3": Expected(
        _run(tp=2, multi_query=True), "grad_output", ("layers.*.attn.kv",), ("missing_reduction",)
    ),
    "G4": Expected(
        _run(tp=2), "output", ("layers.*.attn.proj", "layers.*.mlp.fc2"), ("unknown", "offset")
    ),
    "G5": Expected(
        _experts(tp=2, ep=2, top_k=2), "grad_output", ("layers.*.mlp.router",), ("mask_or_rows",)
    ),
    "G6": Expected(_run(pp=2, layers=3), "grad_output", ("layers.*",), ("scaled",)),
    "G7": Expected(_experts(dp=2, ep=2), "main_grad", ("layers.*.mlp.experts.*",), ("scaled",)),
    "G8": Expected(
        _run(dp=2, padding=True),
        "loss",
        ("loss", "loss.factor"),
        ("scaled", "unknown"),
        also=("scalar",),
    ),
    "G9": Expected(_run(dp=2), "main_grad", ("*",), ("replica_conflict",)),
    # The norm is the root of the sum of both norms' squares, and right.
    "G10": Expected(_experts(dp=2, ep=2, clip=0.5), "param_after_step", ("*",), ("scaled",)),
    "G11": Expected(_run(pp=2, vpp=2, layers=4), "input", ("layers.*",), ("other_layer",)),
    "G12": Expected(
        _run(cp=2),
        "input",
        ("(model)[[]labels]", "criterion[[]labels]"),
        ("shifted",),
        audit=False,
    ),
    "G13": Expected(
        _run(tp=2, recompute=True, dropout=0.1),
        "grad_output",
        ("layers.1.mlp*", "layers.1.drop2"),
        ("mask_or_rows",),
        also=("param_grad",),
    ),
    "G14": Expected(
        # Of gradients as small as in a batch of many more tokens.
        _run(
            tp=2,
            recompute=True,
            precision="fp8",
            delayed_scaling=True,
            loss_scale=2**-12,
            steps=2,
        ),
        "grad_output",
        ("layers.*",),
        ("stale",),
        also=("param_grad",),
    ),
    "G15": Expected(_run(dp=2), "main_grad", ("*",), ("lower_precision",)),
    "G16": Expected(
        _run(dp=2, zero=True),
        "main_grad",
        ("layers.*.mlp.fc1.weight", "layers.*.mlp.fc2.weight"),
        ("missing_reduction",),
    ),
}
