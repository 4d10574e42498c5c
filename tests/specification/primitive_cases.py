# ruff: noqa: B023, E501, E731
"""Writes primitive_cases.json: every primitive on small tensors, with the results of torch.

python tests/specification/primitive_cases.py > tests/specification/primitive_cases.json
"""

import json
import math
import sys

import torch
import torch.nn.functional as F

torch.manual_seed(7)
D = torch.float64
CASES = []


def number(x):
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return int(x) if x == int(x) and abs(x) < 1e6 else float(f"{x:.17g}")


def listed(x):
    return [number(float(v)) for v in x.double().flatten().tolist()]


def dtype(x):
    return {torch.bool: "bool", torch.int64: "int64"}.get(x.dtype, "float64")


def case(name, inputs, expected, **attributes):
    node = [name, list(range(len(inputs))), attributes, dtype(expected), list(expected.shape)]
    CASES.append(
        {
            "inputs": [
                {"dtype": dtype(x), "shape": list(x.shape), "values": listed(x)} for x in inputs
            ],
            "node": node,
            "expected": listed(expected),
        }
    )


def r(*shape):
    # Few digits keep the file short.
    return (torch.randn(*shape, dtype=D) * 64).round() / 64


def derivative(function, x, g):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(function(x), x, g)[0]


x, y, z = r(2, 3), r(2, 3), r(3)
p = r(2, 3).abs() + 0.125
t = r(2, 3, 4)
case("reshape", [t], t.reshape(4, 6))
case("permute", [t], t.permute(2, 0, 1), dims=[2, 0, 1])
case("expand", [z], z.expand(2, 2, 3))
case("slice", [t], t[:, :, 1:4:2], dim=2, start=1, stop=4, step=2)
placed = torch.zeros(2, 5, dtype=D)
placed[:, 0:5:2] = x
case("place", [x], placed, dim=1, start=0, stop=5, step=2)
replaced = t.clone()
replaced[:, 1:2] = 9 * t[:, 2:3]
case("replace", [t, 9 * t[:, 2:3]], replaced, dim=1, start=1, stop=2, step=1)
case("concat", [x, y, x], torch.cat([x, y, x], 1), dim=1)
case("flip", [t], t.flip([0, 2]), dims=[0, 2])
case("full", [], torch.full((2, 2), -math.inf, dtype=D), value="-inf")
case("arange", [], torch.arange(1.5, 4, 0.5, dtype=D), start=1.5, step=0.5)
case(
    "literal",
    [],
    torch.tensor([[1, 2.5], [0, math.nan]], dtype=D),
    values=[True, 2.5, False, "nan"],
)
case("cast", [3 * x], (3 * x).to(torch.int64))
case("cast", [x.round()], x.round().to(torch.bool))
case("triangle", [t], t.tril(-1), lower=True, diagonal=-1)
case("triangle", [t], t.triu(1), lower=False, diagonal=1)

for name, f in {
    "add": torch.add, "subtract": torch.sub, "multiply": torch.mul, "divide": torch.div,
    "maximum": torch.maximum, "minimum": torch.minimum, "remainder": torch.remainder,
    "floor_divide": torch.floor_divide, "equal": torch.eq, "not_equal": torch.ne, "less": torch.lt,
    "less_equal": torch.le, "greater": torch.gt, "greater_equal": torch.ge,
}.items():  # fmt: skip
    case(name, [x, z], f(x, z))
case("equal", [x, x], x == x)
case("power", [p, z], p**z)
for name, f in {
    "negate": torch.neg, "abs": torch.abs, "sign": torch.sign, "floor": torch.floor, "exp": torch.exp,
    "reciprocal": torch.reciprocal, "sin": torch.sin, "cos": torch.cos, "tanh": torch.tanh,
    "erf": torch.erf, "sigmoid": torch.sigmoid, "relu": torch.relu, "silu": F.silu, "softplus": F.softplus,
}.items():  # fmt: skip
    case(name, [x], f(x))
