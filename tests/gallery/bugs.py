"""The bugs this trainer can show, and which of them are switched on.

A bug is asked for with `active("P12")` at the one place where its mechanism lives. Everything
else about it (what it needs, what a tool should blame) is data in `BUGS`.
"""

from collections.abc import Collection
from dataclasses import dataclass


class BugError(ValueError):
    """A bug that does not exist, or that cannot show in this run."""


@dataclass(frozen=True)
class FirstWrong:
    """The tensors that differ although nothing they depend on does."""

    kind: str
    names: tuple[str, ...]  # globs over canonical names
    also: tuple[str, ...] = ()  # other kinds that differ too although nothing before them does


@dataclass(frozen=True)
class Bug:
    source: str
    mechanism: str
    needs: frozenset[str]  # as in Config.features
    first_wrong: FirstWrong
    cause: str  # as in the diagnosis of `ttrace localize`


BUGS = {
    "P12": Bug(
        source="Megatron-LM 1446",
        mechanism="norm parameters lose the sequence-parallel flag: gradient not summed over tp",
        needs=frozenset({"tp", "sp"}),
        first_wrong=FirstWrong(
            "main_grad", ("layers.*.norm1.*", "layers.*.norm2.*", "final_norm.*")
        ),
        cause="missing_reduction",
    ),
    "P8": Bug(
        source="Megatron-LM PR 442",
        mechanism="the largest element is not reduced over tp: ranks round by their own scales",
        needs=frozenset({"fp8", "tp"}),
        first_wrong=FirstWrong("output", ("layers.*.fp8.input_scale", "layers.*.fp8.weight_scale")),
        cause="replica_conflict",
    ),
    "P10": Bug(
        source="Megatron-LM 1304",
        mechanism="layers do not divide by stages, and floor division loses the rest",
        needs=frozenset({"pp", "uneven stages"}),
        first_wrong=FirstWrong("param", ("layers.*",)),
        cause="missing_layer",
    ),
    "G6": Bug(
        source="DeepSpeed d99a6429",
        mechanism="every pipeline stage divides the gradient it is sent by accumulation steps",
        needs=frozenset({"pp", "accumulation"}),
        first_wrong=FirstWrong("grad_output", ("layers.*",)),
        cause="scaled",
    ),
    "P6": Bug(
        source="Megatron-LM 599",
        mechanism="the router loses the sequence-parallel flag: gradient not summed over tp",
        needs=frozenset({"experts", "tp", "sp"}),
        first_wrong=FirstWrong("main_grad", ("layers.*.mlp.router.weight",)),
        cause="missing_reduction",
    ),
    "G7": Bug(
        source="pytorch 160285",
        mechanism="gradients of experts are divided by the size of edp, not of dp",
        needs=frozenset({"experts", "edp other than dp"}),
        first_wrong=FirstWrong("main_grad", ("layers.*.mlp.experts.*",)),
        cause="scaled",
    ),
    "P9": Bug(
        source="Megatron-LM 663",
        mechanism="one bucket of updated parameters is never gathered",
        needs=frozenset({"zero"}),
        first_wrong=FirstWrong("param_after_step", ("embedding.position.weight", "layers.0.*")),
        cause="replica_conflict",
    ),
    "G16": Bug(
        source="DeepSpeed 11aa880e",
        mechanism="a parameter exactly as large as a bucket is never reduced",
        needs=frozenset({"zero"}),
        first_wrong=FirstWrong("main_grad", ("layers.*.mlp.fc1.weight", "layers.*.mlp.fc2.weight")),
        cause="missing_reduction",
    ),
    "P2": Bug(
        source="Megatron-LM PR 290",
        mechanism="the recomputation of a chunk gives every layer the input of the chunk",
        needs=frozenset({"recompute", "stage of several layers"}),
        # What the layers are given in the recomputation is not recorded.
        first_wrong=FirstWrong("param_grad", ("layers.*",), also=("grad_output",)),
        cause="unknown",
    ),
    "P3": Bug(
        source="Megatron-LM 906",
        mechanism="the loss is multiplied by cp, gradients are divided by the size of dp only",
        needs=frozenset({"cp"}),
        first_wrong=FirstWrong("grad_output", ("(model)", "criterion")),
        cause="scaled",
    ),
    "P13": Bug(
        source="Megatron-LM 1464",
        mechanism="the backward of context-parallel attention loses one step of the ring",
        needs=frozenset({"cp"}),
        first_wrong=FirstWrong("grad_output", ("layers.*.attn.qkv",)),
        cause="unknown",
    ),
    "G12": Bug(
        source="verl PR 4250",
        mechanism="labels are rolled after the cut over cp, not before",
        needs=frozenset({"cp"}),
        first_wrong=FirstWrong("input", ("(model)[[]labels]", "criterion[[]labels]")),
        cause="unknown",
    ),
    "P4": Bug(
        source="Megatron-LM 673",
        mechanism="gradients are summed over dp but not divided by its size",
        needs=frozenset({"all-reduce over dp"}),
        first_wrong=FirstWrong("main_grad", ("*",)),
        cause="scaled",
    ),
    "G9": Bug(
        source="DeepSpeed 5999fb06",
        mechanism="the last micro-batch is added after the reduction over dp",
        needs=frozenset({"all-reduce over dp", "accumulation"}),
        first_wrong=FirstWrong("main_grad", ("*",)),
        cause="replica_conflict",
    ),
    "G15": Bug(
        source="DeepSpeed dd3690c5",
        mechanism="gradients are reduced over dp in bf16 although fp32 is asked for",
        needs=frozenset({"all-reduce over dp"}),
        first_wrong=FirstWrong("main_grad", ("*",)),
        cause="lower_precision",
    ),
}

_active: set[str] = set()


def activate(names: Collection[str], features: Collection[str]) -> None:
    """Switches exactly `names` on, before the model is built.

    Throws BugError for a bug whose axes are off: it could not show, and a run that was meant to
    be wrong would pass for one that is.
    """
    for name in names:
        if name not in BUGS:
            raise BugError(f"--bug {name}: known are {', '.join(BUGS)}")
        missing = sorted(BUGS[name].needs - set(features))
        if missing:
            raise BugError(f"--bug {name} cannot show: this run has no {' and no '.join(missing)}")
    _active.clear()
    _active.update(names)


def active(name: str) -> bool:
    if name not in BUGS:
        raise BugError(f"no bug is called {name}")
    return name in _active
