"""torch.compile(model) against the same model in eager mode: both name what the model is given by
its own signature."""

import pytest
import torch
import torch.distributed as dist
from answers import compared
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from trace_reading import Trace

import ttrace_torch as tt

INPUTS = {"(model)", "(model)[attention_mask]", "(model)[labels]"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(32, 16)
        self.head = nn.Linear(16, 32)

    def forward(self, input_ids, attention_mask=None, *, labels=None):
        hidden = self.embedding(input_ids)
        if attention_mask is not None:
            hidden = hidden * attention_mask.unsqueeze(-1)
        logits = self.head(torch.tanh(hidden))
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())}


@pytest.fixture
def one_rank():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def whole(model):
    return torch.compile(model, backend="aot_eager")


def around_ddp(model):
    return whole(DistributedDataParallel(model))


def eager(model):
    return model


def by_position(model, ids, mask, labels):
    return model(ids, mask, labels=labels)


def by_name(model, ids, mask, labels):
    return model(labels=labels, attention_mask=mask, input_ids=ids)


def run_job(path, make=eager, call=by_name, masked=True):
    """masked: whether the mask of the batch is the right one."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    model = make(Model())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    ids, labels = (torch.randint(32, (4, 8), generator=generator) for _ in range(2))
    mask = (torch.arange(8) < 6).float().expand(4, 8) if masked else torch.ones(4, 8)
    tracer = tt.trace(model, optimizer, out=path)
    with tracer.step(0):
        tracer.loss(call(model, ids, mask, labels)["loss"]).backward()
        optimizer.step()
    tracer.close()


@pytest.mark.parametrize("call", [by_position, by_name], ids=lambda call: call.__name__)
@pytest.mark.parametrize("make", [whole, around_ddp], ids=lambda make: make.__name__)
def test_compiled_model_meets_the_eager_one(tmp_path, one_rank, make, call):
    run_job(tmp_path / "reference.h5")
    run_job(tmp_path / "run.h5", make, call)
    # No hook was compiled.
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
    trace = Trace(tmp_path / "run.h5")
    assert set(trace.names("input")) == INPUTS
    assert trace.modules["(model)"]["class"] == "Model"
    answer = compared(tmp_path)
    assert answer.code == 0 and not answer.found, answer


def test_wrong_mask_of_a_compiled_model_is_found(tmp_path):
    run_job(tmp_path / "reference.h5")
    run_job(tmp_path / "run.h5", whole, masked=False)
    answer = compared(tmp_path)
    assert answer.code == 1 and answer.found[0] == "input (model)[attention_mask]", answer
