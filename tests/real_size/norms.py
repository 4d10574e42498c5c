"""The gradient norm, as a job computes it, and in double precision."""

from __future__ import annotations

import torch
from torch.distributed.tensor import DTensor, Replicate
from torch.nn.utils import clip_grads_with_norm_, get_total_norm


def clip(model, of_shard=False):
    """Clips the gradients to a norm of 1; the norm that they had, by torch's own functions.

    of_shard: a bug, each rank takes the norm of what it holds.
    """
    # torch's functions take parameters of one mesh; norms of several are put together.
    by_mesh = {}
    for parameter in model.parameters():
        mesh = parameter.grad.device_mesh if isinstance(parameter.grad, DTensor) else None
        by_mesh.setdefault(mesh, []).append(parameter)
    norms = []
    for parameters in by_mesh.values():
        gradients = [parameter.grad for parameter in parameters]
        if of_shard:
            gradients = [gradient.to_local() for gradient in gradients]
        norm = get_total_norm(gradients)
        norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
    whole = norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))
    for parameters in by_mesh.values():
        clip_grads_with_norm_(parameters, 1.0, whole)
    return whole


def exact(model):
    """The norm in double: gradients are made whole one by one."""
    total = 0.0
    for parameter in model.parameters():
        gradient = parameter.grad
        if isinstance(gradient, DTensor):
            whole = [Replicate()] * gradient.device_mesh.ndim
            gradient = gradient.redistribute(placements=whole).to_local()
        total += gradient.double().square().sum().item()
    return total**0.5
