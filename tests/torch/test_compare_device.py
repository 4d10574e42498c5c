"""compare_tensors() of tensors on CUDA devices. The devices are those of a module that runs the
kernels on the host (tests/measure/cuda/fake; the C++ tests build it), and whose memory the host
cannot touch: a tensor is moved there when its address is asked for."""

from __future__ import annotations

import ctypes
import itertools
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import torch
from support.ttrace_cli import ttrace_binary

import ttrace_torch as tt
from ttrace_torch.compare import library, tensors

FLOATS = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
INTEGERS = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool]
SIZES = [0, 1, 33, 4095, 4096, 4097, 100_000]
NO_DRIVER = "2"  # Status in lib/measure/cuda/api.h

OnDevice = Callable[..., tt.Compared]


def fake_module(name: str = "host") -> Path:
    path = ttrace_binary().parent / "tests" / "measure" / "cuda" / f"fake_cuda_{name}.so"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: build the C++ tests with scripts/test.sh")
    return path


@pytest.fixture(autouse=True)
def found_beside_the_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TTRACE", str(ttrace_binary()))
    monkeypatch.setenv("TTRACE_CUDA_MODULE", str(fake_module()))
    monkeypatch.setenv("TTRACE_FAKE_GUARDED", "1")
    library.load.cache_clear()
    yield
    library.load.cache_clear()


def device_memory() -> Callable[[int, torch.Tensor], int]:
    """Copies a tensor into memory of a device and returns its address."""
    module = ctypes.CDLL(str(fake_module()))
    module.ttrace_cuda_api()  # takes the settings over
    allocate = module.ttrace_fake_device_memory
    allocate.argtypes = (ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint64)
    allocate.restype = ctypes.c_void_p
    return lambda device, tensor: allocate(
        device, tensor.data_ptr(), tensor.numel() * tensor.element_size()
    )


@pytest.fixture
def on_device(monkeypatch: pytest.MonkeyPatch) -> OnDevice:
    """compare_tensors, with all tensors on `devices` in turn; `said` is the device that the request
    names instead. `behaviour`: of the module, once the tensors are there."""

    def compare(
        *sides: Any,
        devices: tuple[int, ...] = (0,),
        said: int | None = None,
        behaviour: Mapping[str, str] = MappingProxyType({}),
        **settings: Any,
    ) -> tt.Compared:
        move, turn = device_memory(), itertools.cycle(devices)

        def place(tensor: torch.Tensor) -> tuple[int, int, int | None]:
            device = next(turn)
            address = move(device, tensor) if tensor.numel() else None
            return 2, device if said is None else said, address

        with monkeypatch.context() as patched:
            patched.setattr(tensors, "_place_of", place)
            for variable, value in behaviour.items():
                patched.setenv(variable, value)
            return tt.compare_tensors(*sides, **settings)

    return compare


