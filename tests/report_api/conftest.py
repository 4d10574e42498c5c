"""Reports of a run and of one with a bug, made as a notebook makes them."""

from __future__ import annotations

import pytest
from support.ttrace_cli import TESTDATA, ttrace_binary

from ttrace_torch import report

NOISE = [TESTDATA / f"noise{one}.h5" for one in (1, 2, 3)]
REFERENCE, HEALTHY, BROKEN = (TESTDATA / name for name in ("ref.h5", "tp2sp", "tp2sp_p12"))
SPECIFICATION = TESTDATA / "specification.json"


@pytest.fixture(scope="session", autouse=True)
def _program():
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TTRACE", str(ttrace_binary()))
        environment.setenv("MPLBACKEND", "agg")
        yield


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="session")
def healthy(folder) -> report.CompareReport:
    return report.compare(REFERENCE, HEALTHY, noise=NOISE, json=folder / "healthy.json")


@pytest.fixture(scope="session")
def diverged(folder) -> report.CompareReport:
    return report.compare(REFERENCE, BROKEN, noise=NOISE, json=folder / "diverged.json.gz")


@pytest.fixture(scope="session")
def audited() -> report.AuditReport:
    return report.audit(BROKEN, specification=SPECIFICATION)


@pytest.fixture(scope="session")
def localized() -> report.LocalizeReport:
    return report.localize(
        REFERENCE, BROKEN, noise=NOISE, specification=SPECIFICATION, all_layers=True
    )
