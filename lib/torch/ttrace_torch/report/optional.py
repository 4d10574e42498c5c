"""Packages that only frames and plots need."""

from __future__ import annotations

import importlib
from typing import Any

from ttrace_torch.report.errors import ReportError


def needed(module: str, what: str) -> Any:
    """A module of an optional package. Throws ReportError with the line that installs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ReportError(f"{what} needs {package} ({error}): pip install {package}") from error
