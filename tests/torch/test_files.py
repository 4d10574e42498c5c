"""The files themselves: schema, paths, HDF5 types, determinism, what is left behind."""

from __future__ import annotations

import json
import subprocess

import h5py
import numpy as np
import pytest
import torch
from complaints import complains
from small_models import WIDTH, TiedGPT, seeded, train_step
from torch import nn
from trace_reading import Trace, dataset_path

import ttrace_torch as tt

FLOATS = ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class Casts(nn.Module):
    """Returns its input in the given types; gradients are of no interest here."""

    def __init__(self, dtypes):
        super().__init__()
        self.dtypes = dtypes

    def forward(self, x):
        return {name: x.to(getattr(torch, name)) for name in self.dtypes}


PER_STEP = ("param", "optimizer_state", "main_grad", "param_after_step")


def trace_casts(path, dtypes, values, **options):
    with tt.trace(Casts(dtypes), out=path, **options) as tracer, tracer.step(0):
        tracer._job.names.model(torch.tensor(values, dtype=torch.float64))
    return Trace(path), {dtype: f"(model)[{dtype}]" for dtype in dtypes}


def run_training(path, **options):
    model = seeded(TiedGPT)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with tt.trace(model, optimizer, out=path, **options) as tracer:
        for step in range(2):
            train_step(model, tracer, optimizer, step=step, microbatches=2)
    return Trace(path)


def test_every_entry_has_its_dataset_and_every_dataset_its_entry(tmp_path):
    trace = run_training(tmp_path / "run.h5", run={"model": "tiny", "command": "pytest"})
    trace.check_complete()
    assert trace.manifest["run"]["model"] == "tiny"
    assert trace.manifest["run"]["framework"] == f"PyTorch {torch.__version__.partition('+')[0]}"
    assert trace.manifest["run"]["collector"] == f"ttrace_torch {tt.__version__}"
    kinds = {entry["kind"] for entry in trace.entries.values()}
    assert kinds == {
        "param",
        "input",
        "output",
        "loss",
        "grad_output",
        "param_grad",
        "main_grad",
        "param_after_step",
        "optimizer_state",
    }
    for entry in trace.entries.values():
        parameter_kind = entry["kind"] in PER_STEP
        assert ("microbatch" not in entry) == parameter_kind
    entry = trace.entry("output", "layers.1.attn", step=1, microbatch=1)
    assert dataset_path(entry) == "/step_000001/mb_0001/output/layers.1.attn"


def test_order_is_the_order_of_execution(tmp_path):
    trace = run_training(tmp_path / "run.h5")
    for step in range(2):
        orders = [e["order"] for e in trace.manifest["tensors"] if e["step"] == step]
        assert orders == list(range(len(orders)))
    place = [
        trace.entry("param", "norm.weight")["order"],
        trace.entry("input", "(model)", microbatch=0)["order"],
        trace.entry("output", "embedding", microbatch=0)["order"],
        trace.entry("output", "(model)", microbatch=0)["order"],
        trace.entry("loss", "loss", microbatch=0)["order"],
        trace.entry("grad_output", "(model)", microbatch=0)["order"],
        trace.entry("grad_output", "embedding", microbatch=0)["order"],
        trace.entry("input", "(model)", microbatch=1)["order"],
        trace.entry("main_grad", "norm.weight")["order"],
        trace.entry("param_after_step", "norm.weight")["order"],
    ]
    assert place == sorted(place)


def test_the_folder_form_holds_the_same(tmp_path):
    single = run_training(tmp_path / "run.h5", run={"id": "one"})
    folder = run_training(tmp_path / "run", run={"id": "one"})
    assert sorted(p.name for p in folder.path.iterdir()) == ["manifest.json", "rank_00000.h5"]
    assert folder.manifest == single.manifest
    folder.check_complete()
    for key in single.entries:
        np.testing.assert_array_equal(folder.value(*key), single.value(*key))


