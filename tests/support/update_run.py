"""Trains a small model with a torch optimizer and writes what it did as a trace.

Only the optimizer is real: gradients are drawn, so every case is the same on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import h5py
import numpy as np
import torch
from conformance.write_trace import hdf5_type

SHAPES = {"fc.weight": (12, 10), "fc.bias": (12,), "norm.weight": (10,)}
DECAYED = ["fc.weight"]
STATES = ("momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq")


@dataclass
class Case:
    """What is trained, and how."""

    optimizer: str = "adamw"
    options: dict = field(default_factory=dict)  # of all groups
    decay: float = 0.1  # of the first group; the second has none
    dtype: torch.dtype = torch.float32
    main_params: bool = False  # an fp32 copy is what the optimizer updates
    clip_norm: float | None = None
    record_clipped: bool = False  # main gradients are recorded after clipping
    steps: int = 3
    lr: float = 1e-2
    gradient_noise: float = 0.0


@dataclass
class Fault:
    """What goes wrong, without the manifest knowing."""

    group: Callable[[list[dict]], object] = lambda groups: None  # before every step
    state: Callable[[dict], object] = lambda state: None  # of every parameter, before every step
    gradient: Callable[[str, torch.Tensor], torch.Tensor] = lambda name, gradient: gradient
    stale: str = ""  # this parameter is not updated


@dataclass
class Recorded:
    """Tensors by (step, kind, name), the manifest's optimizer entries, and the parameters that it
    says the first step has changed by hand."""

    tensors: dict[tuple[int, str, str], torch.Tensor]
    optimizer: list[dict]
    rewritten: list[str] = field(default_factory=list)


def make_optimizer(case: Case, params: dict[str, torch.Tensor]) -> torch.optim.Optimizer:
    groups = [
        {"params": [params[n] for n in SHAPES if n in DECAYED], "weight_decay": case.decay},
        {"params": [params[n] for n in SHAPES if n not in DECAYED], "weight_decay": 0.0},
    ]
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kind[case.optimizer](groups, lr=case.lr, **case.options)


def entries(case: Case, optimizer: torch.optim.Optimizer, step: int) -> list[dict]:
    wanted = ("lr", "momentum", "dampening", "eps", "weight_decay")
    flags = ("nesterov", "maximize", "amsgrad")
    found = []
    for number, group in enumerate(optimizer.param_groups):
        entry = {"step": step, "type": case.optimizer, "updates": step + 1}
        entry |= {k: float(group[k]) for k in wanted if k in group}
        entry |= {k: bool(group[k]) for k in flags if k in group}
        if "betas" in group:
            entry["betas"] = list(group["betas"])
        if case.clip_norm is not None:
            entry["clip_norm"] = case.clip_norm
        entry["params"] = [n for n in SHAPES if (n in DECAYED) == (number == 0)]
        found.append(entry)
    return found


def train(case: Case, fault: Fault | None = None, seed: int = 0) -> Recorded:
    fault = fault or Fault()
    random = torch.Generator().manual_seed(seed)
    params = {n: torch.randn(s, generator=random).to(case.dtype) * 0.1 for n, s in SHAPES.items()}
    params["fc.bias"].zero_()
    main = {n: p.float().clone() for n, p in params.items()} if case.main_params else params
    optimizer = make_optimizer(case, main)
    out = Recorded({}, [])
    for step in range(case.steps):
        out.optimizer += entries(case, optimizer, step)
        gradients = {}
        for name, shape in SHAPES.items():
            gradient = torch.randn(shape, generator=random)
            gradient = gradient * 10 ** (torch.rand(shape, generator=random) * 6 - 5)
            gradient.flatten()[::5] = 0  # what noise alone decides
            noise = torch.randn(shape, generator=torch.Generator().manual_seed(seed + 99))
            gradients[name] = (gradient + case.gradient_noise * noise).to(main[name].dtype)
        for name, param in params.items():
            out.tensors[step, "param", name] = param.clone()
            main[name].grad = gradients[name].clone()
            for state in STATES:
                value = optimizer.state[main[name]].get(state)
                if value is not None:
                    out.tensors[step, "optimizer_state", f"{name}.{state}"] = value.clone()
            if case.main_params:
                out.tensors[step, "optimizer_state", f"{name}.main_param"] = main[name].clone()
        norm = torch.linalg.vector_norm(
            torch.stack([torch.linalg.vector_norm(g.float()) for g in gradients.values()])
        )
        out.tensors[step, "grad_norm", "grad_norm"] = norm
        if case.clip_norm is not None:
            for param in main.values():
                param.grad *= min(1.0, case.clip_norm / (norm.item() + 1e-6))
        for name, param in main.items():
            seen = param.grad if case.record_clipped else gradients[name]
            out.tensors[step, "main_grad", name] = seen.clone()
            param.grad = fault.gradient(name, param.grad)
        saved = [dict(group) for group in optimizer.param_groups]
        fault.group(optimizer.param_groups)
        for state in optimizer.state.values():
            fault.state(state)
        old = {name: param.clone() for name, param in main.items()}
        optimizer.step()
        for group, known in zip(optimizer.param_groups, saved, strict=True):
            group.update({k: v for k, v in known.items() if k != "params"})
        if fault.stale:
            main[fault.stale].copy_(old[fault.stale])
        for name, param in params.items():
            if case.main_params:
                param.copy_(main[name])
            out.tensors[step, "param_after_step", name] = param.clone()
    return out


def stored(tensor: torch.Tensor) -> tuple[str, np.ndarray]:
    if tensor.dtype == torch.bfloat16:
        return "bfloat16", tensor.view(torch.int16).numpy().view("<u2")
    return str(tensor.dtype).removeprefix("torch."), tensor.numpy()


def write(path: Path, recorded: Recorded, *, zero: int = 1) -> Path:
    """One file; or with `zero` ranks a folder, where the optimizer's tensors are flat ranges.

    The updated parameters are written as ranges too, as they are before they are gathered.
    """
    tensors = []
    for (step, kind, name), tensor in recorded.tensors.items():
        dtype, values = stored(tensor)
        entry = {"name": name, "kind": kind, "step": step, "dtype": dtype}
        entry["shape"] = list(values.shape)
        flat = zero > 1 and kind in ("main_grad", "optimizer_state", "param_after_step")
        # Cuts that no row of a tensor knows.
        cuts = [values.size * i // zero + (1 if 0 < i < zero else 0) for i in range(zero + 1)]
        if flat:
            ranges = [list(pair) for pair in zip(cuts, cuts[1:], strict=False)]
            entry["placements"] = {"dp": {"flat": ranges}}
        parts = [values.reshape(-1)[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]
        tensors.append((entry, parts if flat else [values] * zero))
    axes = [{"name": "dp", "size": zero}] if zero > 1 else []
    manifest = json.dumps(
        {
            "schema": "ttrace.manifest/2",
            "meshes": {"": {"axes": axes}},
            "tensors": [entry for entry, _ in tensors],
            "run": {"rewritten": [{"step": 0, "params": recorded.rewritten}]},
            "optimizer": recorded.optimizer,
        }
    )
    if zero > 1:
        path.mkdir(parents=True)
        (path / "manifest.json").write_text(manifest)
    for rank in range(zero):
        with h5py.File(path / f"rank_{rank:05d}.h5" if zero > 1 else path, "w") as file:
            if zero == 1:
                file["manifest"] = manifest
            for entry, parts in tensors:
                group = file.require_group(f"/step_{entry['step']:06d}/{entry['kind']}")
                values = parts[rank].copy(order="C")
                space = h5py.h5s.create_simple(values.shape) if values.shape else None
                space = space or h5py.h5s.create(h5py.h5s.SCALAR)
                kind = hdf5_type(entry["dtype"])
                dataset = h5py.h5d.create(group.id, entry["name"].encode(), kind, space)
                if values.size:
                    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, values, mtype=kind)
    return path
