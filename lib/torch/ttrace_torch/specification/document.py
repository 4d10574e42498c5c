"""The specification as a document (schemas/specification-v1.md), and its file."""

from __future__ import annotations

import datetime
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ttrace_torch.base.files import write_whole
from ttrace_torch.specification.expressions import FLOATS
from ttrace_torch.specification.graph import Graph
from ttrace_torch.specification.marks import Mark, Place
from ttrace_torch.specification.slicing import Pattern, Slicer, Tensor
from ttrace_torch.specification.variants import Variant
from ttrace_torch.version import __version__

SCHEMA = "ttrace.specification/1"


def document(
    graph: Graph,
    marks: Mapping[Place, Mark],
    how: str,
    model: str,
    after_backward: Mapping[str, Any],
    scales: Mapping[str, float] | None = None,
    variants: Sequence[Variant] = (),
    others: Sequence[Mapping[Place, Mark]] = (),
) -> dict[str, Any]:
    """The specification of what was recorded.

    how: "fake tensors" or "reference run".
    scales: kind -> what its recorded tensors must be multiplied by.
    variants: of micro-batches that are unlike the first one.
    others: those of micro-batches that `marks` should hold for as well.
    """
    slicer = Slicer(graph, scales)
    slicer.cut(marks)
    slicer.open(others)
    created = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "source": {
            "made_by": f"ttrace_torch {__version__}",
            "torch": torch.__version__,
            "model": model,
            "how": how,
            "created": created,
        },
    }
    precision = _precision(slicer.tensors)
    if precision is not None:
        found["precision"] = precision
    found.update(cut_of(slicer))
    if variants:
        found["variants"] = []
        for variant in variants:
            of_sizes = Slicer(graph, scales)
            of_sizes.cut(variant.marks)
            cut = cut_of(of_sizes)
            if variant.microbatch is not None:
                cut["microbatch"] = variant.microbatch
            found["variants"].append(cut)
    if after_backward:
        found["after_backward"] = dict(after_backward)
    opaque = Counter(tensor.opaque for tensor in slicer.tensors if tensor.opaque is not None)
    if opaque:
        found["opaque"] = dict(sorted(opaque.items()))
    return found


def cut_of(slicer: Slicer) -> dict[str, Any]:
    """The `patterns` and `tensors` of what was cut."""
    return {
        "patterns": [_pattern(pattern) for pattern in slicer.patterns],
        "tensors": [_tensor(tensor) for tensor in slicer.tensors],
    }


def write(specification: Mapping[str, Any], path: str | Path) -> None:
    """Writes the file, which appears under its name only when it is whole."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, _text(specification))


def _text(specification: Mapping[str, Any]) -> str:
    """One pattern and one tensor on each line."""

    def compact(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)

    members = []
    for name, value in specification.items():
        if isinstance(value, list):
            text = "[\n" + ",\n".join(map(compact, value)) + "\n]"
        else:
            text = compact(value)
        members.append(f"{json.dumps(name)}:{text}")
    return "{\n" + ",\n".join(members) + "\n}\n"


def _pattern(pattern: Pattern) -> dict[str, Any]:
    inputs, nodes = pattern
    return {
        "inputs": inputs,
        "nodes": [
            [primitive, list(arguments), _attributes(attributes), dtype, list(shape)]
            for primitive, arguments, attributes, dtype, shape in nodes
        ],
    }


def _attributes(attributes: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in attributes}


def _tensor(tensor: Tensor) -> dict[str, Any]:
    kind, name, call, *microbatch = tensor.place
    mark = tensor.mark
    entry: dict[str, Any] = {"kind": kind, "name": name}
    if call:
        entry["call"] = call
    if microbatch:
        entry["microbatch"] = microbatch[0]
    entry["dtype"], entry["shape"] = mark.dtype, list(mark.shape)
    if tensor.pattern is not None:
        entry["pattern"] = tensor.pattern
    if tensor.sources:
        entry["from"] = tensor.sources
    if tensor.same is not None:
        entry["same"] = tensor.same
    if tensor.opaque is not None:
        entry["opaque"] = tensor.opaque
    if tensor.uniform:
        entry["uniform"] = True
    if mark.number is not None:
        entry["number"] = _number(mark.number)
    if mark.module is not None:
        entry["module"] = mark.module
    given = tensor.pattern is None and tensor.same is None
    if kind == "buffer" and given and mark.elements is not None:
        entry["values"] = [_number(value) for value in mark.elements]
    return entry


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def _precision(tensors: list[Tensor]) -> str | None:
    counts = Counter(
        tensor.mark.dtype
        for tensor in tensors
        if tensor.place[0] == "output" and tensor.mark.dtype in FLOATS
    )
    return counts.most_common(1)[0][0] if counts else None