@pytest.mark.parametrize("options", [{}, {"compress": 4}], ids=["contiguous", "deflate"])
def test_two_runs_write_the_same_bytes(tmp_path, options):
    for name in ("one", "two"):
        run_training(tmp_path / name, run={"id": "one"}, **options)
    for file in ("manifest.json", "rank_00000.h5"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_bits_of_every_type_survive(tmp_path):
    values = [0.0, 1.0, -2.5, 0.1, 3.140625, 240.0, -0.015625]
    trace, names = trace_casts(tmp_path / "run.h5", FLOATS, values)
    for dtype, name in names.items():
        expected = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
        entry = trace.entry("output", name, microbatch=0)
        assert entry["dtype"] == dtype
        # h5py converts by the HDF5 type's own fields: this checks bias, exponent and mantissa.
        np.testing.assert_array_equal(trace.local(entry, 0), expected.to(torch.float64))


def test_non_finite_and_tiny_values_survive_bit_by_bit(tmp_path):
    values = [float("nan"), float("inf"), float("-inf"), -0.0, 1e-40, 9e-8, 448.0]
    path = tmp_path / "run.h5"
    trace, names = trace_casts(path, FLOATS, values)
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
    signed = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
    for dtype, name in names.items():
        expected = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
        size = expected.element_size()
        with h5py.File(path, "r") as file:
            dataset = file[dataset_path(trace.entry("output", name, microbatch=0))]
            offset = dataset.id.get_offset()
        bits = np.frombuffer(path.read_bytes(), unsigned[size], len(values), offset)
        np.testing.assert_array_equal(bits, expected.view(signed[size]).numpy().view(bits.dtype))


def test_integers_and_booleans(tmp_path):
    values = [0.0, 1.0, 2.0, 100.0]
    trace, names = trace_casts(tmp_path / "run.h5", [*INTEGERS, "bool"], values)
    for dtype, name in names.items():
        entry = trace.entry("output", name, microbatch=0)
        stored = trace.local(entry, 0)
        assert entry["dtype"] == dtype == stored.dtype.name
        np.testing.assert_array_equal(stored, np.array(values).astype(dtype))


def test_h5dump_shows_true_values_and_types(tmp_path):
    path = tmp_path / "run.h5"
    trace, names = trace_casts(path, ["bfloat16", "float8_e5m2", "bool"], [1.0, -2.5, 0.1, 0.0])

    def dump(*options):
        # Without this option, h5dump takes the brackets of a k-th tensor's name for a subset.
        command = ["h5dump", "--no-compact-subset", *options, str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def values(dtype):
        dataset = dataset_path(trace.entry("output", names[dtype], microbatch=0))
        text = dump("-d", dataset)
        return text[text.index("(0):") :].splitlines()[0].strip()

    assert values("bfloat16") == "(0): 1, -2.5, 0.100098, 0"
    assert values("float8_e5m2") == "(0): 1, -2.5, 0.09375, 0"
    assert values("bool") == "(0): TRUE, TRUE, TRUE, FALSE"
    header = dump("-H", "-A")
    assert "16-bit little-endian floating-point" in header
    assert "H5T_CSET_UTF8" in header  # the manifest


def test_compressed_datasets_hold_the_same(tmp_path):
    values = list(range(3000))
    plain, _ = trace_casts(tmp_path / "plain.h5", ["float32"], [values] * 100)
    packed, _ = trace_casts(tmp_path / "packed.h5", ["float32"], [values] * 100, compress=6)
    where = dataset_path(packed.entry("output", "(model)[float32]", microbatch=0))
    with h5py.File(packed.path, "r") as file:
        assert file[where].compression == "gzip" and file[where].compression_opts == 6
        assert file[where].chunks == (87, 3000)
    with h5py.File(plain.path, "r") as file:
        assert file[where].chunks is None
    np.testing.assert_array_equal(
        packed.value("output", "(model)[float32]", microbatch=0),
        plain.value("output", "(model)[float32]", microbatch=0),
    )
    assert packed.path.stat().st_size < plain.path.stat().st_size / 5


def test_scalars_and_empty_tensors(tmp_path):
    class Empty(nn.Module):
        def forward(self, x):
            return x[:0], x.sum()

    for options in ({}, {"compress": 1}):
        path = tmp_path / "run.h5"
        with tt.trace(Empty(), out=path, **options) as tracer, tracer.step(0):
            tracer._job.names.model(torch.ones(2, 3))
        trace = Trace(path)
        assert trace.entry("output", "(model)", microbatch=0)["shape"] == [0, 3]
        assert trace.value("output", "(model)[1]", microbatch=0) == 6
        with h5py.File(path, "r") as file:
            assert list(file["step_000000/mb_0000/output"]) == ["(model)[1]"]


def test_no_step_traced_is_a_valid_empty_trace(tmp_path, capsys):
    tracer = tt.trace(nn.Linear(2, 2), out=tmp_path / "run")
    tracer.close()
    tracer.close()
    assert Trace(tmp_path / "run").manifest["tensors"] == []
    assert capsys.readouterr().err.count("no step was recorded") == 1
    with complains(tracer, r"step 0 begins after close\(\)"), tracer.step(0):
        pass


def test_files_of_an_earlier_run_go_at_once_and_other_files_stay(tmp_path):
    run_training(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    (tmp_path / "run" / "rank_00001.h5").write_text("of a rank that this run does not have")
    tracer = tt.trace(nn.Linear(2, 2), out=tmp_path / "run")
    left = {p.name for p in (tmp_path / "run").iterdir()}
    assert left == {"notes.txt", "rank_00000.h5.tmp"}
    tracer.close()
    left = {p.name for p in (tmp_path / "run").iterdir()}
    assert left == {"notes.txt", "rank_00000.h5", "manifest.json"}
    left = {p.name for p in (tmp_path / "run.1").iterdir()}
    assert left == {"rank_00000.h5", "rank_00001.h5", "manifest.json"}


def test_an_exception_before_the_first_step_leaves_no_trace(tmp_path):
    with pytest.raises(ZeroDivisionError), tt.trace(nn.Linear(2, 2), out=tmp_path / "run"):
        raise ZeroDivisionError
    assert list((tmp_path / "run").iterdir()) == []


def test_one_tensor_per_line(tmp_path):
    trace = run_training(tmp_path / "run")
    lines = (tmp_path / "run" / "manifest.json").read_text().splitlines()
    entries = [json.loads(line.rstrip(",")) for line in lines if line.startswith('{"name"')]
    assert entries[: len(trace.entries)] == trace.manifest["tensors"]


def test_unsupported_types_are_told_once_and_skipped(tmp_path, capsys):
    class Scales(nn.Module):
        def forward(self, x):
            return x.to(torch.float8_e8m0fnu), x

    model = nn.Sequential(nn.Identity(), Scales())
    tracer = tt.trace(model, out=tmp_path / "run.h5")
    for step in range(2):
        with tracer.step(step):
            model[1](torch.ones(4))
    assert capsys.readouterr().err.count("float8_e8m0fnu") == 1
    tracer.close()
    assert tracer.skipped == ["output 1 float8_e8m0fnu"]
    trace = Trace(tmp_path / "run.h5")
    assert trace.names("output") == ["1[1]"]
    assert trace.manifest["run"]["extra"]["skipped"] == ["output 1 float8_e8m0fnu"]
    (entry,) = trace.manifest["run"]["incomplete"]
    assert entry["tensors"] == "*/*/output/1/*/*" and entry["ranks"] == [0]


def test_sparse_and_negated_tensors_are_stored_as_they_read(tmp_path):
    model = nn.Embedding(4, WIDTH, sparse=True)
    tracer = tt.trace(model, torch.optim.SGD(model.parameters(), lr=1.0), out=tmp_path / "run.h5")
    with tracer.step(0):
        model(torch.tensor([1, 1, 3])).sum().backward()
        tracer.main_grads()
        tracer.scalar("negated", torch.tensor([1 + 2j]).conj().imag)
    tracer.close()
    trace = Trace(tmp_path / "run.h5")
    expected = np.repeat([[0.0], [2.0], [0.0], [1.0]], WIDTH, axis=1)
    np.testing.assert_array_equal(trace.value("param_grad", "weight", microbatch=0), expected)
    np.testing.assert_array_equal(trace.value("main_grad", "weight"), expected)
    np.testing.assert_array_equal(trace.value("scalar", "negated"), [-2.0])
