"""Complex tensors, such as the rotary tables of Llama 4: recorded as their two parts,
cut as their own dimensions are, compared, and audited as values and as buffers."""

import json

import h5py
import numpy as np
import pytest
import torch
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace
from torch import nn

import ttrace_torch as tt

LENGTH, HEADS, WIDTH = 12, 3, 8


def turns():
    angles = torch.outer(torch.arange(float(LENGTH)), 10.0 ** -torch.arange(0, 1, 2 / WIDTH))
    return torch.polar(torch.ones_like(angles), angles)


class Computed(nn.Module):
    def forward(self, x):
        return turns()[: x.shape[1]]


class Buffer(nn.Module):
    """Its buffer goes on to other modules as it is."""

    def __init__(self):
        super().__init__()
        self.register_buffer("turns", turns(), persistent=False)

    def forward(self, x):
        return self.turns[: x.shape[1]]


class Turn(nn.Module):
    def forward(self, x, table):
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * table[None, :, None]).flatten(3)


class Model(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.up = nn.Linear(WIDTH, HEADS * WIDTH)
        self.table = table()
        self.turn = Turn()
        self.down = nn.Linear(HEADS * WIDTH, 5)

    def forward(self, x):
        table = self.table(x)
        turned = self.turn(self.up(x).unflatten(-1, (HEADS, WIDTH)), table)
        return self.down(turned.flatten(2))


def trained(folder, table, name="run"):
    torch.manual_seed(0)
    model = Model(table)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, LENGTH, WIDTH, generator=generator)
    specification = folder / "specification.json" if name == "run" else None
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=folder / f"{name}.h5", specification=specification)
    with tracer.step(0):
        tracer.loss(model(x).square().mean()).backward()
        optimizer.step()
    tracer.close()
    return folder / f"{name}.h5"


def asked(*arguments):
    report = arguments[1].parent / "report.json"
    done = run_ttrace(*arguments, "--json", report)
    return done, json.loads(report.read_text(encoding="utf-8"))


@pytest.mark.parametrize("table", [Computed, Buffer])
def test_table_is_recorded_and_every_tensor_judged(tmp_path, table):
    run = trained(tmp_path, table)
    with h5py.File(run) as file:
        entries = json.loads(file["manifest"][()])["tensors"]
        parts = file["step_000000/mb_0000/output/table"][()]
    entry = next(e for e in entries if (e["kind"], e["name"]) == ("output", "table"))
    assert entry["complex"] is True
    assert (entry["dtype"], entry["shape"]) == ("float32", [LENGTH, WIDTH // 2, 2])
    assert np.array_equal(parts[..., 0] + 1j * parts[..., 1], turns().numpy())
    assert ", complex" in run_ttrace("inspect", run).stdout
    done, report = asked("audit", run, "--specification", tmp_path / "specification.json")
    assert done.returncode == MATCH, done.stdout
    assert report["coverage"]["judged"] == report["coverage"]["tensors"]


class Conjugated(Computed):
    def forward(self, x):
        return super().forward(x).conj()


def test_conjugated_table_is_found_where_it_is(tmp_path):
    reference = trained(tmp_path, Computed)
    run = trained(tmp_path, Conjugated, "faulty")
    done, report = asked("audit", run, "--specification", tmp_path / "specification.json")
    assert done.returncode == DIVERGED
    by_id = {result["id"]: result["key"]["name"] for result in report["results"]}
    assert by_id[report["findings"][0]["members"][0]] == "table"
    done, report = asked("compare", reference, run)
    assert done.returncode == DIVERGED
    assert report["findings"][0]["id"].split("/")[2:4] == ["output", "table"]


class Rank(nn.Module):
    """Returns the rank's half of the sequence, or all of it."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return x[self.part]


@pytest.mark.parametrize("swapped", [False, True])
def test_shards_are_cut_along_the_dimensions_of_the_complex_tensor(tmp_path, swapped):
    cut = tt.Layout("*", output={"cp": tt.Shard(-2)}, input={"cp": tt.Replicate()})
    for rank in (0, 1):
        half = slice(LENGTH // 2) if (rank == 0) != swapped else slice(LENGTH // 2, LENGTH)
        mesh = tt.Mesh({"cp": 2})
        model = nn.Sequential(Rank(half))
        tracer = tt.trace(model, out=tmp_path / "run", mesh=mesh, rank=rank, layouts=[cut])
        with tracer.step(0):
            model(turns())
        tracer.close()
    reference = nn.Sequential(Rank(slice(None)))
    tracer = tt.trace(reference, out=tmp_path / "reference.h5")
    with tracer.step(0):
        reference(turns())
    tracer.close()
    done = run_ttrace("compare", tmp_path / "reference.h5", tmp_path / "run", "--kind", "output")
    assert done.returncode == (DIVERGED if swapped else MATCH), done.stdout + done.stderr
