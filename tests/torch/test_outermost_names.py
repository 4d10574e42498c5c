"""megatron-fsdp before 0.6 calls `forward` past the hooks: the wrapper stands for the model."""

from __future__ import annotations

from torch import nn

from ttrace_torch.base.names import ROOT, ModelNames
from ttrace_torch.frameworks.megatron_fsdp import naming_of


class Past(nn.Module):
    """As in 0.5."""

    def __init__(self):
        super().__init__()
        self.module = nn.Sequential(nn.Linear(2, 2))

    def forward(self, x):
        return self.module.forward(x)


class Through(Past):
    """As since 0.6."""

    def forward(self, x):
        return self.module(x)


def test_a_wrapper_that_passes_over_hooks_stands_for_the_model():
    for model, root in ((past := Past(), past), (through := Through(), through.module)):
        names = ModelNames.of(model, naming_of(model))
        assert names.modules[ROOT] is root
        assert list(names.parameters) == ["0.weight", "0.bias"]
        assert names.modules["0"] is model.module[0] and len(names.modules) == 2
