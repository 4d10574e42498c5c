"""topk over scores of which many are equal: those that a mask or a relu makes."""

import pytest
import torch
from answers import audited
from torch import nn

import ttrace_torch as tt

WIDTH, TOKENS, HEADS, CHOSEN = 8, 24, 2, 8
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


class Indexer(nn.Module):
    """Which keys each query sees, as DeepSeek-V3.2 chooses them.

    way: what makes scores equal: a causal mask of -inf, or a relu, most of whose results are 0.
    as_mask: returns which keys are chosen as a mask, and not their indices.
    """

    def __init__(self, way, as_mask):
        super().__init__()
        self.as_mask = as_mask
        self.query = nn.Linear(WIDTH, HEADS * WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.way = way
        self.fault = None

    def forward(self, x):
        query = self.query(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)
        scores = query @ self.key(x).transpose(-1, -2).unsqueeze(1)
        if self.way == "masked":
            later = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
            scores = scores.sum(1).masked_fill(later, float("-inf"))
        else:
            scores = (scores - 1).relu().sum(1)
        chosen = scores.topk(CHOSEN, dim=-1).indices
        if self.fault is not None:
            chosen = self.fault(chosen, scores)
        if not self.as_mask:
            return chosen
        return torch.zeros(scores.shape, dtype=torch.bool).scatter(-1, chosen, True)


class Model(nn.Module):
    def __init__(self, way, as_mask):
        super().__init__()
        torch.manual_seed(0)
        self.indexer = Indexer(way, as_mask)
        self.value = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        seen = self.indexer(x)
        if not self.indexer.as_mask:
            seen = torch.zeros(len(x), TOKENS, TOKENS, dtype=x.dtype).scatter(-1, seen, 1.0)
        return (seen.to(x.dtype) / CHOSEN @ self.value(x)).float().square().mean()


def swapped(chosen, scores):
    """The best and the second of the last query of the first sequence change places."""
    chosen = chosen.clone()
    chosen[0, -1, :2] = chosen[0, -1, :2].flip(0)
    return chosen


def worst(chosen, scores):
    """The last query's best key is not chosen, but one with a score of 0 or the lowest one."""
    chosen = chosen.clone()
    chosen[0, -1, 0] = scores[0, -1].argmin()
    return chosen


def twice(chosen, scores):
    """The first query sees one of several keys with the same score twice."""
    chosen = chosen.clone()
    chosen[0, 0, -1] = chosen[0, 0, -2]
    return chosen


def run_job(folder, way, dtype, fault=None, specification=None, as_mask=False):
    model = Model(way, as_mask).to(dtype)
    model.indexer.fault = fault
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / "run.h5", specification=specification)
    generator = torch.Generator().manual_seed(1)
    with tracer.step(0):
        for number in range(2):
            with tracer.microbatch(number):
                x = torch.randn(2, TOKENS, WIDTH, generator=generator).to(dtype)
                (tracer.loss(model(x)) / 2).backward()
        optimizer.step()
    tracer.close()


def by_lower_index(chosen, scores):
    """Another kernel's choice among equal scores: the elements with the lowest indices."""
    return scores.sort(dim=-1, descending=True, stable=True).indices[..., :CHOSEN]


def by_higher_index(chosen, scores):
    flipped = scores.flip(-1).sort(dim=-1, descending=True, stable=True).indices[..., :CHOSEN]
    return TOKENS - 1 - flipped


@pytest.mark.parametrize("as_mask", [False, True], ids=["indices", "mask"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["masked", "rectified"])
def test_any_choice_among_equal_scores_holds(tmp_path, way, dtype, as_mask):
    path = tmp_path / "specification.json"
    run_job(tmp_path, way, DTYPES[dtype], specification=path, as_mask=as_mask)
    for kernel in None, by_lower_index, by_higher_index:
        if kernel is not None:
            run_job(tmp_path, way, DTYPES[dtype], kernel, as_mask=as_mask)
        answer = audited(tmp_path)
        assert answer.code == 0 and answer.judged == answer.tensors, (kernel, answer)


@pytest.mark.parametrize("fault", [swapped, worst, twice])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("way", ["masked", "rectified"])
def test_index_of_another_score_is_found(tmp_path, way, dtype, fault):
    run_job(tmp_path, way, DTYPES[dtype], specification=tmp_path / "specification.json")
    run_job(tmp_path, way, DTYPES[dtype], fault)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "output indexer", answer


@pytest.mark.parametrize("way", ["masked", "rectified"])
def test_wrong_key_in_a_mask_is_found(tmp_path, way):
    path = tmp_path / "specification.json"
    run_job(tmp_path, way, torch.float32, specification=path, as_mask=True)
    run_job(tmp_path, way, torch.float32, worst, as_mask=True)
    answer = audited(tmp_path)
    assert answer.code == 1 and answer.found[0] == "output indexer", answer
