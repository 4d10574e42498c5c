"""One training step of a small network in numpy: its trace, and the specification of it.

Five linear layers with rectifiers, a head whose scores have a mask added, cross-entropy, and plain
SGD, computed operation by operation in one floating-point type. A fault is put in while the step is
computed, so that everything behind it follows from the faulty value, as in a run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Array = np.ndarray
Key = tuple[str, str]  # kind, name

LAYERS = 5
TOKENS, WIDTH, WORDS = 48, 16, 24
RATE = 0.125

# Kinds whose tensors lie in the micro-batch.
_OF_MICROBATCH = {"input", "output", "loss", "grad_output", "grad_input", "param_grad"}


@dataclass
class Run:
    """What a run has recorded, and what its specification says of it."""

    dtype: str
    values: dict[Key, Array] = field(default_factory=dict)
    specification: dict[str, Any] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)  # its members beside `tensors`
    entries: dict[Key, dict[str, Any]] = field(default_factory=dict)  # more members of a tensor's

    def tensor(self, kind: str, name: str) -> dict[str, Any]:
        """The tensor in the specification."""
        return self.specification["tensors"][self.number(kind, name)]

    def number(self, kind: str, name: str) -> int:
        for number, tensor in enumerate(self.specification["tensors"]):
            if (tensor["kind"], tensor["name"]) == (kind, name):
                return number
        raise KeyError((kind, name))

    def drop(self, wanted: Callable[[str, str], bool]) -> None:
        """Leaves tensors out of the trace."""
        for key in [key for key in self.values if wanted(*key)]:
            del self.values[key]

    def write(self, folder: Path) -> tuple[Path, Path]:
        """Returns the trace and the specification."""
        folder.mkdir(parents=True, exist_ok=True)
        trace, specification = folder / "run.h5", folder / "specification.json"
        tensors = []
        with h5py.File(trace, "w") as file:
            for order, ((kind, name), value) in enumerate(self.values.items()):
                entry: dict[str, Any] = {"name": name, "kind": kind, "step": 0, "order": order}
                entry |= {"dtype": str(value.dtype), "shape": list(value.shape)}
                place = "step_000000/"
                if kind in _OF_MICROBATCH:
                    entry["microbatch"] = 0
                    place += "mb_0000/"
                entry |= self.entries.get((kind, name), {})
                if entry.get("microbatch", 0) is None:
                    del entry["microbatch"]
                    place = "step_000000/"
                file[f"{place}{kind}/{name}"] = value
                tensors.append(entry)
            manifest = {"schema": "ttrace.manifest/2", "meshes": {"": {"axes": []}}}
            manifest |= {"tensors": tensors, **self.manifest}
            file["manifest"] = json.dumps(manifest)
        specification.write_text(json.dumps(self.specification), encoding="utf-8")
        return trace, specification


class _Recorder:
    """Records values, and what they follow from."""

    def __init__(self, dtype: str, faults: dict[Key, Callable[[Array], Array]]) -> None:
        self.run = Run(dtype)
        self.tensors: list[dict[str, Any]] = []
        self.patterns: list[dict[str, Any]] = []
        self._faults = faults
        self._numbers: dict[Key, int] = {}

    def put(
        self,
        key: Key,
        value: Array,
        nodes: list[list[Any]] | None = None,
        of: list[Key] | None = None,
        same: Key | None = None,
    ) -> Array:
        """nodes: without type, and without the shape where it is the value's own."""
        if key in self._faults:
            value = self._faults[key](value).astype(value.dtype)
        self.run.values[key] = value
        kind, name = key
        tensor: dict[str, Any] = {"kind": kind, "name": name, "dtype": str(value.dtype)}
        tensor["shape"] = list(value.shape)
        if nodes is not None:
            whole = [[*node[:3], self.run.dtype, [*node[3:], tensor["shape"]][0]] for node in nodes]
            tensor |= {
                "pattern": len(self.patterns),
                "from": [self._numbers[one] for one in of or []],
            }
            self.patterns.append({"inputs": len(of or []), "nodes": whole})
        if same is not None:
            tensor["same"] = self._numbers[same]
        self._numbers[key] = len(self.tensors)
        self.tensors.append(tensor)
        return value

    def after(self, key: Key, value: Array) -> Array:
        """A value behind the backward: the specification has no formula of its own for it."""
        if key in self._faults:
            value = self._faults[key](value).astype(value.dtype)
        self.run.values[key] = value
        return value


