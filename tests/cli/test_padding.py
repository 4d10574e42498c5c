"""A padded vocabulary: what is left out with it, what is not, and what is no padding."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support.reports import read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH

from .conftest import Run
from .rank_files import entry, write_single

TOKENS, PADDED, WIDTH, LAYER, BATCH = 8, 10, 4, 6, 3
NAN, INF = float("nan"), float("inf")

Key = tuple[str, str]  # name, kind
Tensors = dict[Key, np.ndarray]
Edit = Callable[[Tensors], object]

ADAMW = {"step": 0, "type": "AdamW", "lr": 0.1, "weight_decay": 0.1}


def modules(tied: bool = False, functional: bool = False) -> list[dict]:
    """Embedding, one layer, head; the loss."""
    of_head = "embedding.weight" if tied else "head.weight"
    head = {"name": "head", "params": [of_head, "head.bias"], "inputs": ["layer"]}
    flow = [
        {"name": "(model)", "inputs": [], "computed_from": ["layer" if functional else "head"]},
        {"name": "embedding", "op": "embedding", "params": ["embedding.weight"], "inputs": []},
        {"name": "layer", "params": ["layer.weight"], "inputs": ["embedding"]},
    ]
    loss = {"name": "loss", "inputs": ["(model)" if functional else "head"]}
    return [*flow, loss] if functional else [*flow, head, loss]


def step(rows: int, padding: float) -> Tensors:
    """One step with a vocabulary of `rows`; without gradients beyond TOKENS."""
    random = np.random.default_rng(0)

    def padded(tensor: np.ndarray, dim: int, value: float = 0) -> np.ndarray:
        widths = [(0, rows - TOKENS if d == dim % tensor.ndim else 0) for d in range(tensor.ndim)]
        return np.pad(tensor, widths, constant_values=value).astype("f4")

    made: Tensors = {}
    for name, shape in (
        ("embedding.weight", (TOKENS, WIDTH)),
        ("head.weight", (TOKENS, WIDTH)),
        ("head.bias", (TOKENS,)),
    ):
        weight, gradient = random.normal(size=shape), random.normal(size=shape)
        made[name, "param"] = padded(weight, 0, padding)
        made[name, "param_grad"] = made[name, "main_grad"] = padded(gradient, 0)
        made[name, "param_after_step"] = padded(weight - 0.1 * gradient, 0, padding)
        made[f"{name}.exp_avg", "optimizer_state"] = padded(gradient / 2, 0)
    for name, kind in (("layer", "output"), ("layer", "grad_output"), ("layer.mask", "buffer")):
        made[name, kind] = random.normal(size=(BATCH, PADDED)).astype("f4")
    made["embedding", "output"] = random.normal(size=(BATCH, WIDTH)).astype("f4")
    for name, kind in (("head", "output"), ("loss", "input"), ("head", "grad_output")):
        made[name, kind] = padded(random.normal(size=(BATCH, TOKENS)), 1)
    made["loss[1]", "input"] = random.integers(0, TOKENS, size=(PADDED,))
    made["embedding", "input"] = random.integers(0, TOKENS, size=(BATCH,))
    made["loss", "loss"] = random.normal(size=()).astype("f4")
    return {key: array.copy() for key, array in made.items()}


def written(path: Path, tensors: Tensors, flow: list[dict], **members: object) -> Path:
    held = [
        (entry(name, array.shape, kind, dtype="int64" if array.dtype == "i8" else "float32"), array)
        for (name, kind), array in tensors.items()
    ]
    return write_single(path, held, modules=flow, **members)


def beyond(name: str, kind: str, value: float) -> Edit:
    """Writes `value` to the rows of the padding, or the columns of a value's."""

    def edit(tensors: Tensors) -> None:
        tensor = tensors[name, kind]
        tensor[
            (..., slice(TOKENS, None)) if tensor.shape[-1] == PADDED else slice(TOKENS, None)
        ] = value

    return edit


def everywhere(*edits: Edit) -> Edit:
    return lambda tensors: [edit(tensors) for edit in edits]


def decayed(value: float) -> Edit:
    return everywhere(
        *(
            beyond(f"{name}", "param_after_step", value)
            for name in ("embedding.weight", "head.weight", "head.bias")
        )
    )


def renamed(old: Key, new: Key) -> Edit:
    return lambda tensors: tensors.__setitem__(new, tensors.pop(old))


def tie(tensors: Tensors) -> None:
    for key in [key for key in tensors if key[0].startswith("head.weight")]:
        del tensors[key]