for name, f in {"log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt}.items():
    case(name, [p], f(p))
for tanh in (False, True):
    gelu = lambda v, tanh=tanh: F.gelu(v, approximate="tanh" if tanh else "none")
    case("gelu", [x], gelu(x), tanh=tanh)
    case("gelu_grad", [y, x], derivative(gelu, x, y), tanh=tanh)
case("sigmoid_grad", [y, x.sigmoid()], derivative(torch.sigmoid, x, y))
case("tanh_grad", [y, x.tanh()], derivative(torch.tanh, x, y))
case("relu_grad", [y, x], derivative(torch.relu, x, y))
case("silu_grad", [y, x], derivative(F.silu, x, y))
case("softplus_grad", [y, x], derivative(F.softplus, x, y))
b, c = x > 0, y > 0
case("logical_and", [b, c], b & c)
case("logical_or", [b, c], b | c)
case("logical_xor", [b, c], b ^ c)
case("logical_not", [b], ~b)
case("where", [b, x, z], torch.where(b, x, z))
case("clamp", [x], x.clamp(-0.5, 0.5), low=-0.5, high=0.5)
case("clamp", [x], x.clamp(min=0.25), low=0.25)

for keep in (False, True):
    case("sum", [t], t.sum([0, 2], keep), dims=[0, 2], keep=keep)
    case("mean", [t], t.mean([2], keep), dims=[2], keep=keep)
    case("product", [t], t.prod(1, keep), dims=[1], keep=keep)
    case("max", [t], t.amax([0, 1], keep), dims=[0, 1], keep=keep)
    case("min", [t], t.amin([1], keep), dims=[1], keep=keep)
    case("any", [b], b.any(1, keep), dims=[1], keep=keep)
    case("all", [b], b.all(0, keep), dims=[0], keep=keep)
    case(
        "variance",
        [t],
        t.var([1, 2], correction=1, keepdim=keep),
        dims=[1, 2],
        keep=keep,
        correction=1,
    )
    case("logsumexp", [t], t.logsumexp([2], keep), dims=[2], keep=keep)
    for order in (1, 2, 3, math.inf):
        value = torch.linalg.vector_norm(t, order, [0, 2], keep)
        case(
            "norm", [t], value, dims=[0, 2], keep=keep, order="inf" if order == math.inf else order
        )
case("sum", [t], t.sum(), dims=[0, 1, 2], keep=False)
case("cumsum", [t], t.cumsum(1), dim=1)
for dim in (1, 2):
    g = r(2, 3, 4)
    case("softmax", [t], t.softmax(dim), dim=dim)
    case("log_softmax", [t], t.log_softmax(dim), dim=dim)
    case("softmax_grad", [g, t.softmax(dim)], derivative(lambda v: v.softmax(dim), t, g), dim=dim)
    case(
        "log_softmax_grad",
        [g, t.log_softmax(dim)],
        derivative(lambda v: v.log_softmax(dim), t, g),
        dim=dim,
    )

w = r(3, 5)
case("matmul", [x, w], x @ w)
u, v = r(2, 1, 3, 5), r(4, 5, 2)
case("matmul", [u, v], u @ v)

w2, b2 = r(3, 4), r(3, 4)
g = r(2, 3, 4)
eps = 0.015625


def layer(v, w, b):
    return F.layer_norm(v, [3, 4], w, b, eps)


def rms(v, w):
    return F.rms_norm(v, [4], w, eps)


case("layer_norm", [t, w2, b2], layer(t, w2, b2), count=2, eps=eps)
case("layer_norm", [t], layer(t, None, None), count=2, eps=eps, arguments=["x"])
case("layer_norm", [t, b2], layer(t, None, b2), count=2, eps=eps, arguments=["x", "bias"])
_, mean, rstd = torch.native_layer_norm(t, [4], None, None, eps)
case("layer_norm_mean", [t], mean, count=1, eps=eps)
case("layer_norm_rstd", [t], rstd, count=1, eps=eps)
case(
    "layer_norm_grad_input",
    [g, t, w2],
    derivative(lambda v: layer(v, w2, b2), t, g),
    count=2,
    eps=eps,
)
case(
    "layer_norm_grad_input",
    [g, t],
    derivative(lambda v: layer(v, None, None), t, g),
    count=2,
    eps=eps,
)
case(
    "layer_norm_grad_weight", [g, t], derivative(lambda v: layer(t, v, b2), w2, g), count=2, eps=eps
)
w1 = r(4)
case("rms_norm", [t, w1], rms(t, w1), count=1, eps=eps)
case("rms_norm", [t], rms(t, None), count=1, eps=eps)
case("rms_norm_grad_input", [g, t, w1], derivative(lambda v: rms(v, w1), t, g), count=1, eps=eps)
case("rms_norm_grad_input", [g, t], derivative(lambda v: rms(v, None), t, g), count=1, eps=eps)
case("rms_norm_grad_weight", [g, t], derivative(lambda v: rms(t, v), w1, g), count=1, eps=eps)

q, k, vv = r(2, 4, 3, 2), r(2, 2, 5, 2), r(2, 2, 5, 3)
g = r(2, 4, 3, 3)
for mask in (None, r(3, 5), r(2, 1, 3, 5) > -0.5):
    for causal in (False, True):

        def attend(q, k, v, mask=mask, causal=causal):
            scores = q @ k.repeat_interleave(2, 1).transpose(-1, -2) * 0.75
            if mask is not None:
                scores = (
                    scores.masked_fill(~mask, -math.inf)
                    if mask.dtype == torch.bool
                    else scores + mask
                )
            if causal:
                scores = scores.masked_fill(~torch.ones(3, 5, dtype=torch.bool).tril(), -math.inf)
            return scores.softmax(-1) @ v.repeat_interleave(2, 1)

        if mask is not None and mask.dtype == torch.bool:
            mask[..., 0] = True
        rest = [] if mask is None else [mask]
        options = {"scale": 0.75, "causal": causal}
        case("attention", [q, k, vv, *rest], attend(q, k, vv), **options)
        case(
            "attention_grad_query",
            [g, q, k, vv, *rest],
            derivative(lambda v: attend(v, k, vv), q, g),
            **options,
        )
        case(
            "attention_grad_key",
            [g, q, k, vv, *rest],
            derivative(lambda v: attend(q, v, vv), k, g),
            **options,
        )
        case(
            "attention_grad_value",
            [g, q, k, vv, *rest],
            derivative(lambda v: attend(q, k, v), vv, g),
            **options,
        )

table, ids = r(5, 3), torch.tensor([[1, 4], [1, 0]])
g = r(2, 2, 3)
case("embedding", [table, ids], F.embedding(ids, table))
case(
    "embedding_grad",
    [g, ids],
    derivative(lambda v: F.embedding(ids, v), table, g),
    rows=5,
    padding=-1,
)
case(
    "embedding_grad",
    [g, ids],
    derivative(lambda v: F.embedding(ids, v, 4), table, g),
    rows=5,
    padding=4,
)
index = torch.tensor([[2, 0], [1, 1]])
case("gather", [x, index], x.gather(1, index), dim=1)
case("scatter_add", [x, index, y], x.scatter_add(1, index, y), dim=1)
rows = torch.tensor([2, 0, 2])
case("index_rows", [t, rows], t[:, rows], dim=1)
case("index_rows", [t, torch.tensor([-1])], t[:, [-1]], dim=1)
case("add_rows", [t, rows, t], t.index_add(1, rows, t), dim=1)
case("one_hot", [ids], F.one_hot(ids, 6), classes=6)
chosen = torch.tensor([[0.0, 2, 0], [-1, math.nan, 0]], dtype=D)
case("nonzero", [chosen], chosen.nonzero())
case("nonzero", [chosen > 5], (chosen > 5).nonzero())
for largest in (True, False):
    top = t.topk(2, 1, largest)
    case("top_values", [t], top.values, dim=1, k=2, largest=largest)
    case("top_indices", [t], top.indices, dim=1, k=2, largest=largest)
    tied = torch.tensor([[3, 1, 3, 2.0, 1]], dtype=D)
    ordered = torch.sort(tied, dim=1, descending=largest, stable=True)
    case("sort_values", [tied], ordered.values, dim=1, descending=largest)
    case("sort_indices", [tied], ordered.indices, dim=1, descending=largest)
logp = r(4, 3).log_softmax(1)
target = torch.tensor([2, -100, 0, 1])
weight = r(3).abs()
for reduction in ("mean", "sum", "none"):
    options = {"reduction": reduction, "ignore": -100}
    case("nll_loss", [logp, target], F.nll_loss(logp, target, reduction=reduction), **options)
    g = r(4) if reduction == "none" else r(1)[0]
    grad = derivative(lambda v: F.nll_loss(v, target, reduction=reduction), logp, g)
    case("nll_loss_grad", [g, logp, target], grad, **options)
case(
    "nll_loss",
    [logp, target, weight],
    F.nll_loss(logp, target, weight),
    reduction="mean",
    ignore=-100,
)
case("nll_loss_count", [target], torch.tensor(3), ignore=-100)

values = torch.tensor([0.3, -1000.0, 17.0, 0.001])
case("quantize", [values.double()], values.clamp(-448, 448).to(torch.float8_e4m3fn).double())
CASES[-1]["node"][3] = "float8_e4m3fn"
case("quantize", [values.double()], values.to(torch.bfloat16).double())
CASES[-1]["node"][3] = "bfloat16"

wide = r(2, 9, 2)
case("windows", [t], t.unfold(2, 2, 1), dim=2, size=2, step=1, spacing=1)
case("windows", [wide], wide.unfold(1, 5, 3)[..., ::2], dim=1, size=3, step=3, spacing=2)

square, sides = r(2, 4, 4) + 3 * torch.eye(4, dtype=D), r(4, 3)
for lower in (False, True):
    for unit in (False, True):
        solved = torch.linalg.solve_triangular(square, sides, upper=not lower, unitriangular=unit)
        case("triangular_solve", [square, sides], solved, lower=lower, unit=unit)

# Later cases follow here, so that the random numbers of those above stay.
# Not 1 itself, where the slope of asin has no limit.
inside = torch.tensor(
    [[-0.9375, -0.984375, -0.25, 0], [2.0**-40, 0.4375, 0.75, 0.9921875]], dtype=D
)
for name, f in {
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh,
    "cosh": torch.cosh, "asinh": torch.asinh, "round": torch.round,
}.items():  # fmt: skip
    case(name, [inside], f(inside))
case("asin", [2 * inside], torch.asin(2 * inside))
case("acosh", [1 + p], torch.acosh(1 + p))
case("atanh", [inside[:, 1:-1]], torch.atanh(inside[:, 1:-1]))
case("atan2", [x, z], torch.atan2(x, z))
case("round", [4 * inside], torch.round(4 * inside))
for name, f in {
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "asinh": torch.asinh,
}.items():
    case(name, [8 * y], f(8 * y))

kept, twice = r(3, 4), torch.tensor([[0, 2, 0, 1], [0, 0, 2, 1]])
for include in (False, True):
    for reduce, ours in (("sum", "sum"), ("mean", "mean"), ("prod", "product")):
        found = kept.scatter_reduce(0, twice, t[0], reduce, include_self=include)
        scattered = [kept, twice, t[0]]
        case("scatter_reduce", scattered, found, dim=0, reduce=ours, include_self=include)
    for reduce in ("amax", "amin"):
        found = kept.scatter_reduce(0, twice, t[0], reduce, include_self=include)
        facts = {"dim": 0, "largest": reduce == "amax", "include_self": include}
        case("scatter_extreme", [kept, twice, t[0]], found, **facts)
along = torch.tensor([[1, 1], [0, 1]])
found = x.scatter_reduce(1, along, y, "amax")
case("scatter_extreme", [x, along, y], found, dim=1, largest=True, include_self=True)

whole = torch.tensor([[5, -3, 0], [1 << 40, 255, -(1 << 50)]])
mask = torch.tensor([3, 1 << 50, 127])
for name, f in {
    "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor,
}.items():  # fmt: skip
    case(name, [whole, mask], f(whole, mask))

line, turned = r(2, 12), r(2, 12)
for inverse in (False, True):
    found = torch.complex(line, turned)
    found = torch.fft.ifft(found, norm="forward") if inverse else torch.fft.fft(found)
    for imaginary, part in ((False, found.real), (True, found.imag)):
        facts = {"dim": 1, "inverse": inverse, "imaginary": imaginary}
        case("fourier", [line, turned], part, **facts)
odd = r(7, 3)
facts = {"dim": 0, "inverse": False, "imaginary": True, "arguments": ["x"]}
case("fourier", [odd], torch.fft.rfft(odd, dim=0).imag, **facts)

definite = square @ square.mT + torch.eye(4, dtype=D)
case("cholesky", [definite], torch.linalg.cholesky(definite))

case("cumprod", [t], t.cumprod(1), dim=1)

sys.stdout.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES) + "\n]\n")
