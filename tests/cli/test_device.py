"""ttrace --device: the same report to the byte from a GPU. The devices are those of a module that
runs the kernels on the host (tests/measure/cuda/fake); the C++ tests build it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.ttrace_cli import DIVERGED, MATCH, TESTDATA, ttrace_binary

from .conftest import Run
from .small_traces import check_refused

PAIR = (TESTDATA / "ref.h5", TESTDATA / "tp2sp")
NOISE = ("--noise", TESTDATA / "noise1.h5")
NO_DRIVER, OLD_DRIVER, NO_DEVICE = "2", "3", "4"  # Status in lib/measure/cuda/api.h


def fake(name: str, **behaviour: str) -> dict[str, str]:
    path = ttrace_binary().parent / "tests" / "measure" / "cuda" / f"fake_cuda_{name}.so"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there: build the C++ tests with scripts/test.sh")
    return {"TTRACE_CUDA_MODULE": str(path), **behaviour}


def report_of(
    ttrace: Run, tmp_path: Path, environment: dict[str, str], *flags: str | Path
) -> tuple[str, dict[str, object], str]:
    """The report without its environment, the environment, and the text."""
    path = tmp_path / "report.json"
    done = ttrace("compare", *PAIR, *flags, "--json", path, timeout=300, environment=environment)
    assert done.returncode in (MATCH, DIVERGED), done.stderr
    text = path.read_text()
    return text.split('"environment"')[0], json.loads(text)["environment"], done.stdout


@pytest.mark.parametrize("flags", [(), NOISE], ids=["fallback", "noise"])
def test_a_device_gives_the_report_of_the_cpu(ttrace: Run, tmp_path: Path, flags: tuple) -> None:
    expected, of_cpu, _ = report_of(ttrace, tmp_path, {}, *flags)
    assert of_cpu["backend"] == "cpu"
    assert "remarks" not in of_cpu
    for device, named in (("cuda", "cuda:0"), ("cuda:1,0", "cuda:1"), ("cuda:1", "cuda:1")):
        report, environment, text = report_of(
            ttrace, tmp_path, fake("host"), *flags, "--device", device
        )
        assert report == expected
        assert environment["backend"] == "cuda"
        assert f"({named})" in str(environment["instruction_set"])
        assert "remarks" not in environment
        assert "cuda sm_90 host" in text


def test_a_device_lost_in_the_middle_changes_no_result(ttrace: Run, tmp_path: Path) -> None:
    expected, _, _ = report_of(ttrace, tmp_path, {})
    for behaviour, remark in (
        ({"TTRACE_FAKE_LOST_AFTER": "50"}, "cuda:0 was lost (the host device has fallen off"),
        ({"TTRACE_FAKE_BYTES": "1000"}, "device memory ran out"),
    ):
        report, environment, _ = report_of(
            ttrace, tmp_path, fake("host", **behaviour), "--device", "cuda"
        )
        assert report == expected
        assert remark in str(environment["remarks"])


def test_auto_and_cpu_use_the_cpu(ttrace: Run, tmp_path: Path) -> None:
    for device in ("auto", "cpu"):
        _, environment, _ = report_of(
            ttrace, tmp_path, {"TTRACE_CUDA_MODULE": "/not/looked/at"}, "--device", device
        )
        assert environment["backend"] == "cpu"
        assert ("auto took the CPU" in str(environment.get("remarks"))) == (device == "auto")


def test_localize_and_audit_take_the_device(ttrace: Run) -> None:
    for command in (("localize", *PAIR), ("audit", PAIR[0])):
        on_cpu = ttrace(*command, timeout=300)
        on_device = ttrace(*command, "--device", "cuda", timeout=300, environment=fake("host"))
        assert on_device.returncode == on_cpu.returncode, on_device.stderr
        footer = re.compile(r"cuda sm_90[^·]*·|cpu [^·]*·|[0-9.]+ s$", re.MULTILINE)
        assert footer.sub("", on_device.stdout) == footer.sub("", on_cpu.stdout)


def test_what_is_no_device_is_refused(ttrace: Run) -> None:
    for device in ("gpu", "cuda:", "cuda:a", "cuda:0,", "cuda:0,0", "cuda:-1", "cuda0", ""):
        check_refused(ttrace("compare", *PAIR, "--device", device), "--device", "write auto, cpu")
    for size in ("much", "1M"):
        check_refused(ttrace("compare", *PAIR, "--device-memory", size), "--device-memory", size)


def test_a_device_that_is_not_there_is_refused_with_those_that_are(ttrace: Run) -> None:
    done = ttrace(
        "compare",
        *PAIR,
        "--device",
        "cuda:7",
        environment=fake("host", TTRACE_FAKE_DEVICES="4"),
    )
    check_refused(done, "there is no cuda:7; this machine has cuda:0 host 0", "cuda:3 host 3")


def test_a_machine_without_a_usable_device_says_why(ttrace: Run) -> None:
    for problem, reason in (
        (NO_DRIVER, "no CUDA device: this machine has no NVIDIA driver"),
        (OLD_DRIVER, "the NVIDIA driver is too old for this build"),
        (NO_DEVICE, "no CUDA device: the driver sees none"),
    ):
        done = ttrace(
            "compare",
            *PAIR,
            "--device",
            "cuda",
            environment=fake("host", TTRACE_FAKE_PROBLEM=problem),
        )
        check_refused(done, "--device cuda: ", reason)


def test_a_module_of_another_build_is_refused(ttrace: Run) -> None:
    for name, reason in (
        ("interface", "has version 2 of the interface"),
        ("build", "is of another build"),
        ("symbol", "it has no function ttrace_cuda_build_id"),
    ):
        done = ttrace("compare", *PAIR, "--device", "cuda", environment=fake(name))
        check_refused(done, "--device cuda: ", reason)
    missing = {"TTRACE_CUDA_MODULE": "/nowhere/ttrace_cuda.so"}
    done = ttrace("compare", *PAIR, "--device", "cuda", environment=missing)
    check_refused(done, "/nowhere/ttrace_cuda.so cannot be loaded")
