"""Lies of a specification: each changes what is said of a run, and not the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from faults_of_step import GIVEN, SPOT
from small_step import Key, Run

Lie = Callable[[Run], object]
Wanted = Callable[[str, str], bool]  # by kind and name


Node = list[Any]
Nodes = Callable[[int, int], list[Node]]


def result_of(run: Run, key: Key) -> tuple[dict[str, Any], int, str, list[int]]:
    """The pattern that computes the tensor, made its own; its result; type and shape."""
    tensor = run.tensor(*key)
    patterns = run.specification["patterns"]
    own = {"inputs": 1, "nodes": []}
    if "pattern" in tensor:
        old = patterns[tensor["pattern"]]
        own = {"inputs": old["inputs"], "nodes": [list(node) for node in old["nodes"]]}
    else:
        own["nodes"].append(["reshape", [0], {}, tensor["dtype"], tensor["shape"]])
        tensor["from"] = [tensor.pop("same")]
    tensor["pattern"] = len(patterns)
    patterns.append(own)
    return own, own["inputs"] + len(own["nodes"]) - 1, tensor["dtype"], tensor["shape"]


def append(run: Run, key: Key, nodes: Nodes) -> None:
    """nodes(result, next): what is done to the result, the numbers of values from `next` on. They
    are without type and shape, which are the tensor's where nothing else is given."""
    own, result, dtype, shape = result_of(run, key)
    for node in nodes(result, result + 1):
        node = [*node, *[dtype, shape][len(node) - 3 :]] if len(node) < 5 else node
        own["nodes"].append(node)


def full(value: float) -> Node:
    return ["full", [], {"value": value}]


def there_and_back(amount: float) -> Nodes:
    return lambda x, n: [full(amount), ["add", [x, n], {}], ["subtract", [n + 1, n], {}]]


def multiplied_and_divided(amount: float) -> Nodes:
    """x·K - x·(K - 1)."""
    return lambda x, n: [
        full(amount),
        ["multiply", [x, n], {}],
        full(amount - 1),
        ["multiply", [x, n + 2], {}],
        ["subtract", [n + 1, n + 3], {}],
    ]


def doubled_and_back(times: int) -> Nodes:
    """2^n·x - (2^n - 1)·x, of terms that are added to themselves."""

    def nodes(x: int, n: int) -> list[Node]:
        found: list[Node] = []
        value = x
        for _ in range(times):
            found.append(["add", [value, value], {}])
            value = n + len(found) - 1
        found.append(["subtract", [value, x], {}])
        return [*found, ["subtract", [value, n + len(found) - 1], {}]]

    return nodes


def summed_and_back(amount: float) -> Nodes:
    """Through a maximum and a minimum as well, so that no term is the value itself."""
    return lambda x, n: [
        full(amount),
        ["add", [x, n], {}],
        full(-2 * amount),
        ["maximum", [n + 1, n + 2], {}],
        ["subtract", [n + 3, n], {}],
    ]


def through_a_type(dtype: str) -> Nodes:
    return lambda x, n: [["cast", [x], {}, dtype]]


def behind(nodes: Nodes, *keys: Key) -> Lie:
    def lie(run: Run) -> None:
        for key in keys:
            append(run, key, nodes)

    return lie


def behind_all(nodes: Nodes) -> Lie:
    def lie(run: Run) -> None:
        for tensor in list(run.specification["tensors"]):
            if "pattern" in tensor and tensor["dtype"].startswith("float"):
                append(run, (tensor["kind"], tensor["name"]), nodes)

    return lie


def without_formula(tensor: dict[str, Any]) -> None:
    for member in ("pattern", "same", "from", "opaque"):
        tensor.pop(member, None)


def remove_formulas(wanted: Wanted) -> Lie:
    def lie(run: Run) -> None:
        for tensor in run.specification["tensors"]:
            if wanted(tensor["kind"], tensor["name"]):
                without_formula(tensor)

    return lie


def make_opaque(wanted: Wanted, with_operands: bool = True) -> Lie:
    def lie(run: Run) -> None:
        for tensor in run.specification["tensors"]:
            if not wanted(tensor["kind"], tensor["name"]) or tensor["kind"] == "param":
                continue
            if "pattern" not in tensor and "same" not in tensor:
                continue
            operands = tensor.get("from", [])
            if "same" in tensor:
                operands = [tensor["same"]]
            without_formula(tensor)
            tensor["opaque"] = "aten.special"
            if with_operands:
                tensor["from"] = operands

    return lie


def remove_entries(wanted: Wanted) -> Lie:
    """Tensors that the specification does not have; what follows from them is without formula."""

    def lie(run: Run) -> None:
        tensors = run.specification["tensors"]
        gone = {i for i, one in enumerate(tensors) if wanted(one["kind"], one["name"])}
        numbers: dict[int, int] = {}
        kept = []
        for i, tensor in enumerate(tensors):
            if i in gone:
                continue
            if gone & {*tensor.get("from", []), *([tensor["same"]] if "same" in tensor else [])}:
                without_formula(tensor)
            if "from" in tensor:
                tensor["from"] = [numbers[one] for one in tensor["from"]]
            if "same" in tensor:
                tensor["same"] = numbers[tensor["same"]]
            numbers[i] = len(kept)
            kept.append(tensor)
        run.specification["tensors"] = kept

    return lie


