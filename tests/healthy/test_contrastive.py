"""Contrastive losses over features that data-parallel ranks gather from each other.

The ranks have shares of one batch: the loss depends on the features of all of them. So the trace is
told that the ranks share their micro-batches (`dp_axis=()`), and how these are cut, and the
reference has the whole batch.
"""

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from torch import distributed, nn
from torch.distributed.nn import functional as collectives
from torch.nn.parallel import DistributedDataParallel

import ttrace_torch as tt

RANKS, SAMPLES, WIDTH, MICROBATCHES = 2, 6, 8, 2
SHARE = SAMPLES // RANKS


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(WIDTH, 16), nn.GELU(), nn.Linear(16, WIDTH))

    def forward(self, x):
        return nn.functional.normalize(self.body(x), dim=-1)


class Model(nn.Module):
    """Two towers, and the temperature of their similarities."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.images, self.texts = Tower(), Tower()
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, images, texts):
        return self.images(images), self.texts(texts), self.scale.exp()


def gathered(features):
    """Of all ranks, with gradients for all."""
    return torch.cat(collectives.all_gather(features))


def gathered_in_turn(features):
    """The fault of a mesh whose ranks are in another order."""
    return torch.cat(collectives.all_gather(features)[::-1])


def gathered_without_gradients(features):
    """The fault: what other ranks compute from the features of this one is lost in the backward."""
    parts = [torch.empty_like(features) for _ in range(RANKS)]
    distributed.all_gather(parts, features.contiguous())
    parts[distributed.get_rank()] = features
    return torch.cat(parts)


def gathered_detached(features):
    """The fault: no feature of the other tower gets a gradient."""
    return gathered(features).detach()


def loss_of(images, texts, scale, gather):
    """Each rank has the rows of its own samples, and the columns of all."""
    if gather is None:
        rows = torch.arange(len(images))
        every_image, every_text = images, texts
    else:
        rows = torch.arange(SHARE) + SHARE * distributed.get_rank()
        every_image, every_text = gather(images), gather(texts)
    by_image = nn.functional.cross_entropy(scale * images @ every_text.T, rows)
    by_text = nn.functional.cross_entropy(scale * texts @ every_image.T, rows)
    return (by_image + by_text) / 2, rows


def run_job(rank, folder, out, gather):
    model = Model()
    own = slice(0, SAMPLES)
    loss_layout = {}
    layouts = []
    if gather is not None:
        model = DistributedDataParallel(model)
        own = slice(rank * SHARE, (rank + 1) * SHARE)
        cut, term, loss_layout = (
            {"dp": tt.Shard(0)},
            {"dp": tt.Partial("sum")},
            {"dp": tt.Partial("mean")},
        )
        layouts = [
            tt.Layout("*", input=cut, output=cut, param_grads={"*": term}),
            tt.Layout("(model)", output=[cut, cut, None], grad_output=[cut, cut, term]),
        ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path = folder / "specification.json" if gather is None else None
    tracer = tt.trace(
        model, optimizer, out=folder / out, specification=path, layouts=layouts, dp_axis=()
    )
    with tracer.step(0):
        for number in range(MICROBATCHES):
            generator = torch.Generator().manual_seed(number)
            images, texts = torch.randn(2, SAMPLES, WIDTH, generator=generator)[:, own]
            images, texts, scale = model(images, texts)
            loss, rows = loss_of(images, texts, scale, gather)
            tracer.loss(loss, loss_layout)
            (loss / MICROBATCHES).backward()
        optimizer.step()
    tracer.close()


# What `audit` and `compare` find first. The towers return what the model returns.
FAULTS = {
    gathered_in_turn: ("loss loss", "loss loss"),
    gathered_without_gradients: ("grad_output texts", "grad_output (model)[1]"),
    gathered_detached: ("grad_output texts", "grad_output (model)[1]"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contrastive")
    run_job(0, folder, "reference.h5", None)
    for gather in (gathered, *FAULTS):
        run_ranks(RANKS, run_job, folder, gather.__name__, gather)
    return folder


def test_healthy_run_holds(folder):
    assert compared(folder, "gathered").code == 0
    answer = audited(folder, "gathered")
    assert answer.code == 0 and answer.judged == answer.tensors, answer


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_gathers_are_found(folder, fault):
    for ask, first in zip((audited, compared), FAULTS[fault], strict=True):
        answer = ask(folder, fault.__name__)
        assert answer.code == 1 and answer.found[0] == first, answer
