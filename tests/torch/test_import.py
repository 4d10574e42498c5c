"""What importing the package costs: torch is imported with the first name of the collector."""

from __future__ import annotations

import subprocess
import sys

import pytest

# A machine without torch: importing it fails as it does there.
WITHOUT_TORCH = "import sys; sys.modules['torch'] = None\n"


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "code",
    [
        "import ttrace_torch as tt; print(tt.__version__)",
        "import ttrace_torch.report; print(ttrace_torch.report.load)",
        "from ttrace_torch import report; print(report.load)",
        "import ttrace_torch as tt; print(tt.report.load)",
    ],
)
def test_a_machine_without_torch_can(code: str) -> None:
    done = run(WITHOUT_TORCH + code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "code", ["tt.trace", "tt.compare_tensors", "from ttrace_torch import Mesh"]
)
def test_a_machine_without_torch_is_told_what_is_missing(code: str) -> None:
    done = run(WITHOUT_TORCH + "import ttrace_torch as tt\n" + code)
    assert done.returncode == 1
    assert "torch" in done.stderr.splitlines()[-1]


def test_names_that_nobody_has_are_refused_as_python_does() -> None:
    import ttrace_torch

    with pytest.raises(ImportError, match="cannot import name 'tracing'"):
        exec("from ttrace_torch import tracing")
    with pytest.raises(AttributeError, match="no attribute 'tracing'"):
        _ = ttrace_torch.tracing


def test_all_that_the_collector_offers_is_listed() -> None:
    import ttrace_torch
    from ttrace_torch import collector

    assert set(collector.__all__) <= set(dir(ttrace_torch))
    for name in collector.__all__:
        assert getattr(ttrace_torch, name) is getattr(collector, name)