def functional(tensors: Tensors) -> None:
    """The model multiplies by the embedding's weight itself."""
    tie(tensors)
    for kind in ("output", "grad_output"):
        renamed(("head", kind), ("(model)", kind))(tensors)
        tensors["layer", kind] = tensors["layer", kind][:, :LAYER]
    for key in [key for key in tensors if key[0].startswith("head.bias")]:
        del tensors[key]


def without(*keys: Key) -> Edit:
    return lambda tensors: [tensors.pop(key) for key in keys]


def compared(
    ttrace: Run,
    folder: Path,
    *,
    both: Edit = lambda tensors: None,
    longer: Edit = lambda tensors: None,
    shorter: Edit = lambda tensors: None,
    padding: float = 0,
    swapped: bool = False,
    flow: list[dict] | None = None,
    **members: object,
) -> tuple[int, str, dict]:
    sides = {}
    for name, rows, edit in (("longer", PADDED, longer), ("shorter", TOKENS, shorter)):
        tensors = step(rows, padding)
        both(tensors)
        edit(tensors)
        sides[name] = written(
            folder / f"{name}.h5", tensors, modules() if flow is None else flow, **members
        )
    order = ("longer", "shorter") if swapped else ("shorter", "longer")
    report = folder / "report.json"
    done = ttrace("compare", *(sides[name] for name in order), "--json", report)
    return done.returncode, done.stdout, read_report(report)


