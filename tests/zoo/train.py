"""One run of one architecture, in a process of its own.

RUN: "healthy", which writes the specification as well; "bf16", the same in bfloat16; "tf32", whose
products of float32 are taken in TF32 (of a GPU alone); "autocast", under autocast in bfloat16; or
"faulty", with the fault that is drawn for the architecture. FOLDER gets RUN.h5, the healthy runs'
RUN.spec, and RUN.json, which says what became of it.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch
import transformers
import transformers.modeling_layers  # with what all models import

import ttrace_torch as tt
import ttrace_torch.collector  # noqa: F401
from zoo import faults
from zoo.models import batch, build

# Processes are forked from one that has imported this: a first optimizer step imports more of torch
# than all of it takes otherwise.
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))]).step()
# ttrace_torch looks at all objects that the garbage collector knows of in each traced step.
gc.collect()
gc.freeze()
# What moves a recorded tensor by less, in epsilons of the run's type, is no fault.
ACTIVE = 4


def main(kind: str, task: str, run: str, folder: Path, device: str, steps: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    if run == "tf32":
        torch.set_float32_matmul_precision("high")
    dtype = torch.bfloat16 if run == "bf16" else torch.float32
    try:
        model = build(kind, task, dtype)
    except Exception as error:  # noqa: BLE001
        return {"state": "not built", "why": _said(error)}
    told: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters())}
    try:
        if run == "faulty":
            fault = _prepare(kind, task, model, dtype)
            if fault is None:
                return {**told, "state": "no fault fits"}
            told.update(fault=fault.name, module=fault.module, moves=_moves(kind, task))
            fault.plant()
        _trace(model.to(device), (kind, task), dtype, run, folder, steps)
    except Exception as error:  # noqa: BLE001
        traceback.print_exc()
        return {**told, "state": "failed", "why": _said(error)}
    return {**told, "state": "ran"}


def _trace(
    model: torch.nn.Module,
    architecture: tuple[str, str],
    dtype: torch.dtype,
    run: str,
    folder: Path,
    steps: int,
) -> None:
    torch.manual_seed(1)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / f"{run}.h5",
        specification=None if run == "faulty" else folder / f"{run}.spec",
    )
    device = next(model.parameters()).device
    inputs = {name: value.to(device) for name, value in batch(*architecture, model, dtype).items()}
    for step in range(steps):
        optimizer.zero_grad()
        with tracer.step(step):
            with torch.autocast(device.type, torch.bfloat16, enabled=run == "autocast"):
                loss = tracer.loss(model(**inputs).loss)
            loss.backward()
            optimizer.step()
    tracer.close()


def _prepare(kind: str, task: str, model: torch.nn.Module, dtype: torch.dtype) -> Any:
    """Draws the fault, by what one step has shown."""
    handles = faults.observe(model)
    torch.manual_seed(1)
    buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
    model(**batch(kind, task, model, dtype)).loss.backward()
    for handle in handles:
        handle.remove()
    # A healthy run has trained no step before.
    for name, buffer in model.named_buffers():
        if name in buffers:
            buffer.copy_(buffers[name])
    fault = faults.draw(kind, task, model)
    model.zero_grad()
    return fault


def _moves(kind: str, task: str) -> float | None:
    """By how much the fault moves what moves most, in epsilons of binary32: relative to the norm,
    of outputs and gradients in binary64. None where the model does not run in binary64."""
    try:
        steps = []
        for faulty in (False, True):
            model = build(kind, task, torch.float64)
            fault = _prepare(kind, task, model, torch.float64)
            if faulty:
                fault.plant()
            steps.append(_step(model, kind, task))
    except Exception:  # noqa: BLE001
        return None
    moved = [
        float((healthy - steps[1][name]).norm() / healthy.norm())
        for name, healthy in steps[0].items()
        if name in steps[1] and healthy.shape == steps[1][name].shape and healthy.norm() > 0
    ]
    return max(moved, default=0.0) / torch.finfo(torch.float32).eps


def _step(model: torch.nn.Module, kind: str, task: str) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}

    def noted(name: str, output: Any) -> None:
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            found[name] = output.detach().clone()

    for name, module in model.named_modules():
        module.register_forward_hook(lambda _, __, output, name=name: noted(name, output))
    torch.manual_seed(1)
    model(**batch(kind, task, model, torch.float64)).loss.backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            found[f"grad {name}"] = parameter.grad
    return found


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def child(
    kind: str,
    task: str,
    run: str,
    folder: Path,
    most_bytes: int | None,
    device: str = "cpu",
    steps: int = 1,
) -> None:
    """What a process of a study runs. FOLDER/RUN.log gets what it prints."""
    log = os.open(folder / f"{run}.log", os.O_WRONLY | os.O_CREAT, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    if most_bytes is not None:
        resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes))
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    result = main(kind, task, run, folder, device, steps)
    (folder / f"{run}.json").write_text(json.dumps(result), encoding="utf-8")
