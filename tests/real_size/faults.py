"""The bugs that are planted. Each changes the model before or after it is made parallel."""

from __future__ import annotations

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor.parallel import RowwiseParallel

from real_size.models import layers


def middle(model):
    """The number of the layer that gets the bug, for bugs of one layer."""
    return len(layers(model)) // 2


def mlp_not_synchronised(model):
    """Call before DDP wraps the model: DDP then leaves out the gradients of one layer's MLP."""
    layer = f"transformer.h.{middle(model)}.mlp."
    names = [name for name, _ in model.named_parameters() if name.startswith(layer)]
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)


def divided_by(model, divisor):
    """Call after `fully_shard`: gradients are summed over the ranks and divided by `divisor`."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            # gloo can divide by another number than that of the ranks only after a plain sum.
            module.set_force_sum_reduction_for_comms(True)
            module.set_gradient_divide_factor(divisor)


class NotReduced(RowwiseParallel):
    """Does not sum the output over the ranks: each rank goes on with its own term of the sum."""

    @staticmethod
    def _prepare_output_fn(output_layouts, use_local_output, mod, outputs, device_mesh):
        own = outputs.to_local()
        right = RowwiseParallel._prepare_output_fn(
            output_layouts, use_local_output, mod, outputs, device_mesh
        )
        # The backward stays that of the right output; only the values are this rank's term.
        return right + (own - right).detach()


def not_normalised(model):
    """The router of one layer does not normalise the weights of the chosen experts."""
    layers(model)[middle(model)].mlp.gate.norm_topk_prob = False
