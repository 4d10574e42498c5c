"""Faults planted into Megatron itself, each as it happened; calls of `trace` that are refused."""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from importlib import import_module
from unittest import mock

import ttrace_torch as tt


def _left_out(name):
    """A step of the final reduction of gradients that is not made."""
    # The package has a function of the module's name, so the module is asked for by its full name.
    module = import_module("megatron.core.distributed.finalize_model_grads")
    return mock.patch.object(module, name, lambda *_, **__: None)


def norms_not_summed():
    """Megatron-LM 1446: gradients of norms are not summed over the tensor-parallel ranks."""
    return _left_out("_allreduce_non_tensor_model_parallel_grads")


def copies_not_summed():
    """The first stage's embedding and the last one's copy, tied, each keep their own gradient."""
    return _left_out("_allreduce_word_embedding_grads")


@contextmanager
def experts_not_reduced():
    """Gradients of experts are scaled, but not summed over the ranks that hold the same experts."""
    wrapper = import_module("megatron.core.distributed").DistributedDataParallel
    finish = wrapper.finish_grad_sync

    def without_experts(self, *args, **kwargs):
        for group in self.expert_parallel_bucket_groups:
            for bucket in group.buckets:
                bucket.grad_data.mul_(bucket.gradient_scaling_factor)
        with mock.patch.object(self, "expert_parallel_bucket_groups", []):
            return finish(self, *args, **kwargs)

    with mock.patch.object(wrapper, "finish_grad_sync", without_experts):
        yield


def _routed(change):
    """The router's weights and map of the chosen experts are what `change` makes of them."""
    module = import_module("megatron.core.transformer.moe.router")
    routing = module.topk_routing_with_score_function

    def changed(logits, topk, **options):
        return change(routing, logits, topk, options)

    return mock.patch.object(module, "topk_routing_with_score_function", changed)


def experts_permuted():
    """Every token goes to the expert after the one it chose."""

    def change(routing, logits, topk, options):
        return tuple(tensor.roll(1, dims=1) for tensor in routing(logits, topk, **options))

    return _routed(change)


def one_expert_less():
    """Every token goes to one expert less than it should."""
    return _routed(lambda routing, logits, topk, options: routing(logits, topk - 1, **options))


def _traced(change):
    """`trace` is called with what `change` makes of the chunks and the options."""
    trace = tt.trace

    def changed(model, optimizer, **options):
        model, options = change(model, options)
        return trace(model, optimizer, **options)

    return mock.patch.object(tt, "trace", changed)


def mesh_given():
    return _traced(lambda model, options: (model, {**options, "mesh": tt.Mesh({"tp": 1})}))


def unwrapped():
    """The user traces the models inside Megatron's DistributedDataParallel."""
    return _traced(lambda model, options: ([chunk.module for chunk in model], options))


def fused():
    """Megatron takes the setting without its extension only once the model is made."""

    def change(model, options):
        model[0].config.gradient_accumulation_fusion = True
        return model, options

    return _traced(change)


FAULTS = {
    "none": nullcontext,
    "norms_not_summed": norms_not_summed,
    "copies_not_summed": copies_not_summed,
    "experts_not_reduced": experts_not_reduced,
    "experts_permuted": experts_permuted,
    "one_expert_less": one_expert_less,
    "mesh_given": mesh_given,
    "unwrapped": unwrapped,
    "fused": fused,
}
