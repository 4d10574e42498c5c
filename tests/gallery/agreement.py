"""Runs as `ttrace compare` sees them: healthy ones with one noise run, in some tests with two as
well, faulty ones with one, or three where a scalar is wrong."""

import dataclasses
import fcntl
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.reports import findings, read_report
from support.text_report import answer
from support.ttrace_cli import DIVERGED, MATCH, run_ttrace

from gallery.config import Config
from gallery.expected import EXPECTED
from gallery.together import traced, traced_in_turn

SEEDS = (1, 2, 3)
# Numbers of noise runs that a healthy run is compared with.
BOTH = (1, 2)
# What a process of a reference run has one of.
ALONE = {"pp": 1, "dp": 1, "cp": 1, "tp": 1, "sp": False, "ep": 1, "zero": False}
ALONE |= {"vpp": 1, "recompute": False, "packed": False, "expert_tp": False}


def draws_of_one_run(report: dict[str, Any]) -> int:
    """Random numbers that the one-process run recorded, and a job of several ranks does not."""
    return sum(
        result["outcome"] == "not_judged" and result["key"]["name"].endswith("(random)")
        for result in report["results"]
    )


class Agreement:
    """`folder` makes a new folder. References are made once for each set of options, by whichever
    process comes first: they lie in the folder `shared`, under a name made of their options."""

    def __init__(self, folder: Callable[[], Path], shared: Path) -> None:
        self._folder = folder
        self._shared = shared

    def references(self, config: Config, seeds: tuple[int, ...]) -> list[Path]:
        """The runs of one process with these options; perturbed if the seed is not 0."""
        alone = dataclasses.replace(config, **ALONE, bug=())
        name = hashlib.sha256(str(alone).encode()).hexdigest()
        traces = {seed: self._shared / f"{name}.{seed}.h5" for seed in seeds}
        with open(self._shared / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            folder = self._folder()
            lacking = {
                seed: folder / trace.name for seed, trace in traces.items() if not trace.exists()
            }
            if lacking:
                traced_in_turn(
                    dataclasses.replace(alone, perturb=seed, trace=str(made))
                    for seed, made in lacking.items()
                )
            for seed, made in lacking.items():
                made.rename(traces[seed])
        return list(traces.values())

    def check_healthy(self, config: Config, noise_runs: tuple[int, ...] = (1,)) -> None:
        """The run is well formed and matches its reference in every tensor.

        noise_runs: it is compared with each of these numbers of noise runs. Every precision is,
            somewhere, with one and with two: `BOTH`.
        """
        trace = traced(config, self._folder() / "run")
        linted = run_ttrace("lint", trace)
        assert linted.returncode == MATCH and linted.stdout.startswith("CLEAN"), linted.stdout
        for number in noise_runs:
            noise = SEEDS[:number]
            text, report = self._compare(config, trace, noise)
            assert report["verdict"] == "match", text
            counts = report["counts"]
            judged = counts["match"] + counts.get("below_noise_floor", 0)
            assert judged + draws_of_one_run(report) == counts["total"], text
            assert report["findings"] == [] and report["warnings"] == [], text
            print(config, noise, answer(text))

    def check_bug(self, bug: str) -> dict[str, Any]:
        """With its one bug the run diverges first where it is expected to, and nowhere else.

        Returns the first finding.
        """
        expected = EXPECTED[bug]
        # Two on each rank, as fewer accumulate nothing.
        config = dataclasses.replace(
            expected.config, bug=(bug,), microbatches=2 * expected.config.dp
        )
        trace = traced(config, self._folder() / "run")
        # One noise run alone lets a scalar, such as a scale of FP8, be off by 64 times its noise.
        scalar = any(name.endswith("_scale") for name in expected.names)
        noise = SEEDS if scalar else SEEDS[:1]
        text, report = self._compare(config, trace, noise)
        assert report["verdict"] == "diverged", text
        found = findings(report)
        assert all(expected.covers(finding["key"]) for finding in found), text
        return found[0]

    def _compare(self, config: Config, trace: Path, noise: tuple[int, ...]) -> tuple[str, dict]:
        runs = self.references(config, (0, *noise))
        path = trace.parent / "report.json"
        flags = [flag for run in runs[1:] for flag in ("--noise", run)]
        done = run_ttrace("compare", runs[0], trace, *flags, "--json", path)
        assert done.returncode in (MATCH, DIVERGED), done.stdout + done.stderr
        return done.stdout, read_report(path)
