"""Builders of specifications that are made to take all memory, all time or the stack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from support.ttrace_cli import TESTDATA

F32 = "float32"
NORM = "layers.0.norm1"  # its input and output are in the trace
SHAPE = [16, 2, 16]

Node = list[Any]
Tensor = dict[str, Any]


def tensor(kind: str, name: str, shape: list[int] = SHAPE, **more: Any) -> Tensor:
    return {"kind": kind, "name": name, "dtype": F32, "shape": shape, **more}


def document(patterns: list[Any], tensors: list[Tensor]) -> str:
    schema = "ttrace.specification/1"
    whole = {"schema": schema, "patterns": patterns, "tensors": tensors}
    return json.dumps(whole, separators=(",", ":"))


def pattern(nodes: list[Node], inputs: int = 1) -> dict[str, Any]:
    return {"inputs": inputs, "nodes": nodes}


def one(nodes: list[Node]) -> str:
    """The output of a module of the trace, from its input."""
    output = tensor("output", NORM, pattern=0, **{"from": [0]})
    return document([pattern(nodes)], [tensor("input", NORM), output])


def node(name: str, arguments: list[int], shape: list[int] = SHAPE, **attributes: Any) -> Node:
    return [name, arguments, attributes, F32, shape]


def chain(count: int, step: Callable[[int], Node]) -> str:
    """Nodes of which each is made of the one before: step(i) takes value i."""
    return one([step(i) for i in range(count)])


def tail(shape: list[int], value: int) -> list[Node]:
    """Nodes that make the output's shape of a value of another."""
    total = node("sum", [value], [], dims=list(range(len(shape))), keep=False)
    return [total, node("expand", [value + 1])]


def added_to_itself(count: int) -> str:
    return chain(count, lambda i: node("add", [i, i]))


def fibonacci(count: int) -> str:
    nodes = [node("add", [0, 0])]
    nodes += [node("add", [i, i - 1]) for i in range(1, count)]
    return one(nodes)


def products(count: int, computed: bool) -> str:
    """A sum of `count` products of a matrix with a matrix."""
    weight = "layers.0.mlp.fc1.weight"
    tensors = [tensor("input", "layers.0.mlp.fc1"), tensor("param", weight, [32, 16])]
    nodes: list[Node] = [node("permute", [1], [16, 32], dims=[1, 0])]
    total = None
    for i in range(count):
        right = 2
        if computed:
            right = 2 + len(nodes)
            nodes.append([*node("full", [], [16, 32], value=1 + i)])
        nodes.append(node("matmul", [0, right], [16, 2, 32]))
        if total is not None:
            nodes.append(node("add", [total, 1 + len(nodes)], [16, 2, 32]))
        total = 1 + len(nodes)
    tensors.append(tensor("output", "layers.0.mlp.fc1", [16, 2, 32], pattern=0, **{"from": [0, 1]}))
    return document([pattern(nodes, 2)], tensors)


def sum_of_constants(count: int) -> str:
    nodes: list[Node] = []
    total = 0
    for i in range(count):
        nodes.append(node("full", [], value=i))
        nodes.append(node("add", [total, len(nodes)]))
        total = len(nodes)
    return one(nodes)


def wide(count: int) -> str:
    shape = [16 * count, *SHAPE[1:]]
    return one([node("concat", [0] * count, shape, dim=0), *tail(shape, 1)])


def used_wide(count: int, uses: int) -> str:
    """One wide node in a pattern of which an expression has many."""
    nodes = [node("concat", [0] * count, [16 * count, *SHAPE[1:]], dim=0)]
    nodes.append(node("slice", [1], dim=0, start=0, stop=16, step=1))
    tensors = [tensor("input", NORM)]
    for i in range(uses):
        tensors.append(tensor("output", f"u{i}", pattern=0, **{"from": [i]}))
    tensors.append(tensor("output", NORM, same=uses))
    return document([pattern(nodes)], tensors)


def doubled(count: int, open_extent: bool) -> str:
    nodes = []
    extent = 16
    for i in range(count):
        extent *= 2
        nodes.append(node("concat", [i, i], [-1 if open_extent else extent, *SHAPE[1:]], dim=0))
    shape = [-1 if open_extent else extent, *SHAPE[1:]]
    return one([*nodes, *tail(shape, count)])


def expanded(shape: list[int], reduced: bool = True) -> str:
    flat = node("reshape", [0], [512])
    first = node("slice", [1], [1], dim=0, start=0, stop=1, step=1)
    again = node("add", [3, 3], shape)
    rest = tail(shape, 4) if reduced else [node("reshape", [4])]
    return one([flat, first, node("expand", [2], shape), again, *rest])


def outer(count: int) -> str:
    """Open extents that a broadcast multiplies, again and again."""
    nodes: list[Node] = []
    value = 0
    for _ in range(count):
        nodes.append(node("reshape", [value], [-1, 1]))
        nodes.append(node("reshape", [value], [1, -1]))
        nodes.append(node("add", [len(nodes) - 1, len(nodes)], [-1, -1]))
        value = len(nodes)
    return one([*nodes, *tail([-1, -1], value)])


def made(name: str, shape: list[int], arguments: list[int], **attributes: Any) -> str:
    """A node of that shape, of which the output is the sum."""
    return one([node(name, arguments, shape, **attributes), *tail(shape, 1)])


def table(name: str, shape: list[int], arguments: list[int], **attributes: Any) -> str:
    """The same of a node that takes value 1, whole numbers from 0, beside the input."""
    ids = ["arange", [], {"start": 0, "step": 1}, "int64", [16]]
    return one([ids, node(name, arguments, shape, **attributes), *tail(shape, 2)])


