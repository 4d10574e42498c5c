"""Faults planted into Megatron itself, each as it happened."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from importlib import import_module
from unittest import mock


@contextmanager
def norms_not_summed():
    """Megatron-LM 1446: gradients of norms are not summed over the tensor-parallel ranks."""
    # The package has a function of the module's name, so the module is asked for by its full name.
    module = import_module("megatron.core.distributed.finalize_model_grads")
    name = "_allreduce_non_tensor_model_parallel_grads"
    with mock.patch.object(module, name, lambda *_: None):
        yield


FAULTS = {"none": nullcontext, "norms_not_summed": norms_not_summed}
