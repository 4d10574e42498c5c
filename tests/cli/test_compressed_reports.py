"""Reports in JSON that were written compressed are read by whatever reads reports."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from .conftest import Run
from .small_traces import check_refused, write_pair


@pytest.fixture
def report(ttrace: Run, tmp_path: Path) -> Path:
    reference, run = write_pair(tmp_path)
    file = tmp_path / "report.json.gz"
    ttrace("compare", reference, run, "--json", file)
    return file


READERS = [("explain", "1"), ("report", "show")]


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_a_compressed_report_says_what_the_plain_one_says(
    ttrace: Run, report: Path, tmp_path: Path, reader: tuple[str, ...]
) -> None:
    plain = tmp_path / "plain.json"
    plain.write_bytes(gzip.decompress(report.read_bytes()))
    told = [ttrace(*reader, file) for file in (report, plain)]
    assert told[0].returncode == told[1].returncode
    texts = [f"{one.stdout}{one.stderr}" for one in told]
    assert texts[0].replace(str(report), str(plain)) == texts[1] != ""


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
@pytest.mark.parametrize("damage", [lambda b: b[:-6], lambda b: b[:2] + b"x" * 50, lambda b: b + b])
def test_a_damaged_one_is_refused_as_damaged(ttrace, report, reader, damage) -> None:
    report.write_bytes(damage(report.read_bytes()))
    check_refused(ttrace(*reader, report), f"{report}: is a damaged gzip file")
