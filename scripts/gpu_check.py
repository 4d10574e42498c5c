"""The collector on CUDA tensors: see gpu_check.sh. With --cpu, the same checks on the CPU."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import nn

import ttrace_torch as tt
from ttrace_torch.base import dtypes
from ttrace_torch.write.hdf5 import stored_bits
from ttrace_torch.write.host_copies import HostCopies

DEVICE = torch.device("cpu" if "--cpu" in sys.argv else "cuda")
TYPES = [torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2]


def wait() -> None:
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()


def stored(path: Path, dataset: str) -> np.ndarray:
    """The bits of a dataset, as unsigned integers."""
    with h5py.File(path) as file:
        found = file[dataset]
        bits = np.empty(found.shape, dtypes.BY_NAME[found.attrs["ttrace_dtype"].decode()].bits)
        found.id.read(h5py.h5s.ALL, h5py.h5s.ALL, bits, mtype=found.id.get_type())
    return bits


def same(path: Path, dataset: str, tensor: torch.Tensor) -> None:
    expected = stored_bits(tensor.detach().cpu().contiguous())
    assert np.array_equal(stored(path, dataset), expected), f"{dataset} differs from .cpu()"


def model(width: int = 256, layers: int = 4) -> nn.Module:
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Linear(width, width), nn.ReLU(inplace=True)) for _ in range(layers)]
    return nn.Sequential(*blocks).to(DEVICE)


def types(folder: Path) -> None:
    """Every floating-point type, strided views too, changed in place right after."""
    path, kept = folder / "types.h5", {}
    with tt.trace(nn.Identity(), out=path) as tracer, tracer.step(0):
        for dtype in TYPES:
            value = torch.randn(300, 200, device=DEVICE).to(dtype)
            for name, view in (("whole", value), ("turned", value.t()), ("part", value[1::3, ::2])):
                name = f"{name}_{str(dtype)[6:]}"
                kept[name] = view.clone()
                tracer.scalar(name, view)
            value.zero_()
    for name, tensor in kept.items():
        same(path, f"step_000000/scalar/{name}", tensor)


def training(folder: Path) -> None:
    """Parameters, gradients and outputs of two steps, against clones made by hand."""
    path, net, kept = folder / "training.h5", model(), {}
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    with tt.trace(net, optimizer, out=path) as tracer:
        for step in range(2):
            with tracer.step(step), tracer.microbatch(0):
                kept[f"step_{step:06d}/param/0.0.weight"] = net[0][0].weight.detach().clone()
                output = net(torch.randn(64, 256, device=DEVICE))
                kept[f"step_{step:06d}/mb_0000/output/(model)"] = output.detach().clone()
                tracer.loss(output.square().mean()).backward()
                kept[f"step_{step:06d}/main_grad/0.0.weight"] = net[0][0].weight.grad.clone()
                optimizer.step()
                kept[f"step_{step:06d}/param_after_step/0.0.weight"] = (
                    net[0][0].weight.detach().clone()
                )
                optimizer.zero_grad()
    assert tracer.failed is None, tracer.failed
    for dataset, tensor in kept.items():
        same(path, dataset, tensor)


def side_stream(folder: Path) -> None:
    """An output that a side stream makes, while it is busy."""

    class OnStream(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(20):
                x = (x @ x) / x.shape[0]
            return x

    path, net = folder / "stream.h5", OnStream()
    x = torch.randn(1000, 1000, device=DEVICE)
    with tt.trace(net, out=path) as tracer, tracer.step(0):
        if DEVICE.type == "cuda":
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                output = net(x)
                kept = output.clone()
                output.zero_()
            torch.cuda.current_stream().wait_stream(stream)
        else:
            output = net(x)
            kept = output.clone()
            output.zero_()
    same(path, "step_000000/mb_0000/output/(model)", kept)


def memory(folder: Path) -> None:
    """Many copies under a small bound, and copies that the device has no room for."""
    path, kept = folder / "memory.h5", []
    with tt.trace(nn.Identity(), out=path, memory="8MiB") as tracer, tracer.step(0):
        value = torch.zeros(1 << 20, device=DEVICE)
        for number in range(32):
            value += 1.5
            kept.append(value.clone())
            tracer.scalar(f"s{number}", value)
    for number, tensor in enumerate(kept):
        same(path, f"step_000000/scalar/s{number}", tensor)
    copies = HostCopies(on_device=0)
    results, expected = [], []
    for number in range(8):
        value += number
        expected.append(value.clone())
        results.append(copies.start(value))
    value.zero_()
    for result, tensor in zip(results, expected, strict=True):
        assert torch.equal(result(), tensor.cpu()), "a copy on the job's own stream is late"


def noise(folder: Path) -> None:
    """A noise run perturbs on this device bit by bit as on the CPU."""
    x = torch.randn(64, 256)
    found = []
    for number, device in enumerate((DEVICE, torch.device("cpu"))):
        path, net = folder / f"noise{number}.h5", nn.Identity().to(device)
        with tt.trace(net, out=path, perturb=tt.Perturb(5)) as tracer, tracer.step(0):
            net(x.to(device))
        found.append(stored(path, "step_000000/mb_0000/output/(model)"))
    assert np.array_equal(*found), "perturbed otherwise than on the CPU"
    assert not np.array_equal(found[0], stored_bits(x)), "not perturbed at all"


def cost(folder: Path) -> str:
    """Times of a step: without a tracer, between traced steps, traced (the step alone)."""
    net = model(2048, 8)
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.randn(4096, 2048, device=DEVICE) if DEVICE.type == "cuda" else torch.randn(32, 2048)
    times: dict[str, list[float]] = {"plain": [], "between": [], "traced": []}
    path = folder / "cost.h5"
    with tt.trace(net, optimizer, out=path, steps="1000-", memory="8GiB") as tracer:
        for number in range(24):
            way = list(times)[number % 3]
            wait()
            begin = time.perf_counter()
            with tracer.step(number + (1000 if way == "traced" else 0)):
                net(x).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
            wait()
            times[way].append(time.perf_counter() - begin)
        assert tracer.failed is None, tracer.failed
    with h5py.File(path) as file:
        entries = len(json.loads(file["manifest"][()])["tensors"])
    medians = {way: 1e3 * statistics.median(values[1:]) for way, values in times.items()}
    size = path.stat().st_size / 8 / 1e6
    told = ", ".join(f"{way} {value:.2f} ms" for way, value in medians.items())
    return f"{told}; {size:.0f} MB and {entries // 8} tensors a step"


def main() -> int:
    if DEVICE.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: nothing checked")
        return 3
    name = torch.cuda.get_device_name() if DEVICE.type == "cuda" else "CPU"
    print(f"torch {torch.__version__}, {name}")
    failures = 0
    for check in (types, training, side_stream, memory, noise, cost):
        with tempfile.TemporaryDirectory() as folder:
            try:
                said = check(Path(folder)) or "ok"
            except Exception as error:
                failures += 1
                said = f"FAILED: {type(error).__name__}: {error}"
        print(f"{check.__name__:12} {said}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
