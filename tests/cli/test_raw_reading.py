"""Datasets that lie in one piece are read past the HDF5 library: the same numbers anywhere."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from conformance.write_trace import (
    Tensor,
    manifest,
    sample_tensors,
    write_candidate,
    write_dataset,
)
from support.reports import findings, read_report
from support.ttrace_cli import DIVERGED, MATCH

from .conftest import Run
from .small_traces import check_answer


def write_reference(path: Path, tensors: list[Tensor], user_block: int) -> None:
    with h5py.File(path, "w", userblock_size=user_block) as file:
        for tensor in tensors:
            write_dataset(file, tensor, tensor.stored)
        file["manifest"] = json.dumps(manifest(tensors, ranks=1))
    with path.open("r+b") as raw:
        raw.write(b"\xff" * user_block)


@pytest.mark.parametrize("user_block", [0, 512, 8192])
def test_the_hdf5_part_may_begin_anywhere(ttrace: Run, tmp_path: Path, user_block: int) -> None:
    tensors = sample_tensors()
    write_reference(tmp_path / "ref.h5", tensors, user_block)
    write_candidate(tmp_path / "run", tensors)
    check_answer(ttrace("compare", tmp_path / "ref.h5", tmp_path / "run"), MATCH, "MATCH")


@pytest.mark.parametrize("placement", [{"shard": 0}, {"shard": 1}])
def test_one_wrong_element_is_found_at_its_place(
    ttrace: Run, tmp_path: Path, placement: dict
) -> None:
    values = np.random.default_rng(3).standard_normal((300, 700)).astype("<f4")
    tensors = [Tensor("fc", "output", "float32", values, placement)]
    write_reference(tmp_path / "ref.h5", tensors, 0)
    values[211, 650] += 1
    write_candidate(tmp_path / "run", tensors)
    report = tmp_path / "report.json"
    done = ttrace("compare", tmp_path / "ref.h5", tmp_path / "run", "--json", report)
    assert done.returncode == DIVERGED
    [finding] = findings(read_report(report))
    assert finding["max_abs"]["index"] == [211, 650]
    assert finding["max_abs"]["rank"] == 1
    local = [61, 650] if placement == {"shard": 0} else [211, 300]
    assert finding["max_abs"]["local_index"] == local