@np.errstate(all="ignore")
def step(
    dtype: str = "float32",
    mask: float = 0.0,
    faults: dict[Key, Callable[[Array], Array]] | None = None,
    unused: bool = True,
) -> Run:
    """mask: what is added to the scores of every third word. unused: whether there is a parameter
    that the forward does not use."""
    numbers = np.random.default_rng(7)
    record = _Recorder(dtype, faults or {})

    def normal(*shape: int) -> Array:
        return (numbers.standard_normal(shape) / 2).astype(dtype)

    def rounded(value: Array) -> Array:
        return value.astype(dtype)

    sizes = [(WIDTH, WIDTH)] * LAYERS + [(WORDS, WIDTH)]
    names = [f"layers.{i}.fc" for i in range(LAYERS)] + ["head"]
    weights, biases = {}, {}
    for name, size in zip(names, sizes, strict=True):
        weights[name] = record.put(("param", f"{name}.weight"), normal(*size))
        biases[name] = record.put(("param", f"{name}.bias"), normal(size[0]))

    x = record.put(("input", "(model)"), normal(TOKENS, WIDTH))
    labels = numbers.integers(0, WORDS // 3, TOKENS) * 3 + 1  # never a word that is masked
    record.put(("input", "(model)[labels]"), labels)

    given: Key = ("input", "(model)")
    inputs, outputs = {}, {}
    for i, name in enumerate(names):
        inputs[name] = record.put(("input", name), x, same=given)
        weight = weights[name]
        product = rounded(x.astype("float64") @ weight.astype("float64").T)
        rows, columns = weight.shape
        outputs[name] = record.put(
            ("output", name),
            rounded(product + biases[name]),
            [
                ["permute", [1], {"dims": [1, 0]}, [columns, rows]],
                ["matmul", [0, 3], {}],
                ["add", [4, 2], {}],
            ],
            [("input", name), ("param", f"{name}.weight"), ("param", f"{name}.bias")],
        )
        if i == LAYERS:
            break
        act = f"layers.{i}.act"
        record.put(("input", act), outputs[name], same=("output", name))
        x = np.maximum(outputs[name], 0)
        x = record.put(("output", act), x, [["relu", [0], {}]], [("input", act)])
        given = ("output", act)

    adds = np.where(np.arange(WORDS) % 3 == 0, mask, 0).astype(dtype)
    record.put(("input", "mask"), outputs["head"], same=("output", "head"))
    words = {"values": [float(one) for one in adds]}
    scores = record.put(
        ("output", "mask"),
        rounded(outputs["head"] + adds),
        [["literal", [], words, [WORDS]], ["add", [0, 1], {}]],
        [("input", "mask")],
    )

    wide = scores.astype("float64")
    logs = wide - wide.max(1, keepdims=True)
    logs = logs - np.log(np.exp(logs).sum(1, keepdims=True))
    chosen = np.arange(TOKENS), labels
    average = {"reduction": "mean", "ignore": -100}
    record.put(
        ("loss", "loss"),
        rounded(np.array(-logs[chosen].mean())),
        [
            ["log_softmax", [0], {"dim": 1}, [TOKENS, WORDS]],
            ["nll_loss", [2, 1], average],
        ],
        [("output", "mask"), ("input", "(model)[labels]")],
    )
    gradient = np.exp(logs)
    gradient[chosen] -= 1
    gradient = record.put(
        ("grad_output", "mask"),
        rounded(gradient / TOKENS),
        [
            ["log_softmax", [0], {"dim": 1}, [TOKENS, WORDS]],
            ["full", [], {"value": 1.0}, []],
            ["nll_loss_grad", [3, 2, 1], average, [TOKENS, WORDS]],
            ["log_softmax_grad", [4, 2], {"dim": 1}],
        ],
        [("output", "mask"), ("input", "(model)[labels]")],
    )
    gradient = record.put(("grad_output", "head"), gradient, same=("grad_output", "mask"))
    raw: dict[str, Array] = {}
    for i in reversed(range(LAYERS + 1)):
        name = names[i]
        rows, columns = weights[name].shape
        of = [("grad_output", name), ("input", name)]
        raw[f"{name}.weight"] = record.put(
            ("param_grad", f"{name}.weight"),
            rounded(gradient.astype("float64").T @ inputs[name].astype("float64")),
            [["permute", [0], {"dims": [1, 0]}, [rows, TOKENS]], ["matmul", [2, 1], {}]],
            of,
        )
        raw[f"{name}.bias"] = record.put(
            ("param_grad", f"{name}.bias"),
            rounded(gradient.astype("float64").sum(0)),
            [["sum", [0], {"dims": [0], "keep": False}]],
            of[:1],
        )
        if i == 0:
            break
        before, act = names[i - 1], f"layers.{i - 1}.act"
        gradient = record.put(
            ("grad_output", act),
            rounded(gradient.astype("float64") @ weights[name].astype("float64")),
            [["matmul", [0, 1], {}]],
            [("grad_output", name), ("param", f"{name}.weight")],
        )
        gradient = record.put(
            ("grad_output", before),
            np.where(outputs[before] > 0, gradient, 0).astype(dtype),
            [["relu_grad", [0, 1], {}]],
            [("grad_output", act), ("output", before)],
        )

    _after_backward(record, raw, unused)
    record.run.specification = {
        "schema": "ttrace.specification/1",
        "patterns": record.patterns,
        "tensors": record.tensors,
        "after_backward": {"main_grad": {"combine": "sum", "factor": 1.0}},
    }
    return record.run


def _after_backward(record: _Recorder, raw: dict[str, Array], unused: bool) -> None:
    main = {name: record.after(("main_grad", name), value) for name, value in raw.items()}
    squares = sum(float((value.astype("float64") ** 2).sum()) for value in main.values())
    record.after(("grad_norm", "grad_norm"), np.array(np.sqrt(squares), "float32"))
    rate = record.run.values["input", "(model)"].dtype.type(RATE)
    for name, value in main.items():
        before = record.run.values["param", name]
        record.after(("param_after_step", name), before - rate * value)
    group: dict[str, Any] = {"step": 0, "type": "sgd", "lr": RATE, "momentum": 0.0}
    group |= {"dampening": 0.0, "weight_decay": 0.0, "nesterov": False, "maximize": False}
    groups = [{**group, "updates": 1, "params": list(main)}]
    if unused:
        value = record.put(("param", "unused.weight"), np.ones((WIDTH, WIDTH), "float32") / 3)
        record.after(("param_after_step", "unused.weight"), value)
        groups.append({**group, "updates": 1, "params": ["unused.weight"]})
    record.run.manifest["optimizer"] = groups
