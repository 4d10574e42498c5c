"""compare_tensors() gives the verdict and the numbers of `ttrace compare`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from support.ttrace_cli import ttrace_binary

import ttrace_torch as tt
from ttrace_torch.compare import library

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
DIGITS = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 1e-2}


@pytest.fixture(autouse=True)
def found_beside_the_program(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TTRACE", str(ttrace_binary()))
    library.load.cache_clear()
    yield
    library.load.cache_clear()


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("dtype", DTYPES)
def test_equal_values_match(dtype: torch.dtype) -> None:
    reference = random(33, 65).to(dtype)
    compared = tt.compare_tensors(reference, reference.clone())
    assert compared.matches
    assert compared["tensor"]["error"] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_error_is_that_of_numpy(dtype: torch.dtype) -> None:
    reference = random(100, 70).to(dtype)
    candidate = random(100, 70, seed=1).to(dtype)
    compared = tt.compare_tensors(reference, candidate)
    assert (compared.verdict, compared.exit_code) == ("diverged", 1)
    r, c = reference.double().numpy(), candidate.double().numpy()
    error = np.linalg.norm(c - r) / np.linalg.norm(r)
    assert compared["tensor"]["error"] == pytest.approx(error, rel=1e-8)
    at = np.unravel_index(np.abs(c - r).argmax(), r.shape)
    assert compared["tensor"]["max_abs"]["index"] == list(at)


@pytest.mark.parametrize("dtype", list(DIGITS))
def test_a_wrong_factor_is_found_and_a_rounding_is_not(dtype: torch.dtype) -> None:
    reference = random(256, 256)
    rounded = (reference.double() * (1 + DIGITS[dtype] / 8 * random(256, 256, seed=3))).to(dtype)
    assert tt.compare_tensors(reference.to(dtype), rounded).matches
    scaled = tt.compare_tensors(reference.to(dtype), (reference * 1.5).to(dtype))
    assert scaled["tensor"]["scale"] == pytest.approx(1.5, rel=1e-2)
    if dtype != torch.float64:  # whose residual the sums do not resolve
        assert scaled.report["findings"][0]["causes"][0]["name"] == "scaled"


def test_several_tensors_by_name() -> None:
    reference = {"a": random(8), "b": random(4, 4), "c": torch.arange(5)}
    candidate = {**{name: value.clone() for name, value in reference.items()}, "b": random(4, 5)}
    compared = tt.compare_tensors(reference, candidate)
    outcomes = {r["key"]["name"]: r["outcome"] for r in compared.report["results"]}
    assert outcomes == {"a": "match", "b": "incomparable", "c": "match"}
    assert compared.exit_code == 1
    del candidate["b"]
    assert tt.compare_tensors(reference, candidate)["b"]["outcome"] == "missing"


def test_noise_judges() -> None:
    reference = random(64, 64)
    noise = [reference + 1e-3 * random(64, 64, seed=seed) for seed in (1, 2, 3)]
    candidate = reference + 1e-3 * random(64, 64, seed=9)
    compared = tt.compare_tensors(reference, candidate, noise=noise)
    assert compared.matches
    assert compared["tensor"]["rule"] == "noise"
    assert not tt.compare_tensors(reference, candidate).matches  # the fallback rule is tighter


def test_the_same_memory_is_not_a_match() -> None:
    reference = random(8)
    assert tt.compare_tensors(reference, reference).verdict == "inconclusive"


def test_views_and_other_arrays() -> None:
    reference = random(30, 20)
    assert tt.compare_tensors(reference.t(), reference.t().contiguous().clone()).matches
    assert tt.compare_tensors(reference, reference.numpy().copy()).matches
    assert tt.compare_tensors(random(2, 3)[0, 0], random(2, 3)[0, 0].clone()).matches
    assert tt.compare_tensors(torch.empty(0, 3), torch.empty(0, 3)).exit_code in (0, 3)


def test_nothing_is_written(tmp_path: Path) -> None:
    reference, candidate = random(50), random(50, seed=1)
    kept = reference.clone(), candidate.clone()
    tt.compare_tensors(reference, candidate)
    assert torch.equal(reference, kept[0]) and torch.equal(candidate, kept[1])


def test_the_numbers_are_those_of_the_program(tmp_path: Path) -> None:
    sides = {"reference": random(300, 170), "candidate": random(300, 170, seed=1)}
    for side, value in sides.items():
        with tt.trace(torch.nn.Identity(), out=tmp_path / f"{side}.h5") as tracer, tracer.step(0):
            tracer.scalar("x", value)
    subprocess.run(
        [ttrace_binary(), "compare", tmp_path / "reference.h5", tmp_path / "candidate.h5"]
        + ["--json", tmp_path / "report.json"],
        capture_output=True,
    )
    (written,) = json.loads((tmp_path / "report.json").read_text())["results"]
    compared = tt.compare_tensors(
        {"x": sides["reference"]}, {"x": sides["candidate"]}, kind="scalar"
    )
    for member in ("error", "allowed", "max_abs", "scale", "residual", "outcome", "rule"):
        assert compared["x"][member] == written[member], member


@pytest.mark.parametrize(
    ("candidate", "why"),
    [
        ([1, 2], "the candidate: tensor is a list"),
        (torch.zeros(2, dtype=torch.complex64), "no torch.complex64 can be compared"),
        ({"": torch.zeros(2)}, "a name is empty"),
    ],
)
def test_what_cannot_be_compared_is_an_error(candidate: object, why: str) -> None:
    with pytest.raises(tt.TraceError, match=why):
        tt.compare_tensors(torch.zeros(2), candidate)


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(tt.TraceError, match='there is no kind "outputs"'):
        tt.compare_tensors(torch.zeros(2), torch.zeros(2), kind="outputs")


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTRACE_LIBRARY", "/nowhere/libttrace.so")
    with pytest.raises(tt.TraceError, match="looked for /nowhere/libttrace.so"):
        tt.compare_tensors(torch.zeros(2), torch.zeros(2))
