"""The names that `import ttrace_torch` offers. Imported when the first of them is used, because it
needs torch."""

from ttrace_torch.api import consistent_init, specify, trace
from ttrace_torch.base.names import Naming
from ttrace_torch.compare.tensors import Compared, compare_tensors
from ttrace_torch.errors import TraceError
from ttrace_torch.frameworks import Framework, register_framework
from ttrace_torch.init.consistent import consistent
from ttrace_torch.layout.layouts import Layout
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import (
    SKIP,
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
from ttrace_torch.perturb.perturber import Perturb
from ttrace_torch.tracer import Tracer
from ttrace_torch.trainer import trainer_callback
from ttrace_torch.version import __version__
from ttrace_torch.write.merge import write_manifest
from ttrace_torch.write.suggestions import suggest_layouts

__all__ = [
    "Boxes",
    "Compared",
    "Perturb",
    "Flat",
    "Framework",
    "Layout",
    "Mesh",
    "Naming",
    "OnMesh",
    "Only",
    "Partial",
    "Replicate",
    "Rows",
    "SKIP",
    "Segments",
    "Shard",
    "Strided",
    "TraceError",
    "Tracer",
    "Zigzag",
    "__version__",
    "compare_tensors",
    "consistent",
    "consistent_init",
    "register_framework",
    "specify",
    "suggest_layouts",
    "trace",
    "trainer_callback",
    "write_manifest",
]
