"""Traces in safetensors files: the answers of HDF5, and what is wrong passes for no trace."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import sys
import types
from pathlib import Path

import h5py
import pytest
import torch
from support.safetensors_file import TYPES, convert, file_of, with_header
from support.synth import synth, tensors
from support.ttrace_cli import (
    DIVERGED,
    INCONCLUSIVE,
    MATCH,
    REPOSITORY,
    TESTDATA,
)

from .conftest import Run
from .small_traces import check_answer, check_refused

REF = TESTDATA / "ref.h5"
NOISE = sorted(TESTDATA.glob("noise*.h5"))


def converted(run: str, folder: Path, *ranks: int) -> Path:
    shutil.copytree(TESTDATA / run, folder / run)
    for rank in ranks or (0, 1):
        convert(folder / run / f"rank_{rank:05d}.h5")
    return folder / run


def answer(ttrace: Run, *arguments: str | Path) -> dict:
    """The report but for what says which files were read, and how."""
    done = ttrace(*arguments, "--json", "-")
    report = json.loads(done.stdout[done.stdout.index("{") :])
    report.pop("environment")
    return report


def without_files(value: object) -> object:
    """Sizes, times and checksums of files left out, names of rank files as one."""
    if isinstance(value, dict):
        return {
            key: without_files(one)
            for key, one in value.items()
            if key not in ("bytes", "modified", "content", "path", "command")
        }
    if isinstance(value, list):
        return [without_files(one) for one in value]
    if isinstance(value, str):
        return value.replace(".safetensors", ".h5")
    return value


@pytest.mark.parametrize("ranks", [(0, 1), (1,)], ids=["all", "mixed"])
def test_the_report_is_that_of_hdf5(ttrace: Run, tmp_path: Path, ranks: tuple[int, ...]) -> None:
    stored = tmp_path / "h5"
    shutil.copytree(TESTDATA / "tp2sp_p12", stored / "tp2sp_p12")
    run = converted("tp2sp_p12", tmp_path, *ranks)
    flags = ["--noise", *NOISE]
    before = answer(ttrace, "compare", REF, stored / "tp2sp_p12", *flags)
    after = answer(ttrace, "compare", REF, run, *flags)
    assert before["verdict"] == "diverged"
    text = json.dumps(without_files(after)).replace(str(run), str(stored / "tp2sp_p12"))
    assert json.loads(text) == without_files(before)


def test_every_type_is_read_as_in_hdf5(ttrace: Run, tmp_path: Path) -> None:
    made = [tensors(1, [3, 5], name=dtype, kind="buffer", dtype=dtype)[0] for dtype in TYPES]
    stored, copy = synth(tmp_path / "stored.h5", made), tmp_path / "copy.h5"
    shutil.copy(stored, copy)
    done = ttrace("compare", stored, convert(copy), "--json", tmp_path / "report.json")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["counts"]["match"] == len(TYPES) == 15, done.stdout


def test_other_commands_read_them(ttrace: Run, tmp_path: Path) -> None:
    run = converted("tp2sp", tmp_path)
    manifest = (run / "manifest.json").read_text()
    (run / "manifest.json").unlink()
    check_answer(ttrace("lint", "--write", run), MATCH, "CLEAN  202 tensors over 2 ranks")
    assert json.loads((run / "manifest.json").read_text())["tensors"]
    (run / "manifest.json").write_text(manifest)
    whole = tmp_path / "whole.h5"
    assert ttrace("merge", run, "-o", whole).returncode == MATCH
    hdf5 = tmp_path / "hdf5.h5"
    assert ttrace("merge", TESTDATA / "tp2sp", "-o", hdf5).returncode == MATCH
    assert whole.read_bytes() == hdf5.read_bytes()
    check_answer(ttrace("inspect", run), MATCH, str(run))
    done = ttrace("merge", run, "-o", run / "rank_00007.safetensors")
    check_refused(done, "rank_00007.safetensors: belongs to the trace that is read")


def test_a_single_file_with_its_manifest_is_a_trace(ttrace: Run, tmp_path: Path) -> None:
    copy = tmp_path / "ref.h5"
    shutil.copy(REF, copy)
    ref = convert(copy)
    assert answer(ttrace, "compare", REF, ref)["counts"]["match"] == 202
    shutil.copy(REF, copy)
    checkpoint = convert(copy, embed=False)
    done = ttrace("compare", REF, checkpoint)
    check_refused(done, f"{checkpoint}: is a safetensors file, not a trace")
    assert (
        "a folder with manifest.json and a file rank_00000.safetensors of each rank" in done.stderr
    )


def test_two_files_of_one_rank_are_no_choice(ttrace: Run, tmp_path: Path) -> None:
    run = converted("tp2sp", tmp_path)
    shutil.copy(TESTDATA / "tp2sp" / "rank_00001.h5", run)
    said = (
        f"{run}/rank_00001.h5: rank_00001.safetensors lies beside it, and only one of them can be "
        "the file of rank 1; move the one that is not of this run away"
    )
    done = ttrace("compare", REF, run)
    assert done.returncode == INCONCLUSIVE and said in done.stdout
    done = ttrace("lint", run)
    assert done.returncode == DIVERGED and said in done.stdout
    (run / "manifest.json").unlink()
    assert said in ttrace("lint", "--write", run).stdout


F32 = {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}
EMPTY = b'{"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}'
X = "/step_000000/output/x"
MANIFEST = {
    "schema": "ttrace.manifest/2",
    "meshes": {"": {"axes": []}},
    "tensors": [{"name": "x", "kind": "output", "step": 0, "dtype": "float32", "shape": [4]}],
}
SIXTEEN = bytes(16)


def changed(**members: object) -> bytes:
    return with_header({X: {**F32, **members}}, SIXTEEN)


BAD = {
    "no bytes": (b"", "has 0 bytes, too few for a safetensors file"),
    "seven bytes": (bytes(7), "has 7 bytes, too few for a safetensors file"),
    "no header": (bytes(8), "header"),
    "long header": (struct.pack("<Q", 10**8 + 1) + b"{}", "at most 100 MB are read"),
    "longest header": (struct.pack("<Q", 2**64 - 1) + b"{}", "at most 100 MB are read"),
    "cut header": (with_header({X: F32})[:-9], "its header has"),
    "no UTF-8": (with_header(b'{"\xff": 1}'), "header"),
    "no JSON": (with_header(b"{'x': 1}"), "header"),
    "a list": (with_header([]), "header"),
    "HDF5": (b"\x89HDF\r\n\x1a\n" + bytes(100), "is an HDF5 file; give it a name that ends in .h5"),
    "twice": (with_header(b'{"a": %b, "a": %b}' % (EMPTY, EMPTY)), "twice"),
    "cut data": (
        with_header({X: F32}, SIXTEEN[:-1]),
        f"{X}: ends at byte 16 of the data, of which ",
    ),
    "outside": (changed(data_offsets=[16, 32]), f"{X}: ends at byte 32 of the data"),
    "far outside": (changed(data_offsets=[2**64 - 17, 2**64 - 1]), f"{X}: ends at byte"),
    "backwards": (changed(data_offsets=[16, 0]), f"{X}: its bytes end before they begin"),
    "one offset": (changed(data_offsets=[16]), f"{X}: its data_offsets are 1 numbers"),
    "negative": (changed(data_offsets=[-1, 15]), "data_offsets"),
    "a fraction": (changed(shape=[4.5]), "shape"),
    "too small": (
        changed(shape=[5]),
        f"{X}: has 16 bytes (data_offsets 0 and 16), and F32 [5] has 20",
    ),
    "overflow": (changed(shape=[2**33, 2**33]), "has more than there can be"),
    "no overflow to zero": (changed(shape=[2**32, 2**32], data_offsets=[0, 0]), "more than"),
    "dimensions": (changed(shape=[1] * 33), f"{X}: has 33 dimensions"),
    "unknown fact": (changed(strides=[1]), "strides"),
    "no type": (with_header({X: {"shape": [4], "data_offsets": [0, 16]}}, SIXTEEN), "dtype"),
    "metadata": (with_header({"__metadata__": {"a": 1}, X: F32}, SIXTEEN), "__metadata__"),
    "overlap": (
        with_header({X: F32, "y": {**F32, "data_offsets": [8, 24]}}, bytes(24)),
        f"y: begins at byte 8 of the data, which belongs to {X}",
    ),
    "hole": (
        with_header({X: F32, "y": {**F32, "data_offsets": [20, 36]}}, bytes(36)),
        "bytes 16 to 20 of the data belong to no tensor, which the format forbids",
    ),
    "rest": (with_header({X: F32}, bytes(17)), "bytes 16 to 17 of the data belong to no tensor"),
    "rank": (
        with_header({"__metadata__": {"ttrace_rank": "1"}, X: F32}, SIXTEEN),
        "was written by rank 1 (ttrace_rank), not by rank 2",
    ),
    "no rank": (
        with_header({"__metadata__": {"ttrace_rank": "1x"}, X: F32}, SIXTEEN),
        "ttrace_rank is not a whole number",
    ),
    "other type": (changed(dtype="C64", shape=[2]), f"{X}: has the type C64, which no trace has"),
    "absent": (with_header({"y": F32}, SIXTEEN), f"{X}: there is no such tensor"),
    "type of another": (changed(dtype="I32"), "dataset is [4] i32"),
    "shape of another": (changed(shape=[2, 2]), "dataset is [2, 2] f32"),
    "a pipe": (b"", "not a regular file"),
}


def written(folder: Path, contents: list[bytes]) -> Path:
    """A run of as many ranks, which all hold the tensor x whole."""
    folder.mkdir()
    meshes = {"": {"axes": [{"name": "dp", "size": len(contents)}]}}
    (folder / "manifest.json").write_text(json.dumps({**MANIFEST, "meshes": meshes}))
    for rank, content in enumerate(contents):
        (folder / f"rank_{rank:05d}.safetensors").write_bytes(content)
    return folder


def test_a_bad_file_is_one_sentence(ttrace: Run, tmp_path: Path) -> None:
    good = file_of({X: ("float32", [4], SIXTEEN)}, {"a": "b"})
    run = written(tmp_path / "run", [good, *(content for content, said in BAD.values())])
    pipe = run / f"rank_{len(BAD):05d}.safetensors"
    pipe.unlink()
    os.mkfifo(pipe)
    done = ttrace("lint", run)
    assert done.returncode == DIVERGED and done.stderr == ""
    findings = [line.strip() for line in done.stdout.splitlines()[1:] if "warning: " not in line]
    for rank, (name, (_, said)) in enumerate(BAD.items(), 1):
        file = f"{run}/rank_{rank:05d}.safetensors: "
        about = [line for line in findings if line.startswith(file)]
        assert len(about) == 1 and said in about[0], (name, about)
    assert len(findings) == len(BAD)
    whole = written(tmp_path / "whole", [good] * (1 + len(BAD)))
    check_answer(ttrace("lint", whole), MATCH, "CLEAN")
    done = ttrace("compare", whole, run)
    lost = f"{len(BAD) - 4} of {len(BAD) + 1} ranks"  # of four files one tensor is wrong
    check_answer(done, INCONCLUSIVE, f"INCONCLUSIVE  nothing diverged, but {lost} of the candidate")


def test_a_link_is_followed(ttrace: Run, tmp_path: Path) -> None:
    run = converted("tp2sp", tmp_path)
    for file in list(run.glob("*.safetensors")):
        file.rename(tmp_path / file.name)
        file.symlink_to(tmp_path / file.name)
    check_answer(ttrace("lint", run), MATCH, "CLEAN  202 tensors over 2 ranks, 404 datasets")


def test_the_example_of_the_page_writes_a_trace(
    ttrace: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (REPOSITORY / "schemas" / "trace-v2.md").read_text()
    found = re.search(r"```python\n(import json\n.*?)```", page, re.DOTALL)
    assert found is not None and found[1].count("\n") <= 22

    def save_file(tensors: dict[str, torch.Tensor], path: str, metadata: dict[str, str]) -> None:
        bits = {
            name: ("float32", list(one.shape), one.numpy().tobytes())
            for name, one in tensors.items()
        }
        Path(path).write_bytes(file_of(bits, metadata))

    library = types.ModuleType("safetensors.torch")
    monkeypatch.setattr(library, "save_file", save_file, raising=False)
    monkeypatch.setitem(sys.modules, "safetensors", types.ModuleType("safetensors"))
    monkeypatch.setitem(sys.modules, "safetensors.torch", library)
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    scope: dict = {}
    exec(found[1], scope)
    weight = torch.arange(24.0).reshape(8, 3)
    for rank in (1, 0):
        scope["write_rank"](rank, 2, torch.tensor(1.5), weight[4 * rank : 4 * rank + 4])
    check_answer(ttrace("lint", "run"), MATCH, "CLEAN  2 tensors over 2 ranks, 4 datasets")
    assert ttrace("merge", "run", "-o", "whole.h5").returncode == MATCH
    with h5py.File("whole.h5") as whole:
        assert (whole["/step_000000/param/out.weight"][()] == weight.numpy()).all()
