"""A model that is sure of its labels, with a large vocabulary: the sum of the softmax is a little
more than 1, and binary32 loses much of what is more. That is rounding, and no fault."""

import pytest
import torch
from support.long_cases import chosen
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

TOKENS, WIDTH, LABEL = 64, 16, 3


class Model(nn.Module):
    """The logit of one class is larger by `lead`; classes are the last dimension or the second."""

    def __init__(self, classes, lead, second):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(WIDTH, classes)
        self.second = second
        with torch.no_grad():
            self.up.weight.mul_(0.3)
            self.up.bias.zero_()
            self.up.bias[LABEL] = lead

    def forward(self, x):
        logits = self.up(x)
        return logits.view(4, TOKENS // 4, -1).transpose(1, 2) if self.second else logits


def audited(folder, classes, lead, second=False, by=1.0, specification=True):
    """What `audit` says of a step whose output gradient is multiplied by `by`."""
    model = Model(classes, lead, second)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(TOKENS, WIDTH, generator=generator)
    labels = torch.full((4, TOKENS // 4) if second else (TOKENS,), LABEL)
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / "run.h5",
        specification=folder / "specification.json" if specification else None,
    )
    with tracer.step(0):
        logits = model(x)
        if by != 1:
            logits.register_hook(lambda gradient: gradient * by)
        loss = nn.functional.cross_entropy(logits, labels)
        tracer.loss(loss, labels=labels).backward()
        optimizer.step()
    tracer.close()
    return run_ttrace("audit", folder / "run.h5", "--specification", folder / "specification.json")


@pytest.mark.parametrize(
    ("classes", "lead", "second"),
    chosen(
        "models that are sure",
        [(50000, 12, True), (1000, 14, False), (1000, 14, True)],
        [(50000, 12, False)],
    ),
)
def test_healthy_run_holds_and_a_factor_is_found(tmp_path, classes, lead, second):
    healthy = audited(tmp_path, classes, lead, second)
    assert healthy.returncode == 0, healthy.stdout
    faulty = audited(tmp_path, classes, lead, second, by=1.02, specification=False)
    assert faulty.returncode == 1, faulty.stdout


def test_loss_that_rounding_makes_up_is_not_judged(tmp_path):
    # An eighth of a loss of 9e-5 is lost.
    done = audited(tmp_path, 50000, 20)
    assert done.returncode == 3, done.stdout
    assert "1 loss could not be judged" in done.stdout.splitlines()[0]
