"""ttrace_torch: writes what a PyTorch training job computed, for `ttrace` to compare.

import ttrace_torch as tt

tracer = tt.trace(model, optimizer, out="run/")
with tracer.step(0):
    loss = tracer.loss(model(x, y))
    loss.backward()
    optimizer.step()
tracer.close()
"""

from ttrace_torch.api import trace
from ttrace_torch.consistent import consistent
from ttrace_torch.consistent_init import consistent_init
from ttrace_torch.disturb import Disturb
from ttrace_torch.errors import TraceError
from ttrace_torch.layout import Layout
from ttrace_torch.mesh import Mesh
from ttrace_torch.parts import write_manifest
from ttrace_torch.placement import (
    Boxes,
    Flat,
    Only,
    OnMesh,
    Partial,
    Replicate,
    Rows,
    Segments,
    Shard,
    Strided,
    Zigzag,
)
from ttrace_torch.tracer import Tracer
from ttrace_torch.version import __version__

__all__ = [
    "Boxes",
    "Disturb",
    "Flat",
    "Layout",
    "Mesh",
    "OnMesh",
    "Only",
    "Partial",
    "Replicate",
    "Rows",
    "Segments",
    "Shard",
    "Strided",
    "TraceError",
    "Tracer",
    "Zigzag",
    "__version__",
    "consistent",
    "consistent_init",
    "trace",
    "write_manifest",
]