def random(count: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype in INTEGERS:
        return torch.randint(0, 2, (count,), generator=generator).to(dtype)
    values = torch.randn(count, generator=generator)
    values[3::97] = float("nan")
    values[5::89] = float("inf")
    return values.to(dtype)


def report(compared: tt.Compared) -> dict[str, Any]:
    return {name: part for name, part in compared.report.items() if name != "environment"}


def remarks(compared: tt.Compared) -> str:
    return str(compared.report["environment"].get("remarks", ""))


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_are_read_in_place_and_give_the_report_of_the_cpu(
    dtype: torch.dtype, on_device: OnDevice
) -> None:
    reference = {f"of_{count}": random(count, dtype, 0) for count in SIZES}
    candidate = {name: value.clone() for name, value in reference.items()}
    candidate["of_4097"] = random(4097, dtype, 1)
    for shift in (1, 3):  # values that begin amid the memory, and strided ones
        reference[f"shifted_{shift}"] = reference["of_4097"][shift:]
        candidate[f"shifted_{shift}"] = candidate["of_4097"][shift:]
    reference["turned"] = reference["of_100000"].view(400, 250).t()
    candidate["turned"] = random(100_000, dtype, 2).view(400, 250).t()
    on_cpu = tt.compare_tensors(reference, candidate)
    there = on_device(reference, candidate)
    assert report(there) == report(on_cpu)
    assert on_cpu.report["environment"]["backend"] == "cpu"
    assert there.report["environment"]["backend"] == "cuda"
    assert there.report["environment"]["bytes_read"] == on_cpu.report["environment"]["bytes_read"]


def test_a_match_copies_nothing(on_device: OnDevice) -> None:
    reference = torch.randn(300, 500)
    compared = on_device(reference, reference.clone())
    assert compared.matches
    assert remarks(compared) == ""


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_are_copied(dtype: torch.dtype, on_device: OnDevice) -> None:
    reference, candidate = random(5000, dtype, 0), random(5000, dtype, 1)
    compared = on_device(reference, candidate)
    assert report(compared) == report(tt.compare_tensors(reference, candidate))
    assert "of values on devices copied to the host" in remarks(compared)


def test_noise_judges_there_too(on_device: OnDevice) -> None:
    reference = torch.randn(64, 64)
    noise = [reference + 1e-3 * torch.randn(64, 64) for _ in range(3)]
    candidate = reference + 1e-3 * torch.randn(64, 64)
    compared = on_device(reference, candidate, noise=noise)
    assert report(compared) == report(tt.compare_tensors(reference, candidate, noise=noise))
    assert compared["tensor"]["rule"] == "noise"
    assert "copied to the host" in remarks(compared)


def test_types_and_devices_may_differ(on_device: OnDevice) -> None:
    reference = torch.randn(3000)
    for candidate in (reference.bfloat16(), reference.double(), 2 * reference):
        on_cpu = report(tt.compare_tensors(reference, candidate))
        assert report(on_device(reference, candidate)) == on_cpu
        apart = on_device(reference, candidate, devices=(0, 1))
        assert report(apart) == on_cpu
        assert "copied to the host" in remarks(apart)


@pytest.mark.parametrize(
    ("behaviour", "remark"),
    [
        ({"TTRACE_FAKE_LAUNCHES_LOST_AFTER": "0"}, "cuda:0 was lost (the host device has fallen"),
        ({"TTRACE_FAKE_LAUNCHES_LOST_AFTER": "2"}, "cuda:0 was lost (the host device has fallen"),
        ({"TTRACE_FAKE_BYTES": "1000"}, "device memory ran out"),
    ],
)
def test_a_device_that_fails_changes_no_result(
    behaviour: dict[str, str], remark: str, on_device: OnDevice
) -> None:
    reference = {name: torch.randn(10_000) for name in "abcde"}
    candidate = {name: value + 1e-8 for name, value in reference.items()}
    on_cpu = report(tt.compare_tensors(reference, candidate))
    compared = on_device(reference, candidate, behaviour=behaviour, threads=1)
    assert report(compared) == on_cpu
    assert remark in remarks(compared)
    assert "copied to the host" in remarks(compared)


def test_values_that_are_lost_are_no_match(on_device: OnDevice) -> None:
    reference = {name: torch.randn(10_000) for name in "abcde"}
    candidate = {name: value.clone() for name, value in reference.items()}
    lost_soon = {"TTRACE_FAKE_LOST_AFTER": "8"}
    compared = on_device(reference, candidate, behaviour=lost_soon, threads=1)
    assert compared.exit_code == 3
    lost = [result for result in compared.report["results"] if result["outcome"] == "unreadable"]
    assert len(lost) >= 3
    assert "values in the memory of cuda:0 cannot be read" in str(lost[0])


def test_memory_of_another_place_is_refused(on_device: OnDevice) -> None:
    reference = torch.randn(8)
    with pytest.raises(tt.TraceError, match="said to be on CUDA device 1, but its data is"):
        on_device(reference, reference.clone(), said=1)
    with pytest.raises(tt.TraceError, match="on CUDA device 7, and this machine has cuda:0 host 0"):
        on_device(reference, reference.clone(), said=7)


def test_memory_of_the_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_place_of", lambda tensor: (2, 0, tensor.data_ptr()))
    with pytest.raises(tt.TraceError, match="device 0, but its data is memory of the host"):
        tt.compare_tensors(torch.randn(8), torch.randn(8))
    monkeypatch.setattr(tensors, "_place_of", lambda tensor: (2, 0, None))
    with pytest.raises(tt.TraceError, match="its data is NULL"):
        tt.compare_tensors(torch.randn(8), torch.randn(8))


def test_without_a_device_or_its_module_it_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "_place_of", lambda tensor: (2, 0, tensor.data_ptr()))
    monkeypatch.setenv("TTRACE_FAKE_PROBLEM", NO_DRIVER)
    with pytest.raises(tt.TraceError, match="machine has no NVIDIA driver; copy it to the CPU"):
        tt.compare_tensors(torch.randn(8), torch.randn(8))
    for module, reason in (
        (fake_module("build"), "is of another build"),
        ("/nowhere.so", "loaded"),
    ):
        monkeypatch.setenv("TTRACE_CUDA_MODULE", str(module))
        with pytest.raises(tt.TraceError, match=f"device 0, which cannot be read: .*{reason}"):
            tt.compare_tensors(torch.randn(8), torch.randn(8))


def test_the_module_is_found_beside_the_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ttrace_binary().parent / "libttrace.so", tmp_path)
    shutil.copy(fake_module("build"), tmp_path / "ttrace_cuda.so")
    monkeypatch.setenv("TTRACE_LIBRARY", str(tmp_path / "libttrace.so"))
    monkeypatch.delenv("TTRACE_CUDA_MODULE")
    monkeypatch.setattr(tensors, "_place_of", lambda tensor: (2, 0, tensor.data_ptr()))
    with pytest.raises(tt.TraceError, match=f"{tmp_path}/ttrace_cuda.so is of another build"):
        tt.compare_tensors(torch.randn(8), torch.randn(8))
    (tmp_path / "ttrace_cuda.so").unlink()
    with pytest.raises(tt.TraceError, match="there is no ttrace_cuda.so beside this library"):
        tt.compare_tensors(torch.randn(8), torch.randn(8))


def test_tensors_on_the_cpu_open_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTRACE_CUDA_MODULE", "/not/looked/at")
    compared = tt.compare_tensors(torch.ones(8), torch.ones(8))
    assert compared.report["environment"]["backend"] == "cpu"
