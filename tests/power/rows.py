"""The grid of the miniature's runs, as data: a new option of the trainer is a new row here."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from gallery.bugs import BUGS
from gallery.config import Config, parse
from gallery.expected import EXPECTED

from power.runs import Family, Fault, Model, Run

LAUNCHER = Path(__file__).with_name("launch_miniature.py")

PRECISIONS = ("fp32", "bf16", "fp16", "fp8")
_WIDE = "--hidden 64 --heads 8 --ffn-hidden 128 --sequence 32 --vocabulary 64"
_FOUR = ("--microbatches", "4")
_ADAMW = "--optimizer adamw --learning-rate 0.01 --clip 0.5"
# Depth x width, and what is added to it; the precisions. The first is trained in every layout.
MODELS = {
    "4x64": (f"--layers 4 {_WIDE} --seed 11", PRECISIONS),
    "4x64-adamw-2steps": (f"--layers 4 {_WIDE} --seed 14 --steps 2 {_ADAMW}", ("fp32", "bf16")),
    "2x32-experts": ("--layers 2 --experts 4 --seed 3", ("fp32", "bf16", "fp16")),
    "4x64-experts-top2": (
        f"--layers 4 {_WIDE} --experts 4 --top-k 2 --seed 2",
        ("fp32", "bf16"),
    ),
    "2x256": (
        "--layers 2 --hidden 256 --heads 8 --ffn-hidden 512 --vocabulary 512 --sequence 64 "
        "--seed 13",
        ("fp32", "bf16"),
    ),
    "12x32-clipped": ("--layers 12 --clip 1.0 --seed 10", ("fp32", "bf16")),
    "2x32": ("--layers 2", ("fp32", "bf16", "fp8")),
    "2x32-3steps": ("--layers 2 --seed 8 --steps 3", ("bf16", "fp16")),
    "2x32-seed7": ("--layers 2 --seed 7", ("fp32", "fp16")),
    "16x64": (f"--layers 16 {_WIDE} --seed 12", ("fp32", "bf16")),
    "2x128": (
        "--layers 2 --hidden 128 --heads 8 --ffn-hidden 256 --vocabulary 96 --seed 5",
        ("fp16", "fp8"),
    ),
    "8x32": ("--layers 8 --seed 9", ("bf16", "fp8")),
    "2x32-1024tokens": ("--layers 2 --seed 3 --sequence 128 --batch 8", ("fp32", "bf16")),
    "6x64": (f"--layers 6 {_WIDE} --seed 6", ("fp16", "fp8")),
    "2x32-adamw-2steps": (f"--layers 2 --steps 2 {_ADAMW}", ("fp16", "fp8")),
}
# Every axis and their pairs.
LAYOUTS = {
    "tp2": "--tp 2",
    "tp2-sp": "--tp 2 --sp",
    "pp2": "--pp 2",
    "cp2": "--cp 2",
    "dp2": "--dp 2",
    "tp4": "--tp 4",
    "tp4-sp": "--tp 4 --sp",
    "pp4": "--pp 4",
    "cp4": "--cp 4",
    "dp4": "--dp 4",
    "tp2-pp2": "--tp 2 --pp 2",
    "tp2-sp-pp2": "--tp 2 --sp --pp 2",
    "tp2-cp2": "--tp 2 --cp 2",
    "tp2-sp-cp2": "--tp 2 --sp --cp 2",
    "tp2-dp2": "--tp 2 --dp 2",
    "tp2-sp-dp2": "--tp 2 --sp --dp 2",
    "pp2-cp2": "--pp 2 --cp 2",
    "pp2-dp2": "--pp 2 --dp 2",
    "cp2-dp2": "--cp 2 --dp 2",
    "dp2-zero": "--dp 2 --zero",
    "tp2-dp2-zero": "--tp 2 --dp 2 --zero",
    "pp2-dp2-zero": "--pp 2 --dp 2 --zero",
    "recompute": "--recompute",
    "tp2-sp-recompute": "--tp 2 --sp --recompute",
    "pp2-recompute": "--pp 2 --recompute",
    "cp2-recompute": "--cp 2 --recompute",
    "dp2-zero-recompute": "--dp 2 --zero --recompute",
}
# Of models with experts, each in all of these.
EXPERT_LAYOUTS = {
    "dp2-ep2": "--dp 2 --ep 2",
    "tp2-sp-ep2": "--tp 2 --sp --ep 2",
    "cp2-ep2": "--cp 2 --ep 2",
    "pp2-dp2-ep2": "--pp 2 --dp 2 --ep 2",
    "dp2-tp2-sp-ep2": "--dp 2 --tp 2 --sp --ep 2",
    "cp2-dp2-ep4": "--cp 2 --dp 2 --ep 4",
    "dp2-ep2-recompute": "--dp 2 --ep 2 --recompute",
}
# Each other model is trained in one layout of so many, and the next one in the next ones.
SPREAD = 6
# Of what a run uses, what the tables tell apart.
AXES = {"tp", "sp", "pp", "cp", "dp", "zero", "recompute", "uneven stages"}
# Into the runs of these models and layouts faults of all sizes are put.
SAMPLED = {
    "4x64": ("tp2-sp",),
    "2x128": ("tp2-sp",),
    "2x256": ("tp2-sp",),
    "12x32-clipped": ("cp2",),
}
EMPTIED = {("2x32", "fp32"): {"tp2-sp": 1}}
# A loss that is divided by 31 tokens instead of 32, and the gradients of it alone.
TOKENS = "tokens-miscounted"
# What is wrong first where the sizes of the model decide: a parameter of 2048 elements.
FIRST = {"G16": ("embedding.position.weight",)}
FAULTY = ("4x64", "4x64-experts-top2")
MISCOUNTED = ("4x64", "2x32", "12x32-clipped", "2x256", "8x32")
LOSS_GRADIENT = ("grad_output (model)", "grad_output criterion")
ALL_GRADIENTS = ("grad_output *", "param_grad *", "main_grad *")


def family() -> Family:
    models = [_model(name, precision) for name, (_, used) in MODELS.items() for precision in used]
    return Family("miniature", LAUNCHER, tuple(models))


def layouts(model: str, precision: str) -> list[str]:
    """Names of the layouts in which a model is trained."""
    if "experts" in model:
        return list(EXPERT_LAYOUTS)
    if model == next(iter(MODELS)):
        return list(LAYOUTS)
    pairs = [(name, one) for name, (_, used) in MODELS.items() for one in used]
    turn = pairs.index((model, precision))
    chosen = list(LAYOUTS)[turn % SPREAD :: SPREAD]
    if model.startswith("2x"):
        chosen = [layout for layout in chosen if layout != "pp4"]  # of two layers
    wanted = [*SAMPLED.get(model, ()), *EMPTIED.get((model, precision), {}), *chosen]
    return list(dict.fromkeys(wanted))


def _model(name: str, precision: str) -> Model:
    options = [*MODELS[name][0].split(), *_FOUR, "--precision", precision]
    return Model(
        f"{name}-{precision}",
        precision,
        {"options": options},
        tuple(run(layout, options) for layout in layouts(name, precision)),
        tuple(_faults(name, precision, options)),
        SAMPLED.get(name, ()),
        EMPTIED.get((name, precision), {}),
    )


@cache
def _parsed(options: tuple[str, ...]) -> Config:
    """Thousands of questions are about some hundred command lines."""
    return parse(list(options))


def run(layout: str, options: list[str]) -> Run:
    told = [*options, *{**LAYOUTS, **EXPERT_LAYOUTS}[layout].split()]
    config = _parsed(tuple(told))
    axes = (config.features & AXES) | ({"ep"} if config.ep > 1 else set())
    return Run(layout, config.ranks, axes, {"options": told})


def _shows(candidate: Run, needs: frozenset[str]) -> bool:
    return needs <= _parsed(tuple(candidate.case["options"])).features


def _faults(name: str, precision: str, options: list[str]) -> Iterator[Fault]:
    if name in FAULTY:
        common = precision in ("fp32", "bf16")
        runs = [run(layout, options) for layout in layouts(name, precision)]
        for bug, facts in BUGS.items():
            base = next((one for one in runs if _shows(one, facts.needs)), None)
            if (
                base
                and (common or precision in facts.needs)
                and ("experts" in facts.needs) == ("experts" in name)
            ):
                case = {"options": [*base.case["options"], "--bug", bug]}
                kind, names = EXPECTED[bug].kind, FIRST.get(bug, EXPECTED[bug].names)
                wrong = tuple(f"{kind} {pattern}" for pattern in names)
                yield Fault(Run(bug, base.ranks, base.axes, case), wrong, wrong)
    if precision == "bf16" and name in MISCOUNTED:
        for layout in layouts(name, precision)[:2]:
            base = run(layout, options)
            case = {**base.case, "gradients": 32 / 31}
            wrong_run = Run(f"{TOKENS}-{layout}", base.ranks, base.axes, case)
            yield Fault(wrong_run, LOSS_GRADIENT, ALL_GRADIENTS)
