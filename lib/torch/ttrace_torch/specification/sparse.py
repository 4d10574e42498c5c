"""Sparse gradients, as an embedding with `sparse=True` makes them: rows, and where they belong."""

from __future__ import annotations

import torch

from ttrace_torch.specification.expressions import Expressions
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.storages import Storages, dtype_name, shape_of


def dense_value(tensor: torch.Tensor, make: Expressions, storages: Storages) -> Value | None:
    """The value of a sparse tensor of rows with zeros in all other places, as a trace records it;
    None where its rows or their places are not known. Call it while no operation is recorded."""
    if tensor.layout != torch.sparse_coo or tensor.sparse_dim() != 1:
        return None
    index, rows = storages.read(tensor._indices()), storages.read(tensor._values())
    if index is None or rows is None:
        return None
    dtype, shape = dtype_name(tensor.dtype), shape_of(tensor)
    zeros = make.full(0.0, dtype, shape)
    places = make.reshape(index, rows.shape[:1])
    return make.graph.add("add_rows", (zeros, places, rows), dtype, shape, dim=0)
