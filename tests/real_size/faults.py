"""The bugs that are planted. Each changes the model before or after it is made parallel."""

from __future__ import annotations

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor.parallel import RowwiseParallel

from real_size.models import layers


def middle(model):
    """The number of the layer in which bugs of one layer sit."""
    return len(layers(model)) // 2


def mlp_not_synchronised(model):
    """Before the wrapper: tells it to leave out one layer's MLP."""
    layer = f"transformer.h.{middle(model)}.mlp."
    names = [name for name, _ in model.named_parameters() if name.startswith(layer)]
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)


def divided_by(model, divisor):
    """After `fully_shard`: what gradients, summed over the ranks, are divided by."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # gloo has no other way to divide by a number of one's own.
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(divisor)


class NotReduced(RowwiseParallel):
    """Each rank goes on with its own term of the sum."""

    @staticmethod
    def _prepare_output_fn(output_layouts, use_local_output, mod, outputs, device_mesh):
        own = outputs.to_local()
        right = RowwiseParallel._prepare_output_fn(
            output_layouts, use_local_output, mod, outputs, device_mesh
        )
        # Backward is right: only the values are those of this rank.
        return right + (own - right).detach()


def not_normalised(model):
    layers(model)[middle(model)].mlp.gate.norm_topk_prob = False