def huge_product(extent: int) -> str:
    shapes = [[1, extent], [extent, extent]]
    nodes = [node("full", [], shapes[0], value=1), node("full", [], shapes[1], value=1)]
    return one([*nodes, node("matmul", [1, 2], [1, extent]), *tail([1, extent], 3)])


def huge_attention(extent: int) -> str:
    nodes = [node("full", [], [1, 1, extent, 8], value=1)]
    nodes.append(node("attention", [1, 1, 1], [1, 1, extent, 8], scale=1.0, causal=False))
    return one([*nodes, *tail([1, 1, extent, 8], 2)])


def many_dimensions(references: int) -> str:
    """References to a tensor whose shape has 64 extents."""
    shape = [1] * 61 + SHAPE
    nodes = [node("reshape", [0])]
    tensors = [tensor("input", NORM), tensor("input", "wide", shape)]
    tensors.append(tensor("output", NORM, pattern=0, **{"from": [0] + [1] * references}))
    return document([pattern(nodes, references + 1)], tensors)


def long_lists(lists: int, references: int) -> str:
    tensors = [tensor("input", NORM)]
    for i in range(lists):
        tensors.append(tensor("output", f"u{i}", pattern=0, **{"from": [i] * references}))
    tensors.append(tensor("output", NORM, same=lists))
    return document([pattern([node("add", [0, references - 1])], references)], tensors)


def names_of_one(count: int, chained: bool) -> str:
    tensors = [tensor("input", "given")]
    for i in range(count):
        tensors.append(tensor("input", f"n{i}", same=i if chained else 0))
    tensors.append(tensor("output", NORM, pattern=0, **{"from": [count]}))
    return document([pattern([node("negate", [0])])], tensors)


def many_given(count: int) -> str:
    return document([], [tensor("input", NORM), *(tensor("param", f"p{i}") for i in range(count))])


def many_patterns(patterns: int, nodes: int) -> str:
    """A chain through the patterns of tensors that the trace lacks."""
    tensors = [tensor("input", NORM)]
    for i in range(patterns):
        tensors.append(tensor("output", f"u{i}", pattern=i, **{"from": [i]}))
    tensors.append(tensor("output", NORM, same=patterns))
    chains = [pattern([node("negate", [n]) for n in range(nodes)]) for _ in range(patterns)]
    return document(chains, tensors)


def tensors_of_two(count: int) -> str:
    """Every tensor is the sum of the two before it; the trace has the first and the last."""
    tensors = [tensor("input", NORM)]
    for i in range(count):
        tensors.append(tensor("output", f"u{i}", pattern=0, **{"from": [i, max(0, i - 1)]}))
    tensors.append(tensor("output", NORM, same=count))
    return document([pattern([node("add", [0, 1])], 2)], tensors)


def opaque_chain(count: int) -> str:
    tensors = [tensor("input", NORM)]
    for i in range(count):
        tensors.append(tensor("output", f"u{i}", opaque="aten.x", **{"from": [i]}))
    tensors.append(tensor("output", NORM, same=count))
    return document([], tensors)


def constant_leaves(count: int) -> str:
    """Inputs whose elements stand in the specification, each cast: leaves times steps."""
    tensors = [tensor("input", NORM)]
    nodes: list[Node] = []
    total = 0
    for i in range(count):
        tensors.append(tensor("buffer", f"b{i}", [1], values=[1.0]))
        nodes.append(["cast", [1 + i], {}, "bfloat16", [1]])
        cast = count + len(nodes)
        nodes.append(node("add", [total, cast]))
        total = count + len(nodes)
    numbers = list(range(count + 1))
    tensors.append(tensor("output", NORM, pattern=0, **{"from": numbers}))
    return document([pattern(nodes, count + 1)], tensors)


def literals(count: int) -> str:
    nodes: list[Node] = []
    total = 0
    for i in range(count):
        nodes.append(node("literal", [], [4096], values=[i] * 4096))
        nodes.append(node("slice", [len(nodes)], [16], dim=0, start=0, stop=16, step=1))
        nodes.append(node("add", [total, len(nodes)]))
        total = len(nodes)
    return one(nodes)


def every_tensor_deep(steps: int) -> str:
    """Every tensor of the trace that a step computes is that many operations away from nothing."""
    nodes = [node("full", [], [1], value=1.0)]
    nodes += [node("negate", [i], [1]) for i in range(steps)]
    patterns = [pattern(nodes, 0)]
    tensors = [tensor("output", "deep", [1], pattern=0)]
    for entry in json.loads((TESTDATA / "specification.json").read_text())["tensors"]:
        if entry["kind"] not in ("output", "grad_output", "param_grad"):
            continue
        key = {name: entry[name] for name in ("kind", "name", "call", "copy") if name in entry}
        again = [*node("expand", [0])[:3], entry["dtype"], entry["shape"]]
        about = {"dtype": entry["dtype"], "shape": entry["shape"], "from": [0]}
        tensors.append({**key, **about, "pattern": len(patterns)})
        patterns.append(pattern([again]))
    return document(patterns, tensors)


def nested(depth: int) -> str:
    return '{"schema":' + "[" * depth + "]" * depth + "}"


def padded(text: str, size: int) -> str:
    return text + " " * (size - len(text))


def long_array(item: str, size: int) -> str:
    return (
        '{"schema":"ttrace.specification/1","patterns":['
        + ",".join([item] * (size // (len(item) + 1)))
        + '],"tensors":[]}'
    )


def with_number(text: str) -> str:
    return added_to_itself(1).replace("[16,2,16]]", f"[16,{text},16]]")
