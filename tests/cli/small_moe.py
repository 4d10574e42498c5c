"""A small mixture of experts in numpy: two layers that mix tokens and send each to two experts.

`run` computes it as a trace; what it is told to do wrong is done in the candidate.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from conformance.write_trace import Tensor, write_candidate, write_reference

TOKENS, HIDDEN, EXPERTS, CHOSEN, LAYERS = 512, 16, 8, 2, 2
Array = np.ndarray


@dataclass
class Model:
    seed: int = 0
    rounding: float = 0.0  # relative, of everything that a module returns
    spelling: str = "map"  # or "indices" beside recorded logits, or "weights" alone
    choose: Callable[[Array], Array] | None = None  # logits -> numbers of experts, row by row
    after: Callable[[str, Array], Array] | None = None  # name and output of a module -> output
    tensors: list[Tensor] = field(default_factory=list)
    sharded: bool = True

    def __post_init__(self) -> None:
        random = np.random.default_rng(11)
        self.inputs = random.standard_normal((TOKENS, HIDDEN))
        self.routers = random.standard_normal((LAYERS, EXPERTS, HIDDEN)) / 4
        self.experts = random.standard_normal((LAYERS, EXPERTS, HIDDEN, HIDDEN))
        self._noise = np.random.default_rng(100 + self.seed)

    def put(self, name: str, kind: str, values: Array) -> None:
        dtype = {"b": "bool", "i": "int64"}.get(values.dtype.kind, "float32")
        stored = values.astype("<f4") if dtype == "float32" else values
        cut = {"shard": 0} if self.sharded and kind in ("input", "output") else "replicate"
        microbatch = None if kind == "param" else 0
        computed_in = "float16" if dtype == "float32" else None
        self.tensors.append(
            Tensor(name, kind, dtype, stored, cut, microbatch, computed_in=computed_in)
        )

    def out(self, name: str, values: Array) -> Array:
        if values.dtype.kind == "f":
            off = self.rounding * self._noise.uniform(-1, 1, values.shape)
            values = (values * (1 + off)).astype("<f4").astype("f8")
        if self.after is not None:
            values = self.after(name, values)
        self.put(name, "output", values)
        return values

    def run(self) -> Model:
        x = self.out("embed", self.inputs)
        for layer in range(LAYERS):
            x = self._layer(f"layers.{layer}", layer, x)
        self.put("loss", "loss", np.asarray((x**2).mean()))
        return self

    def _layer(self, name: str, layer: int, x: Array) -> Array:
        self.put(f"{name}.attention", "input", x)
        before = np.cumsum(x, axis=0) / np.sqrt(np.arange(1, TOKENS + 1))[:, None]
        x = x + before
        if layer == 0:
            x = near_ties(x, self.routers[0])
        x = self.out(f"{name}.attention", x)
        self.put(f"{name}.mlp.router", "input", x)
        self.put(f"{name}.mlp.router.weight", "param", self.routers[layer])
        logits = x @ self.routers[layer].T
        chosen = (self.choose or best)(logits)
        kept = np.take_along_axis(logits, chosen, axis=1)
        shares = np.exp(kept) / np.exp(kept).sum(axis=1, keepdims=True)
        weights = np.zeros_like(logits)
        np.put_along_axis(weights, chosen, shares, axis=1)
        router = f"{name}.mlp.router"
        if self.spelling == "indices":
            self.put(router, "output", logits)
            self.put(f"{router}[1]", "output", chosen.astype("<i8"))
        else:
            weights = self.out(router, weights)
        if self.spelling == "map":
            self.put(f"{router}[1]", "output", weights != 0)
        mixed = sum(weights[:, [e]] * np.tanh(x @ self.experts[layer, e]) for e in range(EXPERTS))
        y = self.out(f"{name}.mlp", 6 * mixed)
        return self.out(name, x + y)


def near_ties(x: Array, router: Array) -> Array:
    """Eight tokens moved to where the last expert chosen and the first not differ by 1e-5."""
    x = x.copy()
    for token in range(3, TOKENS, TOKENS // 8):
        order = np.argsort(-(x[token] @ router.T))
        apart = router[order[CHOSEN - 1]] - router[order[CHOSEN]]
        x[token] -= (x[token] @ apart - 1e-5) / (apart @ apart) * apart
    return x


def best(logits: Array) -> Array:
    return np.argsort(-logits, axis=1, kind="stable")[:, :CHOSEN]


def modules() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"name": "embed", "inputs": []}]
    before = "embed"
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        router = f"{name}.mlp.router"
        inside = [f"{name}.attention", router, f"{router}[1]"]
        found += [
            {
                "name": name,
                "inputs": [before],
                "computed_from": [f"{name}.attention", f"{name}.mlp"],
            },
            {"name": f"{name}.attention", "class": "SelfAttention", "inputs": [before]},
            {"name": f"{name}.mlp", "inputs": inside[:1], "computed_from": inside[:2]},
            {
                "name": router,
                "inputs": inside[:1],
                "params": [f"{router}.weight"],
                "outputs": inside[1:],
            },
        ]
        before = name
    return [*found, {"name": "loss", "computed_from": [before]}]


def write_pair(folder: Path, candidate: Model, spelling: str = "map") -> tuple[Path, Path]:
    """A reference on one process, and the candidate with its tokens cut over two ranks."""
    reference = Model(spelling=spelling).run()
    candidate.spelling = spelling
    write_reference(folder / "ref.h5", reference.tensors)
    with h5py.File(folder / "ref.h5", "a") as file:
        manifest = json.loads(file["manifest"][()])
        del file["manifest"]
        file["manifest"] = json.dumps({**manifest, "modules": modules()})
    write_candidate(folder / "run", candidate.run().tensors)
    return folder / "ref.h5", folder / "run"
