"""Evaluates a specification on a trace of one file, in binary64, from the schema's page alone.

Usage: python evaluate_specification.py SPECIFICATION TRACE [STEP MICROBATCH]
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import torch

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
OF_STEP = ("param", "buffer")
JUDGED = ("input", "output", "loss", "grad_output", "param_grad")


class NotComputable(Exception):
    """A tensor needs one that is neither recorded nor computable."""


def number(x):
    return float(x) if isinstance(x, str) else x


def wide(x):
    return x.double() if x.is_floating_point() else x


UNARY = {
    "negate": torch.neg,
    "abs": torch.abs,
    "sign": torch.sign,
    "floor": torch.floor,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "silu": lambda x: x * torch.sigmoid(x),
    "softplus": lambda x: torch.logaddexp(x, torch.zeros((), dtype=x.dtype)),
    "logical_not": torch.logical_not,
}
BINARY = {
    "add": torch.add,
    "subtract": torch.sub,
    "multiply": torch.mul,
    "divide": torch.true_divide,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "power": torch.pow,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "equal": torch.eq,
    "not_equal": torch.ne,
    "less": torch.lt,
    "less_equal": torch.le,
    "greater": torch.gt,
    "greater_equal": torch.ge,
    "logical_and": torch.logical_and,
    "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor,
    "sigmoid_grad": lambda g, y: g * y * (1 - y),
    "tanh_grad": lambda g, y: g * (1 - y * y),
    "relu_grad": lambda g, x: torch.where(x > 0, g, 0.0),
    "silu_grad": lambda g, x: g * torch.sigmoid(x) * (1 + x * (1 - torch.sigmoid(x))),
    "softplus_grad": lambda g, x: g * torch.sigmoid(x),
}
REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "max": torch.amax,
    "min": torch.amin,
    "any": torch.any,
    "all": torch.all,
    "logsumexp": torch.logsumexp,
}


def typed(values, dtype, shape):
    """Constants in the widest type of their class."""
    values = [number(v) for v in values]
    kind = torch.float64 if "float" in dtype else torch.bool if dtype == "bool" else torch.int64
    return torch.tensor(values, dtype=kind).reshape(shape)


def where_of(x, attributes):
    place = [slice(None)] * x.dim()
    place[attributes["dim"]] = slice(attributes["start"], attributes["stop"], attributes["step"])
    return tuple(place)


def cast(x, dtype):
    if dtype == "bool":
        return x != 0
    if "float" in dtype:
        return x.double()
    return x.to(torch.int64)


def quantized(x, dtype):
    kind = getattr(torch, dtype)
    if dtype.startswith("float8"):
        x = x.clamp(torch.finfo(kind).min, torch.finfo(kind).max)
    return x.to(torch.float32).to(kind).double()


def normalised(norm, x, attributes):
    """h, r and the normalised dimensions."""
    dims = list(range(x.dim() - attributes["count"], x.dim()))
    mean = x.mean(dims, keepdim=True) if norm == "layer_norm" else torch.zeros((), dtype=x.dtype)
    rstd = torch.rsqrt(((x - mean) ** 2).mean(dims, keepdim=True) + attributes["eps"])
    return (x - mean) * rstd, mean, rstd, dims


def norm_of(primitive, given, attributes):
    kind = "layer_norm" if primitive.startswith("layer_norm") else "rms_norm"
    what = primitive[len(kind) + 1 :]
    h, mean, rstd, dims = normalised(kind, given["x"], attributes)
    if what == "":
        result = h
        if "weight" in given:
            result = result * given["weight"]
        return result + given["bias"] if "bias" in given else result
    if what == "mean":
        return mean
    if what == "rstd":
        return rstd
    g = given["g"]
    if what == "grad_weight":
        others = list(range(g.dim() - len(dims)))
        return (g * h).sum(others) if others else g * h
    q = g * given["weight"] if "weight" in given else g
    inner = h * (q * h).mean(dims, keepdim=True)
    if kind == "layer_norm":
        inner = inner + q.mean(dims, keepdim=True)
    return rstd * (q - inner)


def attention(primitive, given, attributes):
    q, k, v = given["q"], given["k"], given["v"]
    groups, heads = k.shape[-3], q.shape[-3]
    repeated_k = k.repeat_interleave(heads // groups, -3)
    repeated_v = v.repeat_interleave(heads // groups, -3)
    scale = attributes["scale"]
    scores = scale * q @ repeated_k.transpose(-1, -2)
    if "mask" in given:
        mask = given["mask"]
        scores = torch.where(mask, scores, -math.inf) if mask.dtype == torch.bool else scores + mask
    if attributes["causal"]:
        keep = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        scores = torch.where(keep, scores, -math.inf)
    p = scores.softmax(-1)
    if primitive == "attention":
        return p @ repeated_v

    def grouped(x):
        return x.unflatten(-3, (groups, heads // groups)).sum(-3)

    g = given["g"]
    if primitive == "attention_grad_value":
        return grouped(p.transpose(-1, -2) @ g)
    gv = g @ repeated_v.transpose(-1, -2)
    z = p * (gv - (p * gv).sum(-1, keepdim=True))
    if primitive == "attention_grad_query":
        return scale * z @ repeated_k
    return grouped(scale * z.transpose(-1, -2) @ q)


def nll(given, attributes):
    x, target = given["x"], given["target"]
    kept = target != attributes["ignore"]
    safe = torch.where(kept, target, 0)
    loss = -x.gather(1, safe[:, None])[:, 0]
    weight = given["weight"][safe] if "weight" in given else torch.ones_like(loss)
    weight = torch.where(kept, weight, 0.0)
    loss = torch.where(kept, loss * weight, 0.0)
    if attributes["reduction"] == "none":
        return loss
    return loss.sum() / weight.sum() if attributes["reduction"] == "mean" else loss.sum()


def nll_grad(given, attributes):
    g, x, target = given["g"], given["x"], given["target"]
    kept = target != attributes["ignore"]
    each = g.expand(target.shape) if g.dim() == 0 else g
    if attributes["reduction"] == "mean":
        each = each / kept.sum()
    each = torch.where(kept, -each, 0.0)
    return torch.zeros_like(x).scatter(1, torch.where(kept, target, 0)[:, None], each[:, None])


def picked(primitive, x, a):
    """Values or indices of the largest, equal ones by lower index, or of all in order."""
    descending = a["largest"] if primitive.startswith("top") else a["descending"]
    values, indices = x.sort(dim=a["dim"], descending=descending, stable=True)
    found = values if primitive.endswith("values") else indices
    return found.narrow(a["dim"], 0, a["k"]) if primitive.startswith("top") else found


ARGUMENTS = {
    "layer_norm": ("x", "weight", "bias"),
    "layer_norm_mean": ("x",),
    "layer_norm_rstd": ("x",),
    "layer_norm_grad_input": ("g", "x", "weight"),
    "layer_norm_grad_weight": ("g", "x"),
    "rms_norm": ("x", "weight"),
    "rms_norm_grad_input": ("g", "x", "weight"),
    "rms_norm_grad_weight": ("g", "x"),
    "attention": ("q", "k", "v", "mask"),
    "attention_grad_query": ("g", "q", "k", "v", "mask"),
    "attention_grad_key": ("g", "q", "k", "v", "mask"),
    "attention_grad_value": ("g", "q", "k", "v", "mask"),
    "nll_loss": ("x", "target", "weight"),
    "nll_loss_grad": ("g", "x", "target"),
}


def evaluate(primitive, v, a, dtype, shape):
    """The result of one node. v: its arguments, a: its attributes."""
    if primitive in UNARY:
        return UNARY[primitive](v[0])
    if primitive in BINARY:
        return BINARY[primitive](v[0], v[1])
    if primitive in REDUCTIONS:
        if not a["dims"]:
            return v[0] if not primitive.startswith("a") else v[0].bool()
        return REDUCTIONS[primitive](v[0], a["dims"], keepdim=a["keep"])
    if primitive in ARGUMENTS:
        given = dict(zip(a.get("arguments", ARGUMENTS[primitive]), v, strict=False))
        if primitive.startswith("attention"):
            return attention(primitive, given, a)
        if primitive == "nll_loss":
            return nll(given, a)
        if primitive == "nll_loss_grad":
            return nll_grad(given, a)
        return norm_of(primitive, given, a)
    match primitive:
        case "reshape":
            return v[0].reshape(shape)
        case "permute":
            return v[0].permute(a["dims"])
        case "expand":
            return v[0].expand(shape)
        case "slice":
            return v[0][where_of(v[0], a)]
        case "place" | "replace":
            result = torch.zeros(shape, dtype=v[0].dtype) if primitive == "place" else v[0].clone()
            result[where_of(result, a)] = v[-1]
            return result
        case "concat":
            return torch.cat(v, a["dim"])
        case "flip":
            return v[0].flip(a["dims"])
        case "windows":
            reach = (a["size"] - 1) * a["spacing"] + 1
            return v[0].unfold(a["dim"], reach, a["step"])[..., :: a["spacing"]]
        case "full":
            return typed([a["value"]], dtype, ()).expand(shape)
        case "literal":
            return typed(a["values"], dtype, shape)
        case "arange":
            return cast(a["start"] + a["step"] * torch.arange(shape[0]), dtype)
        case "cast":
            return cast(v[0], dtype)
        case "quantize":
            return quantized(v[0], dtype)
        case "triangle":
            return v[0].tril(a["diagonal"]) if a["lower"] else v[0].triu(a["diagonal"])
        case "gelu" | "gelu_grad":
            how = "tanh" if a["tanh"] else "none"
            if primitive == "gelu":
                return torch.nn.functional.gelu(v[0], approximate=how)
            return torch.ops.aten.gelu_backward(v[0], v[1], approximate=how)
        case "where":
            return torch.where(v[0], v[1], v[2])
        case "clamp":
            return v[0].clamp(number(a.get("low")), number(a.get("high")))
        case "product":
            result = v[0]
            for dim in reversed(a["dims"]):
                result = result.prod(dim, keepdim=a["keep"])
            return result
        case "cumsum":
            return v[0].cumsum(a["dim"])
        case "variance":
            return v[0].var(a["dims"], correction=a["correction"], keepdim=a["keep"])
        case "norm":
            return torch.linalg.vector_norm(v[0], number(a["order"]), a["dims"], a["keep"])
        case "softmax":
            return v[0].softmax(a["dim"])
        case "log_softmax":
            return v[0].log_softmax(a["dim"])
        case "softmax_grad":
            return v[1] * (v[0] - (v[0] * v[1]).sum(a["dim"], keepdim=True))
        case "log_softmax_grad":
            return v[0] - v[1].exp() * v[0].sum(a["dim"], keepdim=True)
        case "triangular_solve":
            how = {"upper": not a["lower"], "unitriangular": a["unit"]}
            return torch.linalg.solve_triangular(v[0], v[1], **how)
        case "matmul":
            return v[0] @ v[1]
        case "embedding":
            return v[0][v[1]]
        case "embedding_grad":
            result = torch.zeros(a["rows"], v[0].shape[-1], dtype=v[0].dtype)
            result.index_add_(0, v[1].flatten(), v[0].reshape(-1, v[0].shape[-1]))
            if a["padding"] >= 0:
                result[a["padding"]] = 0
            return result
        case "gather":
            return v[0].gather(a["dim"], v[1])
        case "scatter_add":
            return v[0].scatter_add(a["dim"], v[1], v[2])
        case "index_rows":
            size = v[0].shape[a["dim"]]
            return v[0].index_select(a["dim"], torch.where(v[1] < 0, v[1] + size, v[1]))
        case "add_rows":
            size = v[0].shape[a["dim"]]
            return v[0].index_add(a["dim"], torch.where(v[1] < 0, v[1] + size, v[1]), v[2])
        case "one_hot":
            return v[0][..., None] == torch.arange(a["classes"])
        case "top_values" | "top_indices" | "sort_values" | "sort_indices":
            return picked(primitive, v[0], a)
        case "nll_loss_count":
            return (v[0] != a["ignore"]).sum()
    raise AssertionError(f"no primitive {primitive}")


@dataclass
class Judgement:
    """One recorded tensor: its error in epsilons, or why it has none."""

    key: tuple
    error: float | None = None
    reason: str | None = None


@dataclass
class Evaluation:
    """A specification on one micro-batch of a trace."""

    specification: dict
    trace: Path
    step: int = 0
    microbatch: int = 0
    changed: dict = field(default_factory=dict)

    def __post_init__(self):
        self._file = h5py.File(self.trace, "r")
        self._tensors = self.specification["tensors"]
        self._cache = {}
        self._read = {}
        names = {}
        for number_of, tensor in enumerate(self._tensors):
            if "same" in tensor:
                root = names[tensor["same"]]
                root.append(number_of)
                names[number_of] = root
            else:
                names[number_of] = [number_of]
        self._names = names

    def path(self, tensor):
        path = f"step_{self.step:06d}"
        if tensor["kind"] not in OF_STEP:
            path += f"/mb_{self.microbatch:04d}"
        if tensor.get("call", 0):
            path += f"/call_{tensor['call']:04d}"
        return f"{path}/{tensor['kind']}/{tensor['name']}"

    def recorded(self, index):
        """The tensor in the trace, widened; None if it is not there."""
        if index not in self._read:
            tensor = self._tensors[index]
            path = self.path(tensor)
            value = None
            if path in self._file:
                dataset = self._file[path]
                assert list(dataset.shape) == tensor["shape"], path
                data = dataset[()]
                kind = np.asarray(data).dtype.kind
                data = np.asarray(data, np.float64 if kind not in "iub" else None)
                value = torch.from_numpy(data.astype(np.int64) if kind in "iu" else data)
                value = value != 0 if tensor["dtype"] == "bool" else value
                if (tensor["kind"], tensor["name"]) in self.changed:
                    value = value * self.changed[tensor["kind"], tensor["name"]]
            elif "values" in tensor:
                value = typed(tensor["values"], tensor["dtype"], tensor["shape"])
            self._read[index] = value
        return self._read[index]

    def value(self, index):
        """A tensor as an input: recorded under any of its names, else computed."""
        for name in self._names[index]:
            value = self.recorded(name)
            if value is not None:
                return value
        return self.computed(self._names[index][0])

    def computed(self, index):
        """A tensor by its pattern."""
        if index in self._cache:
            return self._cache[index]
        tensor = self._tensors[index]
        if "opaque" in tensor:
            raise NotComputable(f"opaque: {tensor['opaque']}")
        if "pattern" not in tensor:
            raise NotComputable(f"not recorded: {tensor['kind']} {tensor['name']}")
        pattern = self.specification["patterns"][tensor["pattern"]]
        values = [self.value(source) for source in tensor.get("from", [])]
        assert len(values) == pattern["inputs"]
        for primitive, arguments, attributes, dtype, shape in pattern["nodes"]:
            result = evaluate(primitive, [values[i] for i in arguments], attributes, dtype, shape)
            assert list(result.shape) == shape, (primitive, result.shape, shape)
            values.append(result if result.dtype == torch.bool else cast(result, dtype))
        self._cache[index] = values[-1]
        return values[-1]

    def judge(self, index):
        """Judges a recorded tensor; None for one that is given or not recorded."""
        tensor = self._tensors[index]
        key = (tensor["kind"], tensor["name"], tensor.get("call", 0))
        found = self.recorded(index)
        if found is None or tensor["kind"] in OF_STEP:
            return None
        if "same" in tensor:
            others = [n for n in self._names[index] if n != index and n < index]
            other = next((self.recorded(n) for n in others if self.recorded(n) is not None), None)
            if other is not None:
                return self._compared(key, tensor, other, found)
            index = self._names[index][0]
            if not {"pattern", "opaque"} & set(self._tensors[index]):
                return Judgement(key, None, "given")
        elif "pattern" not in tensor and "opaque" not in tensor:
            return Judgement(key, None, "given")
        try:
            wanted = self.computed(index)
        except NotComputable as why:
            return Judgement(key, None, str(why))
        return self._compared(key, tensor, wanted, found)

    def _compared(self, key, tensor, wanted, found):
        if tensor["dtype"] not in EPSILON:
            return Judgement(key, 0.0 if torch.equal(wanted.long(), found.long()) else math.inf)
        precision = self.specification.get("precision", "float64")
        epsilon = max(EPSILON[tensor["dtype"]], EPSILON[precision])
        finite = torch.isfinite(wanted) & torch.isfinite(found)
        if not torch.equal(torch.where(finite, 0.0, wanted), torch.where(finite, 0.0, found)):
            return Judgement(key, math.inf)
        wanted, found = torch.where(finite, wanted, 0.0), torch.where(finite, found, 0.0)
        error, size = float((wanted - found).norm()), float(wanted.norm())
        if error == 0:
            return Judgement(key, 0.0)
        return Judgement(key, error / size / epsilon if size else math.inf)

    def judge_all(self):
        """All recorded tensors, and the fraction of those of the micro-batch that were judged."""
        found = [self.judge(index) for index in range(len(self._tensors))]
        return [one for one in found if one is not None]

    def recorded_keys(self):
        """(kind, name, call) of everything that the trace recorded in the micro-batch."""
        manifest = json.loads(self._file["manifest"][()])
        return {
            (e["kind"], e["name"], e.get("call", 0))
            for e in manifest["tensors"]
            if e["step"] == self.step
            and e.get("microbatch") == self.microbatch
            and e["kind"] in JUDGED
        }

    def coverage(self, judgements):
        """The fraction of the recorded tensors that were judged."""
        keys = self.recorded_keys()
        return len(keys & {one.key for one in judgements if one.error is not None}) / len(keys)


def report(specification, trace, step=0, microbatch=0):
    evaluation = Evaluation(
        json.loads(Path(specification).read_text()), Path(trace), step, microbatch
    )
    judged = evaluation.judge_all()
    errors = sorted((one for one in judged if one.error is not None), key=lambda one: -one.error)
    print(
        f"{len(judged)} recorded and specified, {len(errors)} judged, "
        f"coverage {evaluation.coverage(judged):.1%}"
    )
    for one in errors[:8]:
        print(f"  {one.error:10.3g} ε  {one.key}")
    for one in judged:
        if one.reason not in (None, "given"):
            print("  not judged:", one.key, one.reason)
    missing = evaluation.recorded_keys() - {one.key for one in judged}
    print("  recorded and not in the specification:", sorted(missing))


if __name__ == "__main__":
    report(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
