"""The bugs this trainer can show, and which of them are switched on.

A bug is asked for with `active("P12")` at the one place where its mechanism lives. What
it needs is data in `BUGS`; what a tool should blame is data in `expected.py`.
"""

from collections.abc import Collection
from dataclasses import dataclass


class BugError(ValueError):
    """A bug that does not exist, or that cannot show in this run."""


@dataclass(frozen=True)
class Bug:
    source: str
    mechanism: str
    needs: frozenset[str]  # as in Config.features


BUGS = {
    "P1": Bug(
        source="awslabs/slapo PR 80",
        mechanism="the embedding's mask is computed anew from numbers already shifted and zeroed",
        needs=frozenset({"tp"}),
    ),
    "P2": Bug(
        source="Megatron-LM PR 290",
        mechanism="the recomputation of a chunk gives every layer the input of the chunk",
        needs=frozenset({"recompute", "stage of several layers"}),
    ),
    "P3": Bug(
        source="Megatron-LM 906",
        mechanism="the loss is multiplied by cp, gradients are divided by the size of dp only",
        needs=frozenset({"cp"}),
    ),
    "P4": Bug(
        source="Megatron-LM 673",
        mechanism="gradients are summed over dp but not divided by its size",
        needs=frozenset({"all-reduce over dp"}),
    ),
    "P5": Bug(
        source="Megatron-LM 656, 844",
        mechanism="the tied copies' gradients are summed over pp after they are reduced over dp",
        needs=frozenset({"packed"}),
    ),
    "P6": Bug(
        source="Megatron-LM 599",
        mechanism="the router loses the sequence-parallel flag: gradient not summed over tp",
        needs=frozenset({"experts", "tp", "sp"}),
    ),
    "P7": Bug(
        source="TransformerEngine PR 738",
        mechanism="parts are cast to FP8, but the product takes what is gathered without the cast",
        needs=frozenset({"fp8", "sp"}),
    ),
    "P8": Bug(
        source="Megatron-LM PR 442",
        mechanism="the largest element is not reduced over tp: ranks round by their own scales",
        needs=frozenset({"fp8", "tp"}),
    ),
    "P9": Bug(
        source="Megatron-LM 663",
        mechanism="one bucket of updated parameters is never gathered",
        needs=frozenset({"zero"}),
    ),
    "P10": Bug(
        source="Megatron-LM 1304",
        mechanism="layers do not divide by stages, and floor division loses the rest",
        needs=frozenset({"pp", "uneven stages"}),
    ),
    "P11": Bug(
        source="TransformerEngine 1616",
        mechanism="two gathered chunks are swapped for the gradient of the weight",
        needs=frozenset({"gathered products"}),
    ),
    "P12": Bug(
        source="Megatron-LM 1446",
        mechanism="norm parameters lose the sequence-parallel flag: gradient not summed over tp",
        needs=frozenset({"tp", "sp"}),
    ),
    "P13": Bug(
        source="Megatron-LM 1464",
        mechanism="the backward of context-parallel attention loses one step of the ring",
        needs=frozenset({"cp"}),
    ),
    "P14": Bug(
        source="Megatron-LM 1528",
        mechanism="the raw gradients of norms are summed over tp already, and later again",
        needs=frozenset({"tp", "sp", "cp"}),
    ),
    "G1": Bug(
        source="torchtitan 1805",
        mechanism="the input gradient of experts that are cut over tp is not summed over tp",
        needs=frozenset({"expert_tp", "tp"}),
    ),
    "G2": Bug(
        source="Megatron-LM 5fffdfc7",
        mechanism="a frozen column-parallel layer does not sum its input gradient over tp",
        needs=frozenset({"tp without sp", "frozen parameters"}),
    ),
    "G3": Bug(
        source="bigcode Megatron 35",
        mechanism="gradients of the only key and value head are those of the rank's own heads",
        needs=frozenset({"tp", "multi_query"}),
    ),
    "G4": Bug(
        source="torchtitan ec30db9d",
        mechanism="the row-parallel bias is added on every rank before the sum",
        needs=frozenset({"tp"}),
    ),
    "G5": Bug(
        source="transformers 48687",
        mechanism="slots of other ranks' experts have the weight 0, but give it a gradient",
        needs=frozenset({"experts over tp"}),
    ),
    "G6": Bug(
        source="DeepSpeed d99a6429",
        mechanism="every pipeline stage divides the gradient it is sent by accumulation steps",
        needs=frozenset({"pp", "accumulation"}),
    ),
    "G7": Bug(
        source="pytorch 160285",
        mechanism="gradients of experts are divided by the size of edp, not of dp",
        needs=frozenset({"experts", "edp other than dp"}),
    ),
    "G8": Bug(
        source="torchtitan 0cb74355",
        mechanism="a mean of the ranks' means over unequal numbers of tokens",
        needs=frozenset({"padding", "dp"}),
    ),
    "G9": Bug(
        source="DeepSpeed 5999fb06",
        mechanism="the last micro-batch is added after the reduction over dp",
        needs=frozenset({"all-reduce over dp", "accumulation"}),
    ),
    "G10": Bug(
        source="Megatron-LM abf10f85",
        mechanism="experts and the rest of the model are clipped by norms of their own",
        needs=frozenset({"experts", "clip"}),
    ),
    "G11": Bug(
        source="Megatron-LM a77a883e",
        mechanism="the offset of the layers of a virtual stage is wrong",
        needs=frozenset({"vpp"}),
    ),
    "G12": Bug(
        source="verl PR 4250",
        mechanism="labels are rolled after the cut over cp, not before",
        needs=frozenset({"cp"}),
    ),
    "G13": Bug(
        source="torchtitan e347b1e5",
        mechanism="the recomputation draws another dropout mask",
        needs=frozenset({"recompute", "dropout"}),
    ),
    "G14": Bug(
        source="TransformerEngine 1190",
        mechanism="recomputed layers keep the FP8 scale of their gradients from step to step",
        needs=frozenset({"delayed_scaling", "recompute", "several steps"}),
    ),
    "G15": Bug(
        source="DeepSpeed dd3690c5",
        mechanism="gradients are reduced over dp in bf16 although fp32 is asked for",
        needs=frozenset({"all-reduce over dp"}),
    ),
    "G16": Bug(
        source="DeepSpeed 11aa880e",
        mechanism="a parameter exactly as large as a bucket is never reduced",
        needs=frozenset({"zero"}),
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
