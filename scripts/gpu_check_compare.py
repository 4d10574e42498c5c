"""compare_tensors() of CUDA tensors: see gpu_check.sh. With --cpu, the same checks on the CPU."""

from __future__ import annotations

import sys

import torch

import ttrace_torch as tt

DEVICE = torch.device("cpu" if "--cpu" in sys.argv else "cuda")
TYPES = [
    torch.float64,
    torch.float32,
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.int64,
    torch.bool,
]


def remarks(compared: tt.Compared) -> str:
    return str(compared.report["environment"].get("remarks", ""))


def same(reference: torch.Tensor, candidate: torch.Tensor, **settings: object) -> tt.Compared:
    """Compares on the device and on the CPU; both reports must be equal but for the environment."""
    there = tt.compare_tensors(reference, candidate, **settings)
    on_cpu = tt.compare_tensors(reference.cpu().clone(), candidate.cpu().clone())
    expected = "cuda" if reference.is_cuda else "cpu"
    assert there.report["environment"]["backend"] == expected, there.report["environment"]
    for name in set(there.report) - {"environment"}:
        assert there.report[name] == on_cpu.report[name], f"{name} differs from the CPU"
    return there


def types() -> None:
    """Every type and many sizes, with values that begin amid the memory."""
    for dtype in TYPES:
        for size in (1, 33, 4095, 4096, 4097, 100_000):
            reference = torch.randn(size + 1, device=DEVICE).to(dtype)
            candidate = reference.clone()
            candidate[size // 2] = 0
            same(reference[1:], candidate[1:])


def strided() -> None:
    reference = torch.randn(300, 200, device=DEVICE)
    candidate = (2 * reference).t().contiguous().t()
    same(reference, candidate)
    same(reference[1::3, ::2], candidate[1::3, ::2])


def in_place() -> None:
    """A match of large tensors copies nothing to the CPU."""
    reference = torch.randn(1 << 24, device=DEVICE)
    assert remarks(same(reference, reference.clone())) == ""


def streams() -> None:
    """Values that the current stream is still busy with."""
    if DEVICE.type != "cuda":
        return
    expected = torch.randn(2000, 2000, device=DEVICE)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        value = torch.zeros_like(expected)
        for _ in range(20):
            value += expected @ expected
        value.copy_(expected)
        compared = tt.compare_tensors(expected, value)
    assert compared["tensor"]["error"] == 0, "read before the stream was done"


def current_device() -> None:
    """The caller's device stays, also where the tensors are on another one."""
    if DEVICE.type != "cuda":
        return
    last = torch.cuda.device_count() - 1
    value = torch.randn(5000, device=f"cuda:{last}")
    tt.compare_tensors(value, value.clone())
    assert torch.cuda.current_device() == 0
    assert torch.ones(1, device="cuda").device.index == 0


def main() -> int:
    if DEVICE.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: nothing checked")
        return 3
    failures = 0
    for check in (types, strided, in_place, streams, current_device):
        said = "ok"
        try:
            check()
        except Exception as error:
            failures += 1
            said = f"FAILED: {type(error).__name__}: {error}"
        print(f"{check.__name__:14} {said}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
