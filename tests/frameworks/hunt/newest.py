"""The environment of the newest releases, in which rows that say `newest` are trained."""

from __future__ import annotations

from pathlib import Path

from releases import environments
from support.ttrace_cli import REPOSITORY

FOLDER = REPOSITORY / ".venv-newest"
PYTHON, TORCH = "3.12", "2.15.0"
# Megatron's packages ask for others that they do not need here.
ALONE = ("megatron-core==0.19.2", "megatron-fsdp==0.6.1", "emerging-optimizers==0.3.0")
PACKAGES = (
    "einops",
    "absl-py",
    "datasets==5.2.0",
    "transformers==5.24.0",
    "accelerate==1.15.0",
    "peft==0.21.2",
    "trl==1.16.0",
    "lightning==2.6.6",
    "torchao==0.18.0",
)


def interpreter() -> Path:
    """Its interpreter; made where it is not there, or holds other releases."""
    stamp = FOLDER / "ttrace-newest.txt"
    wanted = " ".join((PYTHON, TORCH, *ALONE, *PACKAGES))
    python = FOLDER / "bin" / "python"
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        environments.with_torch(FOLDER, PYTHON, TORCH)
        environments.install(python, "--no-deps", *ALONE)
        environments.install(python, *PACKAGES)
        stamp.write_text(wanted, encoding="utf-8")
    return python