MASKED = everywhere(beyond("head", "output", -INF), beyond("loss", "input", -INF))
GROUP = {"optimizer": [ADAMW | {"params": ["embedding.weight", "head.weight", "head.bias"]}]}
HEALTHY: dict[str, dict] = {
    "zeros": {},
    "logits of padding": {
        "longer": everywhere(beyond("head", "output", 0.5), beyond("loss", "input", 0.5))
    },
    "a mask of -infinity": {"longer": MASKED},
    "one value, as it was": {"padding": 0.02},
    "one value, decayed": {"padding": 0.02, "longer": decayed(0.0198)},
    "moments and a copy of a value": {
        "padding": 0.02,
        "longer": beyond("head.weight.exp_avg", "optimizer_state", 0.002),
    },
    "a tied head": {"both": tie, "flow": modules(tied=True)},
    "a tied head without a module": {"both": functional, "flow": modules(functional=True)},
    "no data flow": {"flow": [], "both": without(("loss", "input"))},
    "outputs of the head not recorded": {
        "both": without(("head", "output"), ("head", "grad_output"))
    },
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("variant", HEALTHY)
def test_padding_is_left_out_and_counted(
    ttrace: Run, tmp_path: Path, variant: str, swapped: bool
) -> None:
    code, text, report = compared(ttrace, tmp_path, swapped=swapped, **HEALTHY[variant])
    assert code == MATCH, text
    cut = [one for one in report["results"] if "rows_left_out" in one]
    assert {one["rows_left_out"] for one in cut} == {PADDED - TOKENS}
    assert f"; 2 rows of {len(cut)} tensors left out" in answer(text)
    assert "nothing unchecked" not in answer(text)
    assert [one["name"] for one in report["coverage"]["remarks"]] == ["trimmed"]


def cut(name: str, kind: str) -> Edit:
    """The other side lost the last two columns of a tensor that has nothing to do with padding."""
    return lambda tensors: tensors.__setitem__((name, kind), tensors[name, kind][..., :TOKENS])


def resized(name: str, kind: str, *shape: int) -> Edit:
    return lambda tensors: tensors.__setitem__((name, kind), np.resize(tensors[name, kind], shape))


LIES: dict[str, tuple[dict, str]] = {
    "columns of an activation": ({"shorter": cut("layer", "output")}, "layer · output"),
    "columns of a gradient": ({"shorter": cut("layer", "grad_output")}, "layer · grad_output"),
    "columns of a buffer": ({"shorter": cut("layer.mask", "buffer")}, "layer.mask · buffer"),
    "labels": ({"shorter": cut("loss[1]", "input")}, "loss[1] · input"),
    "samples of the embedding": (
        {
            "longer": resized("embedding", "output", PADDED, WIDTH),
            "shorter": resized("embedding", "output", TOKENS, WIDTH),
        },
        "embedding · output",
    ),
    "columns of an activation, without a data flow": (
        {"shorter": cut("layer", "output"), "flow": [], "both": without(("loss", "input"))},
        "layer · output",
    ),
    "columns of an activation, with a tied head": (
        {"shorter": cut("layer", "output"), "both": tie, "flow": modules(tied=True)},
        "layer · output",
    ),
    "columns of an activation, with a tied head without a module": (
        {
            "both": functional,
            "longer": resized("layer", "output", BATCH, PADDED),
            "shorter": resized("layer", "output", BATCH, TOKENS),
            "flow": modules(functional=True),
        },
        "layer · output",
    ),
    "columns of an activation, behind a lookup that is not recorded": (
        {
            "shorter": cut("layer", "output"),
            "both": everywhere(tie, without(("embedding", "output"))),
            "flow": [
                {**module, "op": "lookup"} if module["name"] == "embedding" else module
                for module in modules(tied=True)
            ],
        },
        "layer · output",
    ),
    "an update of padding": (
        {"longer": beyond("head.weight", "param_after_step", 7)},
        "padding, but head.weight · param_after_step · step 0 is 7 there",
    ),
    "an update of padding to NaN": (
        {"longer": beyond("embedding.weight", "param_after_step", NAN)},
        "padding, but embedding.weight · param_after_step · step 0 is not finite there",
    ),
    "an update that halves padding": (
        {"padding": 0.5, "longer": decayed(0.25), **GROUP},
        "param_after_step · step 0 is 0.25 there",
    ),
    "an update that turns padding": (
        {"padding": 0.5, "longer": decayed(-0.4)},
        "param_after_step · step 0 is 0.4 there",
    ),
    "a state of padding": (
        {"longer": beyond("head.weight.exp_avg", "optimizer_state", 7)},
        "padding, but head.weight.exp_avg · optimizer_state · step 0 is 7 there",
    ),
    "logits that are NaN": (
        {"longer": beyond("head", "output", NAN)},
        "padding, but head · output · step 0 is not finite there",
    ),
    "logits that are infinite": (
        {"longer": beyond("loss", "input", INF)},
        "padding, but loss · input · step 0 is not finite there",
    ),
    "a gradient of logits": (
        {"longer": beyond("head", "grad_output", 0.25)},
        "padding, but head · grad_output · step 0 is 0.25 there",
    ),
    "a gradient": (
        {"longer": beyond("head.weight", "main_grad", 1)},
        "padding, which carries a gradient",
    ),
    "token numbers beyond": (
        {"longer": lambda tensors: tensors["embedding", "input"].fill(TOKENS)},
        "no padding, as embedding · input · step 0 addresses them",
    ),
    "a parameter of infinities": (
        {"longer": beyond("head.weight", "param", INF)},
        "head.weight · param",
    ),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("variant", LIES)
def test_what_is_no_padding_is_not_left_out(
    ttrace: Run, tmp_path: Path, variant: str, swapped: bool
) -> None:
    arguments, words = LIES[variant]
    code, text, _ = compared(ttrace, tmp_path, swapped=swapped, **arguments)
    assert code == DIVERGED, text
    assert words in text, text


def varied(tensors: Tensors) -> None:
    tensors["head.weight", "param"][TOKENS:, 0] = [1, 2]


# Variant -> edit of the longer side, exit code without and with the starter, a word of its notes.
STARTERS: dict[str, tuple[Edit, int, str]] = {
    "padding": (lambda tensors: None, MATCH, ""),
    "in doubt": (varied, INCONCLUSIVE, "if the rest is padding, this rule of the "),
    "a gradient": (beyond("head.weight", "main_grad", 1), DIVERGED, "which carries a gradient"),
    "in use": (
        everywhere(varied, beyond("head.weight", "main_grad", 1)),
        DIVERGED,
        "no padding, since the rest carries a gradient",
    ),
    "an update": (
        beyond("head.weight", "param_after_step", 7),
        DIVERGED,
        "padding, but head.weight · param_after_step",
    ),
}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("variant", STARTERS)
def test_a_starter_trims_nothing(ttrace: Run, tmp_path: Path, variant: str, swapped: bool) -> None:
    edit, code, words = STARTERS[variant]
    both = without(("loss[1]", "input"))  # a rule for the logits would be one for the labels
    assert compared(ttrace, tmp_path, both=both, longer=edit, swapped=swapped)[0] == code
    sides = [tmp_path / f"{name}.h5" for name in ("shorter", "longer")]
    rules = tmp_path / "rules.json"
    ttrace("compare", *(sides[::-1] if swapped else sides), "--map-starter", rules)
    starter = json.loads(rules.read_text())
    assert not starter["candidate"] and "reference" not in starter
    done = ttrace("compare", *(sides[::-1] if swapped else sides), "--map", rules)
    assert done.returncode == code, done.stdout + done.stderr
    assert not words and not starter["notes"] or any(words in note for note in starter["notes"])
    told = [note[note.index("{") :] for note in starter["notes"] if "{" in note]
    assert bool(told) == (variant == "in doubt")
    if not told:
        return
    starter["reference" if swapped else "candidate"] = [json.loads(rule) for rule in told]
    rules.write_text(json.dumps(starter))
    done = ttrace("compare", *(sides[::-1] if swapped else sides), "--map", rules)
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert "; 2 rows of " in answer(done.stdout), done.stdout
