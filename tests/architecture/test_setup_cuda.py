"""scripts/setup.sh --cuda: finds nvcc and cuBLAS, and installs nothing that is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETUP = ROOT / "scripts" / "setup.sh"


def run_in_setup(command: str, venv: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f'source "{SETUP}"; {command}'],
        env={**os.environ, "TTRACE_CUDA_VENV": str(venv)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def venv_with_packages(folder: Path, nvcc: str = "") -> Path:
    site = folder / "lib" / "python3.11" / "site-packages" / "nvidia" / "cu13"
    (site / "lib").mkdir(parents=True)
    (site / "lib" / "libcublas.so.13").touch()
    (site / "bin").mkdir()
    if nvcc:
        (site / "bin" / "nvcc").write_text(nvcc)
        (site / "bin" / "nvcc").chmod(0o755)
    return folder


def test_what_is_there_is_found_and_not_installed(tmp_path: Path) -> None:
    if shutil.which("nvcc") is None:
        pytest.skip("there is no nvcc on this machine")
    venv = venv_with_packages(tmp_path)
    done = run_in_setup("install_cuda", venv)
    assert done.returncode == 0, done.stderr
    assert "installing" not in done.stdout
    assert f"nvcc:   {shutil.which('nvcc')} (" in done.stdout
    assert "cuBLAS: " in done.stdout
    assert "Build with: cmake -B build\n" in done.stdout
    if f"cuBLAS: {venv}" in done.stdout:
        assert f"TTRACE_CUBLAS={venv}" in done.stdout


def test_nvcc_of_the_python_package_is_used_where_there_is_no_other(tmp_path: Path) -> None:
    nvcc = "#!/bin/sh\necho 'Cuda compilation tools, release 13.9, V13.9.1'\n"
    venv = venv_with_packages(tmp_path, nvcc)
    # As on a machine without a toolkit.
    without = f'find_nvcc() {{ first_file "$(cuda_site)/bin/nvcc"; }}; cuda_venv="{venv}"'
    done = run_in_setup(f"{without}; install_cuda", venv)
    assert done.returncode == 0, done.stderr
    site = venv / "lib" / "python3.11" / "site-packages" / "nvidia" / "cu13"
    assert f"nvcc:   {site}/bin/nvcc (13.9)" in done.stdout
    assert f"cmake -B build -DCUDAToolkit_ROOT={site}" in done.stdout
    assert (site / "lib" / "libcudart.so").is_symlink()


def test_another_flag_is_refused() -> None:
    done = subprocess.run(["bash", SETUP, "--gpu"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "usage: scripts/setup.sh [--cuda]" in done.stderr
