"""HDF5's own tools show true values: what Python and C++ wrote are real HDF5 types."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
from support.ttrace_cli import TESTDATA

from .conftest import Run
from .numpy_merge import dataset_path, decode, load, read_stored
from .write_trace import Tensor, sample_tensors, write_candidate, write_reference


def dumped(file: Path, dataset: str) -> list[str]:
    """The values that h5dump prints."""
    h5dump = shutil.which("h5dump")
    assert h5dump is not None, "h5dump is not installed; it is in the package hdf5-tools"
    done = subprocess.run(
        [h5dump, "--no-compact-subset", "-m", "%.17g", "-y", "-w", "0", "-d", dataset, file],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    data = re.search(r"\bDATA \{(.*?)\}", done.stdout, re.DOTALL)
    assert data is not None, done.stdout
    return re.findall(r"[^\s,]+", data.group(1))


def check_dataset(path: Path, file: h5py.File, entry: dict) -> None:
    dataset = dataset_path(entry)
    dtype = entry["dtype"]
    values = decode(dtype, read_stored(file, dataset, dtype)).ravel()
    shown = [{"FALSE": "0", "TRUE": "1"}.get(word, word) for word in dumped(path, dataset)]
    by_h5dump = np.array([float(word) for word in shown])
    by_h5py = np.asarray(file[dataset][()], dtype=np.float64).ravel()
    assert len(by_h5dump) == len(by_h5py) == len(values), dataset
    # HDF5 does not know that E4M3's top exponent has numbers: schemas/trace-v2.md.
    told = abs(values) < 256 if dtype == "float8_e4m3fn" else np.ones(len(values), bool)
    for by_tool in (by_h5dump, by_h5py):
        assert np.array_equal(by_tool[told], values[told], equal_nan=True), dataset
        assert not np.isfinite(by_tool[~told]).any(), dataset


def check_file(path: Path, entries: list[dict]) -> set[str]:
    """Checks all datasets that the file has; the dtypes seen."""
    seen = set()
    with h5py.File(path) as file:
        for entry in entries:
            dataset = dataset_path(entry)
            if dataset in file and file[dataset].size:
                check_dataset(path, file, entry)
                repeated = np.asarray(file[dataset].attrs["ttrace_dtype"]).astype(str)
                assert repeated == entry["dtype"]
                seen.add(entry["dtype"])
    return seen


EVERY_DTYPE = {tensor.dtype for tensor in sample_tensors()}


def test_the_script_writes_true_values(tmp_path: Path) -> None:
    write_candidate(tmp_path / "run", sample_tensors())
    manifest, _ = load(tmp_path / "run")
    seen = [check_file(tmp_path / "run" / f"rank_0000{rank}.h5", manifest["tensors"])
            for rank in (0, 1)]  # fmt: skip
    assert seen[0] | seen[1] == EVERY_DTYPE


def test_the_tool_writes_true_values(ttrace: Run, tmp_path: Path) -> None:
    write_candidate(tmp_path / "run", sample_tensors())
    merged = tmp_path / "merged.h5"
    assert ttrace("merge", tmp_path / "run", "-o", merged).returncode == 0
    manifest, _ = load(merged)
    assert check_file(merged, manifest["tensors"]) == EVERY_DTYPE


def test_the_tool_writes_the_bits_it_read(ttrace: Run, tmp_path: Path) -> None:
    tensors = [tensor for tensor in sample_tensors() if tensor.placement != {"partial": "sum"}]
    for tensor in tensors:
        if tensor.dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            tensor.stored ^= np.arange(tensor.stored.size, dtype=tensor.stored.dtype).reshape(
                tensor.stored.shape
            ) * np.array(37, tensor.stored.dtype)
    write_candidate(tmp_path / "run", tensors)
    merged = tmp_path / "merged.h5"
    assert ttrace("merge", tmp_path / "run", "-o", merged).returncode == 0
    with h5py.File(merged) as file:
        for tensor in tensors:
            stored = read_stored(file, tensor.path(), tensor.dtype)
            assert stored.tobytes() == tensor.stored.tobytes(), tensor.path()


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_bit_pattern_is_shown_right(tmp_path: Path, dtype: str) -> None:
    kind = np.uint16 if dtype == "bfloat16" else np.uint8
    stored = np.arange(np.iinfo(kind).max + 1).astype(kind)
    tensor = Tensor("bits", "output", dtype, stored)
    write_reference(tmp_path / "all.h5", [tensor])
    with h5py.File(tmp_path / "all.h5") as file:
        check_dataset(tmp_path / "all.h5", file, tensor.entry(0, whole=True))


def test_the_testdata_shows_true_values() -> None:
    manifest, _ = load(TESTDATA / "ref.h5")
    entries = [
        entry
        for entry in manifest["tensors"]
        if entry["name"] in ("layers.0.norm1", "loss") or entry["dtype"] != "float32"
    ]
    assert len(entries) > 4
    assert "float32" in check_file(TESTDATA / "ref.h5", entries)
    assert "float32" in check_file(TESTDATA / "tp2sp" / "rank_00001.h5", entries)
