"""A trace written from the specification alone is read as it was meant, number by number."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.reports import DIGITS, findings, nine_digits, read_report

from .conftest import Run
from .numpy_merge import decode, norm
from .write_trace import Tensor, sample_tensors, write_candidate, write_reference

EXACT = {"int64", "uint8", "bool"}


def perturbed(tensor: Tensor, random: np.random.Generator) -> Tensor:
    """The tensor with every floating-point number a little off, or one of its integers."""
    stored = tensor.stored.copy()
    if tensor.dtype in EXACT:
        stored.flat[-1] = 1 - stored.flat[-1] if tensor.dtype == "bool" else stored.flat[-1] ^ 1
    elif stored.dtype.kind == "u":  # the last bit of a narrow float
        stored ^= random.integers(0, 2, stored.shape).astype(stored.dtype)
    else:
        stored = (stored * (1 + 0.1 * random.standard_normal(stored.shape))).astype(stored.dtype)
    return Tensor(**{**vars(tensor), "stored": stored})


def merged_value(tensor: Tensor) -> np.ndarray:
    if "partial" in tensor.placement:
        return sum(decode(tensor.dtype, part) for part in tensor.shards()) * tensor.scale
    return decode(tensor.dtype, tensor.stored) * tensor.scale


def place(tensor: Tensor, index: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
    """The first rank that holds the element, and where."""
    for rank, shard in enumerate(tensor.shards()):
        if shard is None:
            continue
        if "shard" not in tensor.placement:
            return rank, index
        d = tensor.placement["shard"]
        first = tensor.shards()[0].shape[d]
        local = list(index)
        local[d] -= 0 if rank == 0 else first
        if 0 <= local[d] < shard.shape[d]:
            return rank, tuple(local)
    raise AssertionError(f"{tensor.name} {index} is held nowhere")


def compare(ttrace: Run, folder: Path, *flags: str) -> tuple[int, str, dict]:
    report = folder / "report.json"
    done = ttrace("compare", folder / "ref.h5", folder / "run", "--json", report, *flags)
    assert done.stderr == ""
    return done.returncode, done.stdout, read_report(report)


def test_what_was_written_matches(ttrace: Run, tmp_path: Path) -> None:
    write_reference(tmp_path / "ref.h5", sample_tensors())
    write_candidate(tmp_path / "run", sample_tensors())
    exit_code, text, report = compare(ttrace, tmp_path)
    assert exit_code == 0, text
    assert text.startswith(f"MATCH  {len(sample_tensors())} tensors agree")
    for result in report["results"]:
        assert result["difference_norm"] == 0, result["key"]
        assert result["unequal"] == 0, result["key"]
    assert ttrace("lint", tmp_path / "ref.h5").returncode == 0
    assert ttrace("lint", tmp_path / "run").returncode == 0


def test_the_script_runs_alone(ttrace: Run, tmp_path: Path) -> None:
    script = Path(__file__).with_name("write_trace.py")
    subprocess.run([sys.executable, script, tmp_path], check=True, timeout=60)
    assert compare(ttrace, tmp_path)[0] == 0


NONEMPTY = [i for i, tensor in enumerate(sample_tensors()) if tensor.stored.size]


@pytest.mark.parametrize("changed", NONEMPTY, ids=lambda i: sample_tensors()[i].path())
def test_one_changed_element_is_found(ttrace: Run, tmp_path: Path, changed: int) -> None:
    tensors = sample_tensors()
    write_reference(tmp_path / "ref.h5", tensors)
    tensor = tensors[changed]
    stored = tensor.stored.copy()
    # Doubling is two more in an exponent that has two mantissa bits, and so on.
    step = {"bfloat16": 0x100, "float8_e4m3fn": 0x28, "float8_e5m2": 0x14}.get(tensor.dtype)
    index = np.unravel_index(np.argmax(np.abs(decode(tensor.dtype, stored))), stored.shape)
    if tensor.dtype in EXACT:
        stored[index] = not stored[index] if tensor.dtype == "bool" else stored[index] ^ 1
    else:
        stored[index] = stored[index] * 8 if step is None else stored[index] + step
    tensors[changed] = Tensor(**{**vars(tensor), "stored": stored})
    write_candidate(tmp_path / "run", tensors)
    exit_code, text, report = compare(ttrace, tmp_path)
    assert exit_code == 1, text
    assert report["counts"]["diverged"] == 1
    assert report["counts"]["match"] == len(tensors) - 1
    microbatch = "" if tensor.microbatch is None else f" · mb {tensor.microbatch}"
    assert text.startswith("DIVERGED  ")
    assert f"\n  first at {tensor.name} · {tensor.kind} · step 0{microbatch} (" in text
    largest = findings(report)[0]["max_abs"]
    assert largest["index"] == [int(i) for i in index]
    rank, local = place(tensors[changed], tuple(int(i) for i in index))
    if tensor.placement != {"partial": "sum"}:
        assert (largest["rank"], tuple(largest["local_index"])) == (rank, local)


def test_every_number_is_numpys(ttrace: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    references = sample_tensors()
    candidates = [perturbed(tensor, random) for tensor in references]
    write_reference(tmp_path / "ref.h5", references)
    write_candidate(tmp_path / "run", candidates)
    _, _, report = compare(ttrace, tmp_path)
    results = {(r["key"]["kind"], r["key"]["name"]): r for r in report["results"]}
    assert len(results) == len(references)
    for reference, candidate in zip(references, candidates, strict=True):
        r = decode(reference.dtype, reference.stored) * reference.scale
        c = merged_value(candidate)
        check_numbers(results[reference.kind, reference.name], r, c, candidate)


def check_numbers(result: dict, r: np.ndarray, c: np.ndarray, candidate: Tensor) -> None:
    def same(name: str, expected: float, size: float | None = None) -> None:
        # Of sums that are right to 1e-12 nine digits are written.
        accuracy = 1e-12 * (abs(expected) if size is None else size)
        assert math.isclose(result[name], expected, rel_tol=DIGITS, abs_tol=accuracy), name

    d = c - r
    same("difference_norm", norm(d))
    same("reference_norm", norm(r))
    same("candidate_norm", norm(c))
    assert result["unequal"] == np.count_nonzero(d)
    assert result["elements"] == d.size
    if d.size == 0:
        assert result["max_abs"] is None
        return
    same("error", norm(d) / norm(r))
    # Means may cancel: accurate with respect to what is summed.
    same("mean_difference", math.fsum(d.ravel()) / d.size, math.fsum(abs(d).ravel()) / d.size)
    same("cosine", math.fsum((r * c).ravel()) / norm(r) / norm(c), 1)
    scale = math.fsum((r * c).ravel()) / math.fsum((r * r).ravel())
    same("scale", scale)
    if d.size > 1:
        same("residual", norm(c - scale * r) / norm(r))
    else:  # one element is a multiple of another: only the rounding of two sums is left
        assert result["residual"] < 1e-7 * result["error"]
    index = np.unravel_index(np.argmax(abs(d)), d.shape)
    largest = result["max_abs"]
    assert largest["value"] == nine_digits(abs(d[index]))
    assert tuple(largest["index"]) == index
    assert largest["reference"] == nine_digits(r[index])
    assert largest["candidate"] == nine_digits(c[index])
    assert (largest["rank"], tuple(largest["local_index"])) == place(
        candidate, tuple(int(i) for i in index)
    )
