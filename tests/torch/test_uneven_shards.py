"""Shards whose extents a rank knows of its own part alone, rows that say by number which ones they
are, values that a layout leaves out, and the labels of a loss that has a term on each rank."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from process_groups import run_ranks
from support.ttrace_cli import MATCH, run_ttrace
from torch import nn
from trace_reading import Trace

import ttrace_torch as tt

RANKS = 2
SEQUENCE, VOCABULARY = 8, 12


def record_uneven(out, rows):
    """Records the rows of each rank, which it knows by their labels, as they are and by `Rows`."""
    mesh, whole = tt.Mesh({"dp": 2, "ep": len(rows)}), torch.arange(200.0).reshape(100, 2)
    for rank in range(mesh.size):
        held = torch.tensor(rows[rank % len(rows)], dtype=torch.long)
        options = {"out": out, "mesh": mesh, "rank": rank, "kinds": ["scalar"], "dp_axis": ()}
        with tt.trace(nn.Linear(1, 1), **options) as tracer, tracer.step(0), tracer.microbatch(3):
            tracer.scalar("packed", whole[held], {"ep": tt.Shard(0)})
            if len(held):
                tracer.index("tokens", held, {"ep": tt.Shard(0)})
                tracer.scalar("routed", whole[held], {"ep": tt.Rows(0, "tokens")})
    return whole


@pytest.mark.parametrize("rows", [[[7, 30, 5], [41]], [[], [9, 2]], [[3, 8], [1, 60]], [[50, 20]]])
def test_the_whole_is_the_sum_of_the_parts(tmp_path, rows):
    whole = record_uneven(tmp_path / "run", rows)
    trace, listed = Trace(tmp_path / "run"), np.concatenate(rows).astype(int)
    packed = trace.value("scalar", "packed", microbatch=3)
    np.testing.assert_array_equal(packed, whole[listed])
    routed = trace.value("scalar", "routed", microbatch=3)
    np.testing.assert_array_equal(routed, whole[np.sort(listed)])
    assert run_ttrace("lint", tmp_path / "run").stdout.startswith("CLEAN")
    # The program reads the same, whatever ranks hold the rows, and in whatever order.
    record_uneven(tmp_path / "other", [sorted(listed)])
    done = run_ttrace("compare", tmp_path / "other", tmp_path / "run", "--only", "routed")
    assert done.returncode == MATCH, done.stdout
    # Without the manifest, it merges the ranks itself.
    (tmp_path / "run" / "manifest.json").unlink()
    assert run_ttrace("lint", tmp_path / "run", "--write").returncode == 0
    np.testing.assert_array_equal(
        Trace(tmp_path / "run").value("scalar", "routed", microbatch=3), routed
    )


def test_one_label_is_one_row(tmp_path):
    record_uneven(tmp_path / "run", [[7, 30], [7]])
    linted = run_ttrace("lint", tmp_path / "run")
    assert linted.returncode != 0 and "the label 7 is listed twice" in linted.stdout


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, 4)
        self.head = nn.Linear(4, VOCABULARY)

    def forward(self, ids):
        return self.head(self.table(ids)), ids.float().mean()


def record_tagger(rank, ranks, out, labels, layouts):
    torch.manual_seed(0)
    model, mesh = Tagger(), tt.Mesh({"cp": ranks})
    ids = torch.arange(2 * SEQUENCE).reshape(2, SEQUENCE) * 5 % VOCABULARY
    wanted = ids.flip(1)
    part = {"cp": tt.Shard(1)}
    layouts = [
        tt.Layout("*", input=part, output=part, param_grads={}),
        tt.Layout("(model)", output=[part, tt.SKIP]),
        *(tt.Layout(n, param_grads={"*": {"cp": tt.Partial("sum")}}) for n in ("table", "head")),
        *layouts,
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=out, mesh=mesh, layouts=layouts, steps="0")
    mine, theirs = ids.chunk(ranks, 1)[rank], wanted.chunk(ranks, 1)[rank]
    with tracer.step(0):
        logits, _ = model(mine)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), theirs.flatten())
        tracer.loss(loss, {"cp": tt.Partial("mean")}, labels=labels(theirs))
        (loss / ranks).backward()
        for parameter in model.parameters():
            if ranks > 1:
                torch.distributed.all_reduce(parameter.grad)
        optimizer.step()
    tracer.close()


LABELS = {
    "as the input": lambda labels: labels,
    "flat, and told": lambda labels: (labels.T.flatten(), {"cp": tt.Shard(0)}),
}


@pytest.mark.parametrize("how", LABELS)
def test_labels_of_a_part_lie_as_the_input(tmp_path, how):
    run_ranks(1, record_tagger, 1, tmp_path / "ref.h5", LABELS[how], [])
    run_ranks(RANKS, record_tagger, RANKS, tmp_path / "run", LABELS[how], [])
    done = run_ttrace("compare", tmp_path / "ref.h5", tmp_path / "run")
    assert done.returncode == MATCH, done.stdout
    # What a layout skips is said to be missing, on both sides.
    assert "nothing unchecked" not in done.stdout and "its layout skips it" in done.stdout
    entry = Trace(tmp_path / "run").entry("scalar", "labels", microbatch=0)
    assert entry["placements"]["cp"]["shard"] in (0, 1)


def test_labels_that_nobody_can_place_are_not_recorded(tmp_path, capfd):
    run_ranks(RANKS, record_tagger, RANKS, tmp_path / "run", lambda labels: labels.flatten(), [])
    said = capfd.readouterr().err
    assert 'say labels=(labels, {"cp": tt.Shard(...)}), or {} in its place' in said
