"""Hashes everything that a reference depends on into one key, by which the cache stores it."""

from __future__ import annotations

import hashlib
import json
import platform
import site
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from ttrace_torch.matrix.job import Job
from ttrace_torch.version import __version__


def hash_of(value: Any) -> str:
    """A hash of a nested value: tensors count by their bytes, everything else by its repr()."""
    digest = hashlib.sha256()
    for leaf in _leaves(value):
        digest.update(_bytes(leaf) if isinstance(leaf, torch.Tensor) else repr(leaf).encode())
        digest.update(b"\0")
    return digest.hexdigest()


def _leaves(value: Any) -> Iterator[Any]:
    """The values nested in mappings, tuples and lists, each preceded by its key or by the length of
    its sequence, so that values in other places give other lists."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from _leaves(item)
    elif isinstance(value, (tuple, list)):
        yield len(value)
        for item in value:
            yield from _leaves(item)
    else:
        yield value


def _bytes(tensor: torch.Tensor) -> bytes:
    """Dtype, shape and elements."""
    dense = tensor.detach().cpu().contiguous()
    header = f"{dense.dtype} {tuple(dense.shape)} ".encode()
    if not dense.numel():
        return header
    return header + dense.reshape(-1).view(torch.uint8).numpy().tobytes()


def hashes_of(model: nn.Module) -> dict[str, str]:
    """The hash of each parameter and buffer by its name."""
    return {name: hash_of(tensor) for name, tensor in model.state_dict().items()}


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Hashes the operations that run while it is active: their names, the shapes and dtypes of
    their tensors and their other arguments, but no elements."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.digest = hashlib.sha256()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        texts = [str(func), *(_text_of(leaf) for leaf in _leaves((args, kwargs or {})))]
        self.digest.update("\n".join(texts).encode())
        return func(*args, **(kwargs or {}))


def _text_of(leaf: Any) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"{leaf.dtype} {tuple(leaf.shape)} {leaf.device.type}"
    plain = isinstance(leaf, (int, float, bool, str, type(None), torch.dtype, torch.device))
    return repr(leaf) if plain else type(leaf).__name__


def fingerprint(job: Job, model: nn.Module, device: torch.device, noise: int) -> dict[str, Any]:
    """Everything that a reference of the job depends on, by name. Runs forward and backward of
    every micro-batch, which leaves gradients in the model: do not use it afterwards.

    noise: how many noise runs belong to the reference.
    """
    parameters = hashes_of(model)
    optimizer = job.optimizer(model.parameters())
    settings = [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    operations, losses = _Operations(), []
    for number in range(len(job.batches)):
        batch = job.batch(number, device)
        with operations:
            loss, _ = job.forward(model, batch)
            loss.backward()  # type: ignore[no-untyped-call]
        losses.append(loss.detach())
    # The order of sums on a GPU may differ from run to run.
    losses = losses if device.type == "cpu" else []
    return {
        "parameters": parameters,
        "batches": hash_of(job.batches),
        "operations": operations.digest.hexdigest(),
        "losses": hash_of(losses),
        "optimizer": [type(optimizer).__name__, repr(settings), sizes],
        "seeds": [job.seed, noise],
        "steps": job.steps,
        "threads": job.threads,
        "versions": versions(device),
        "sources": sources(),
    }


def hash_of_trace(path: Path) -> str:
    """A hash of the tensors of a trace of one rank: their manifest entries and their bytes.

    The rest of the manifest, and the table of ranges with its checksum of the manifest, are left
    out: they change with the time of the run.
    """
    digest = hashlib.sha256()
    with h5py.File(path) as file:
        manifest = json.loads(bytes(file["manifest"][()]))
        digest.update(json.dumps(manifest["tensors"], sort_keys=True).encode())

        def add(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and name not in ("manifest", "ranges"):
                digest.update(f"{name} {item.dtype} {item.shape} ".encode())
                digest.update(np.ascontiguousarray(item[()]).tobytes())

        file.visititems(add)
    return digest.hexdigest()


def key_of(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def versions(device: torch.device) -> dict[str, str]:
    """The versions of the packages that compute a reference, and the device that it runs on."""
    transformers = sys.modules.get("transformers")
    capability = torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else ""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "transformers": str(getattr(transformers, "__version__", "")),
        "ttrace": __version__,
        "device": f"{device.type} {name} {capability}",
    }


def sources() -> str:
    """A hash of the files of all imported modules that were not installed: the user's own code."""
    installed = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib")]
    installed += [sysconfig.get_path("platlib"), *site.getsitepackages()]
    roots = {Path(folder).resolve() for folder in [*installed, site.getusersitepackages()]}
    digest = hashlib.sha256()
    for name, module in sorted(dict(sys.modules).items()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py"):
            continue
        path = Path(file).resolve()
        if roots.isdisjoint(path.parents) and path.is_file():
            # The path is left out: a checkout in another folder is the same code.
            digest.update(name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
