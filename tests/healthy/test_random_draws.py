"""Random numbers that a model draws in its forward are data of the run: drop path, jitter, masks,
Gumbel noise."""

from __future__ import annotations

from contextlib import nullcontext
from threading import Thread

import pytest
import torch
from answers import audited, compared
from process_groups import run_ranks
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from trace_reading import Trace

import ttrace_torch as tt


class DropPath(nn.Module):
    keep = 0.8

    def forward(self, x):
        shape = (x.shape[0], *(1,) * (x.dim() - 1))
        return x / self.keep * (self.keep + torch.rand(shape)).floor()


class Jitter(nn.Module):
    def forward(self, x):
        return x * torch.empty_like(x).uniform_(0.99, 1.01)


class Masked(nn.Module):
    def forward(self, x):
        return x * x.new_empty(x.shape).bernoulli_(0.7)


class Shuffled(nn.Module):
    def forward(self, x):
        order = torch.randperm(x.shape[-1])
        kept = torch.bernoulli(torch.full_like(x, 0.8)) + torch.normal(0.0, 0.1, x.shape)
        return x[..., order] * kept


class Gumbel(nn.Module):
    def forward(self, x):
        return nn.functional.gumbel_softmax(x, dim=-1)


class Nothing(nn.Module):
    """Draws one number, and never skips."""

    def forward(self, x):
        return x if torch.rand([]) >= 0.0 else x * 0


KINDS = {kind.__name__: kind for kind in (DropPath, Jitter, Masked, Shuffled, Gumbel)}


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(8, 16)
        self.random = kind()
        self.down = nn.Linear(16, 4)

    def forward(self, x):
        return self.down(self.random(self.up(x))).square().mean()


def train(folder, out, model, seed=1, specification=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / out, specification=specification)
    torch.manual_seed(seed)
    for step in range(2):
        with tracer.step(step):
            for number in range(2):
                x = torch.randn(6, 8, generator=torch.Generator().manual_seed(number))
                with tracer.microbatch(number):
                    (tracer.loss(model(x)) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()


def entries_of(folder, run):
    return Trace(folder / run).manifest["tensors"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_follows_from_a_draw_holds_and_every_tensor_is_judged(tmp_path, kind):
    train(tmp_path, "run.h5", Model(kind), specification=tmp_path / "specification.json")
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer
    # Another run drew other numbers, and recorded them.
    train(tmp_path, "run.h5", Model(kind), seed=2)
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer


def test_a_wrong_use_of_a_draw_is_found(tmp_path):
    train(tmp_path, "run.h5", Model(DropPath), specification=tmp_path / "specification.json")
    faulty = Model(DropPath)
    # Drops a tenth, and scales as if it were a fifth.
    faulty.random.forward = lambda x: x / 0.8 * (0.9 + torch.rand((x.shape[0], 1))).floor()
    train(tmp_path, "run.h5", faulty)
    answer = audited(tmp_path)
    assert answer.code == 1
    assert answer.found[0] == "output random"


def test_one_number_is_no_data(tmp_path):
    train(tmp_path, "reference.h5", Model(Nothing))
    assert not [t for t in entries_of(tmp_path, "reference.h5") if "(random)" in t["name"]]
    train(tmp_path, "run.h5", Model(Nothing), seed=2)
    assert compared(tmp_path).code == 0


def test_draws_of_a_recomputation_are_not_recorded_again(tmp_path):
    class Checkpointed(Model):
        def forward(self, x):
            hidden = checkpoint(self.random, self.up(x), use_reentrant=False)
            return self.down(hidden).square().mean()

    train(tmp_path, "run.h5", Checkpointed(DropPath))
    drawn = [t for t in entries_of(tmp_path, "run.h5") if t["name"].endswith("(random)")]
    assert len(drawn) == 4


def test_what_another_thread_draws_is_none_of_the_model(tmp_path):
    class Loading(DropPath):
        def forward(self, x):
            loader = Thread(target=lambda: torch.randn(64, 8).uniform_())
            loader.start()
            loader.join()
            return super().forward(x)

    train(tmp_path, "run.h5", Model(Loading))
    drawn = [t for t in entries_of(tmp_path, "run.h5") if t["name"].endswith("(random)")]
    assert [t["shape"] for t in drawn] == [[6, 1]] * 4


def test_torch_is_as_before_after_a_step(tmp_path):
    before = torch.rand, torch.Tensor.bernoulli_, vars(torch.Tensor).get("uniform_")
    train(tmp_path, "run.h5", Model(DropPath))
    assert before == (torch.rand, torch.Tensor.bernoulli_, vars(torch.Tensor).get("uniform_"))


def test_a_specification_without_a_run_takes_draws_for_data(tmp_path):
    file = tmp_path / "specification.json"
    tt.specify(Model(DropPath), torch.randn(6, 8), file=file, loss_scale=0.5)
    train(tmp_path, "run.h5", Model(DropPath))
    answer = audited(tmp_path)
    assert (answer.code, answer.judged) == (0, answer.tensors), answer


def train_rank(rank, folder, kind, ranks):
    """A rank of a data-parallel run; the numbers of a micro-batch are drawn by its number."""
    model = Model(kind)
    run = DistributedDataParallel(model) if ranks > 1 else model
    out = folder / ("run" if ranks > 1 else "reference.h5")
    mesh = tt.Mesh({"dp": ranks}) if ranks > 1 else None
    specification = folder / "specification.json" if ranks == 1 else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    given = {"mesh": mesh, "specification": specification}
    with tt.trace(run, optimizer, out=out, **given) as tracer, tracer.step(0):
        own = range(rank * 4 // ranks, (rank + 1) * 4 // ranks)
        for number in own:
            last = number == own[-1] or ranks == 1
            with tracer.microbatch(number), nullcontext() if last else run.no_sync():
                torch.manual_seed(number)
                (tracer.loss(run(torch.randn(6, 8))) / len(own)).backward()
        optimizer.step()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_data_parallel_ranks_record_what_they_draw(tmp_path, kind):
    train_rank(0, tmp_path, kind, 1)
    run_ranks(2, train_rank, tmp_path, kind, 2)
    drawn = [t for t in entries_of(tmp_path, "run") if t["name"].endswith("(random)")]
    assert {t["microbatch"] for t in drawn} == {0, 1, 2, 3}
    answer = compared(tmp_path, "run")
    assert answer.code == 0, answer
    answer = audited(tmp_path, "run")
    assert (answer.code, answer.judged) == (0, answer.tensors), answer


@pytest.mark.parametrize("recorded", [True, False])
def test_noise_that_the_loop_draws_is_data(tmp_path, recorded):
    """A diffusion model: its noise reaches the model as an argument, and the loss."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out, specification = tmp_path / "run.h5", tmp_path / "specification.json"
    given = {"out": out, "specification": specification}
    with tt.trace(model, optimizer, **given) as tracer, tracer.step(0):
        for number in range(2):
            with tracer.microbatch(number):
                images = torch.randn(6, 8, generator=torch.Generator().manual_seed(number))
                noise = torch.randn_like(images)
                target = torch.randn(6, 8)
                found = model(images + noise)
                loss = tracer.loss((found - noise).square().mean() + (found * target).mean())
                if recorded:
                    tracer.scalar("noise", noise)
                    tracer.scalar("target", target)
                (loss / 2).backward()
        optimizer.step()
    answer = audited(tmp_path)
    assert answer.judged == answer.tensors - (0 if recorded else 4), answer
    if recorded:
        assert answer.code == 0, answer
    else:
        assert answer.code == 3, answer
        assert "draws at random; tracer.scalar(name, tensor) records what it drew" in answer.line
