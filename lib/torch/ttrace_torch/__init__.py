"""ttrace_torch: writes what a PyTorch training job computed, for `ttrace` to compare.

import ttrace_torch as tt

tracer = tt.trace(model, optimizer, out="run/")
with tracer.step(0):
    loss = tracer.loss(model(x, y))
    loss.backward()
    optimizer.step()
tracer.close()
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from ttrace_torch.version import __version__ as __version__

if TYPE_CHECKING:
    from ttrace_torch.collector import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """A module of the package, or what the collector offers. Only the second imports torch: a
    machine that reads reports needs none."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'ttrace_torch' has no attribute {name!r}")
    if importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    found = getattr(importlib.import_module(f"{__name__}.collector"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__getattr__("__all__")})
