"""Files and folders of others, given in place of a trace: one sentence says what they are."""

import gzip
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from support.ttrace_cli import TESTDATA, UNUSABLE, run_ttrace

REF = TESTDATA / "ref.h5"
WAY_OUT = 'not a trace; ttrace reads traces, which tt.trace(model, optimizer, out="run.h5") writes'


def safetensors(length=None):
    header = json.dumps({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}).encode()
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(8)


def saved(path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, path)


def saved_the_old_way(path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, path, _use_new_zipfile_serialization=False)


def arrays(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, weight=np.zeros(3))


def array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def written(content: bytes):
    return lambda path: path.write_bytes(content)


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (saved, f"is a torch.save checkpoint, {WAY_OUT}"),
        (saved_the_old_way, f"is a torch.save checkpoint, {WAY_OUT}"),
        (arrays, f"is a NumPy file, {WAY_OUT}"),
        (array, f"is a NumPy file, {WAY_OUT}"),
        (written(safetensors()), f"is a safetensors file, {WAY_OUT}"),
        (written(b"step 1: loss 2.5\n"), f"is a text file, {WAY_OUT}"),
        (written(b'{"loss": 2.5}'), f"is a JSON file, {WAY_OUT}"),
        (written(b'{"schema": "ttrace.answer/1"}'), "is a JSON file of ttrace (ttrace.answer/1)"),
        (
            written((TESTDATA / "tp2sp" / "manifest.json").read_bytes()),
            "is the manifest of a trace",
        ),
        (written(gzip.compress(b"{}")), "is a compressed file; unpack it first"),
        # What may be a broken trace is not called something else.
        (written(safetensors(length=2**63)), "not a readable HDF5 file"),
        (written(b"PK\x03\x04"), "not a readable HDF5 file"),
        (written(REF.read_bytes()[:700]), "not a readable HDF5 file"),
    ],
    ids=lambda one: getattr(one, "__name__", "bytes"),
)
def test_file(tmp_path, write, said):
    path = tmp_path / "given"
    write(path)
    for arguments in (["compare", REF, path], ["inspect", path]):
        done = run_ttrace(*arguments)
        assert done.returncode == UNUSABLE
        assert done.stderr.startswith(f"ttrace: {path}: {said}")
        assert done.stderr.count("\n") == 1 and done.stdout == ""


def test_folders(tmp_path):
    def said_of(folder):
        done = run_ttrace("compare", REF, folder)
        assert done.returncode == UNUSABLE
        return done.stderr.removeprefix(f"ttrace: {folder}: ").strip()

    assert "there is no such file, so this directory is not a trace" in said_of(tmp_path)
    for name in ("model-1.safetensors", "model-2.safetensors"):
        (tmp_path / name).write_bytes(safetensors())
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "link").symlink_to("/dev/zero")
    assert said_of(tmp_path).startswith("is a folder with 1 JSON file, 2 safetensors files, not a")
    for name in ("ref.h5", "run.h5"):
        (tmp_path / name).write_bytes(REF.read_bytes())
    assert said_of(tmp_path).endswith("to read one of its HDF5 files, give that file")
    # A trace that lacks its manifest is told how to get one.
    (tmp_path / "rank_00000.h5").write_bytes(REF.read_bytes())
    assert "`ttrace lint --write" in said_of(tmp_path)


def test_too_many_traces():
    done = run_ttrace("compare", REF, REF, REF, REF)
    assert done.returncode == UNUSABLE
    assert done.stderr == (
        "ttrace: compare takes REF and RUN; 4 were given; see `ttrace compare --help`\n"
    )
