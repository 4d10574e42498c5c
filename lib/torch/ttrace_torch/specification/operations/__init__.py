"""From aten operations to primitives, one file for each family of operations."""

from ttrace_torch.specification.operations import (  # noqa: F401
    attention,
    bits,
    complexes,
    constants,
    convolutions,
    elementwise,
    embedding_bags,
    fourier,
    functions,
    losses,
    norms,
    pooling,
    products,
    recurrent_layers,
    reductions,
    resizing,
    scattering,
    selection,
    tables,
    views,
)
