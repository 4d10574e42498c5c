"""torchtitan's llama3 debug model, as a job for `python -m ttrace_torch.matrix`: that of
docs/torchtitan.md, on the CPU, of four layers."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import titan_on_cpu  # noqa: E402

titan_on_cpu.install()

from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: E402

from ttrace_torch.torchtitan_job import arguments, train  # noqa: E402, F401

script, layouts = __file__, ["ddp2", "fsdp4", "fsdp2+tp2", "tp2+sp", "pp2:1f1b", "pp2:interleaved"]


def halved():
    """The same, but FSDP divides gradients by 2, and losses are divided by all tokens already."""
    return {"script": script, "arguments": lambda layout: [layout, "bug"][: 1 + bool(layout)]}


if __name__ == "__main__":
    if "bug" in sys.argv:
        from torch.distributed.fsdp import FSDPModule

        divide = FSDPModule.set_gradient_divide_factor
        FSDPModule.set_gradient_divide_factor = lambda module, factor: divide(module, 2 * factor)
    config = llama3_debugmodel()
    model = config.model_spec.model
    model.layers = model.layers[:4]
    for layer in model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.training.seq_len, config.training.global_batch_size, config.training.steps = 16, 4, 1
    train(config, sys.argv[1])