def kinds(*names: str) -> Wanted:
    return lambda kind, _: kind in names


def is_key(*keys: Key) -> Wanted:
    return lambda kind, name: (kind, name) in keys


def everything(kind: str, name: str) -> bool:
    return kind != "param" and not name.startswith("(model)")


def follows_from_next(run: Run) -> None:
    """The output is another name of what the next module is given, and that is given."""
    spot, given = run.tensor(*SPOT), run.tensor(*GIVEN)
    without_formula(given)
    move_before(run, GIVEN, SPOT)
    without_formula(spot)
    spot["same"] = run.number(*GIVEN)


def move_before(run: Run, key: Key, other: Key) -> None:
    tensors = run.specification["tensors"]
    old = run.number(*key)
    new = run.number(*other)
    order = list(range(len(tensors)))
    order.insert(new, order.pop(old))
    places = {number: place for place, number in enumerate(order)}
    for tensor in tensors:
        if "from" in tensor:
            tensor["from"] = [places[one] for one in tensor["from"]]
        if "same" in tensor:
            tensor["same"] = places[tensor["same"]]
    run.specification["tensors"] = [tensors[number] for number in order]


def write_answer(key: Key) -> Lie:
    """The formula is the recorded value."""

    def lie(run: Run) -> None:
        tensor = run.tensor(*key)
        without_formula(tensor)
        values = [float(one) for one in run.values[key].reshape(-1)]
        literal = ["literal", [], {"values": values}, tensor["dtype"], [len(values)]]
        again = ["reshape", [0], {}, tensor["dtype"], tensor["shape"]]
        tensor |= {"pattern": len(run.specification["patterns"]), "from": []}
        run.specification["patterns"].append({"inputs": 0, "nodes": [literal, again]})

    return lie


def answer_in_buffer(key: Key) -> Lie:
    """The same, in a buffer whose elements stand in the specification."""

    def lie(run: Run) -> None:
        tensor = run.tensor(*key)
        without_formula(tensor)
        values = [float(one) for one in run.values[key].reshape(-1)]
        about = {"dtype": tensor["dtype"], "shape": tensor["shape"]}
        buffer = {"kind": "buffer", "name": "answer", **about, "values": values}
        run.specification["tensors"].append(buffer)
        move_before(run, ("buffer", "answer"), key)
        run.tensor(*key)["same"] = run.number("buffer", "answer")

    return lie


def changed_node(name: str, change: Callable[[Node], object], *keys: Key) -> Lie:
    def lie(run: Run) -> None:
        for key in keys:
            own, *_ = result_of(run, key)
            for node in own["nodes"]:
                if node[0] == name:
                    node[2] = dict(node[2])
                    change(node)

    return lie


def tied(*names: str) -> Lie:
    def lie(run: Run) -> None:
        run.specification["after_backward"]["tied"] = [list(names)]

    return lie


def after_backward(**members: Any) -> Lie:
    def lie(run: Run) -> None:
        for name, value in members.items():
            if value is None:
                run.specification["after_backward"].pop(name, None)
            else:
                run.specification["after_backward"][name] = value

    return lie


def unused_is_trained(**members: Any) -> Lie:
    """The specification claims a gradient for the parameter that nothing uses."""

    def lie(run: Run) -> None:
        about = {"dtype": "float32", "shape": run.tensor("param", "unused.weight")["shape"]}
        of = {"from": [run.number("param", "unused.weight")]} if "opaque" in members else {}
        run.specification["tensors"].append(
            {"kind": "param_grad", "name": "unused.weight", **about, **members, **of}
        )

    return lie


def nan_formula(value: str, *keys: Key) -> Lie:
    """The formula makes what the run has, a value that is not finite, at the same places."""

    def lie(run: Run) -> None:
        for key in keys:
            own, result, dtype, shape = result_of(run, key)
            places = (~np.isfinite(run.values[key])).reshape(-1)
            flags = [
                "literal",
                [],
                {"values": [bool(one) for one in places]},
                "bool",
                [places.size],
            ]
            own["nodes"].append(flags)
            own["nodes"].append(["reshape", [result + 1], {}, "bool", shape])
            own["nodes"].append([*full(0), dtype, shape])
            own["nodes"][-1][2] = {"value": value}
            own["nodes"].append(["where", [result + 2, result + 3, result], {}, dtype, shape])

    return lie


def output_with_nan(run: Run) -> None:
    """One more output: a copy of the input of the model, with some elements NaN by its formula."""
    value = run.values["input", "(model)"].copy()
    value.reshape(-1)[:7] = np.nan
    run.values["output", "extra"] = value
    about = {
        "kind": "output",
        "name": "extra",
        "dtype": str(value.dtype),
        "shape": list(value.shape),
    }
    run.specification["tensors"].append({**about, "same": run.number("input", "(model)")})
    nan_formula("nan", ("output", "extra"))(run)
