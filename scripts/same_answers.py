"""Runs two builds of ttrace on the same traces and compares what they answer."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from conformance.random_traces import random_trace, write
from gallery.expected import EXPECTED
from power.gallery_runs import Runs
from support.planted_faults import plant
from support.synth import synth, tensors

TESTDATA = Path(__file__).parent.parent / "testdata" / "tiny_gpt"
# Members of a report that may read otherwise: texts for people, and what a machine took.
TEXTS = {"environment", "why", "reason", "where", "merged", "evidence", "warnings", "formula"}
DTYPES = ["float64", "float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int64"]
SHAPE = [8, 24]
PLACEMENTS: list[dict[str, Any]] = [
    {"tp": {"shard": 0}},
    {"tp": {"shard": 1}},
    {"dp": {"shard": 0}, "tp": {"shard": 1}},
    {"tp": {"partial": "sum"}},
    {},
    {"tp": {"shard": 0, "order": "zigzag"}},
    {"tp": {"shard": 0, "stride": 2}},
    {"dp": {"flat": [[0, 96], [96, 192]]}},
    {"dp": {"only": 0}},
]
FAULTS = ["scaled=1.5", "shards_swapped", "part_dropped", "row_zeroed", "nan", "key_missing"]


@dataclass
class Case:
    name: str
    arguments: list[str]
    files: list[str] = field(default_factory=list)  # that the command writes


def blanked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: None if key in TEXTS else blanked(item) for key, item in value.items()}
    return [blanked(item) for item in value] if isinstance(value, list) else value


def comparisons(name: str, reference: Path, run: Path, *more: str) -> Iterator[Case]:
    yield Case(
        f"compare {name}",
        ["compare", str(reference), str(run), *more, "--json", "out.json"],
        ["out.json"],
    )


def of_testdata() -> Iterator[Case]:
    reference = TESTDATA / "ref.h5"
    noise = [str(TESTDATA / f"noise{i}.h5") for i in (1, 2, 3)]
    for run in (TESTDATA / "tp2sp", TESTDATA / "tp2sp_p12"):
        for more in (
            [],
            ["--noise", noise[0]],
            ["--noise", *noise],
            ["--noise", *noise, "--all-slices"],
            ["--noise", *noise, "--only", "layers.*", "--kind", "output,main_grad"],
            ["--common", "--skip", "layers.0*"],
            ["--threads", "1", "--part", "2/3"],
        ):
            yield from comparisons(f"{run.name} {' '.join(more)}", reference, run, *more)
        yield Case(f"merge {run.name}", ["merge", str(run), "-o", "merged.h5"], ["merged.h5"])
        yield Case(f"inspect {run.name}", ["inspect", str(run)])
        by = ["--specification", str(TESTDATA / "specification.json"), "--json", "out.json"]
        yield Case(f"audit {run.name}", ["audit", str(run), *by], ["out.json"])
        yield Case(
            f"localize {run.name}", ["localize", str(reference), str(run), *by], ["out.json"]
        )
        yield Case(f"lint {run.name}", ["lint", str(run)])
    yield Case("calibrate", ["calibrate", str(reference), *noise, "-o", "tol.json"], ["tol.json"])
    yield Case(
        "selftest",
        [
            "selftest",
            str(reference),
            str(TESTDATA / "tp2sp"),
            "--noise",
            *noise,
            "--json",
            "s.json",
        ],
        ["s.json"],
    )


def of_random_traces(folder: Path, count: int) -> Iterator[Case]:
    for seed in range(count):
        reference, run = write(random_trace(seed), folder / str(seed))
        yield from comparisons(f"random {seed}", reference, run)
        yield Case(f"merge {seed}", ["merge", str(run), "-o", "merged.h5"], ["merged.h5"])
        yield Case(f"lint {seed}", ["lint", str(run)])
        shutil.rmtree(folder / str(seed))


def of_gallery(folder: Path, count: int) -> Iterator[Case]:
    """Runs of the miniature trainer, with the first `count` bugs of its gallery and without."""
    runs = Runs(folder)
    for bug, expected in list(EXPECTED.items())[:count]:
        for bugs in ((bug,), ()):
            config = dataclasses.replace(expected.config, bug=bugs)
            run = runs.trace(config)
            for name, arguments in runs.commands(config, run).items():
                title = f"{name} {bug}" if bugs else f"{name} {bug}'s healthy twin"
                yield Case(title, arguments, ["answer.json"])
            runs.drop(run)


def of_synthetic_traces(folder: Path) -> Iterator[Case]:
    for number, placements in enumerate(PLACEMENTS):
        for dtype in DTYPES:
            here = folder / f"{number}-{dtype}"
            here.mkdir()
            kind = "param_grad" if "partial" in str(placements) else "output"
            made = tensors(4, SHAPE, kind=kind, dtype=dtype, placements=placements)
            noisy = () if dtype == "int64" else ("--noise", "1")
            reference = synth(here / "ref.h5", made)
            noise = synth(here / "noise.h5", made, *noisy, "--noise-seed", "7")
            healthy = synth(here / "healthy", made, *noisy, mesh={"dp": 2, "tp": 2})
            runs = [healthy]
            for fault in FAULTS:
                faulty = here / fault.split("=")[0]
                shutil.copytree(healthy, faulty)
                with contextlib.suppress(ValueError):  # integers that are no numbers, no two shards
                    plant(faulty, f"{fault}@tensor.2")
                    runs.append(faulty)
            for run in runs:
                title = f"{placements} {dtype} {run.name}"
                yield from comparisons(title, reference, run)
                yield from comparisons(f"{title}, noise", reference, run, "--noise", str(noise))
            merge = ["merge", str(healthy), "-o", "merged.h5"]
            yield Case(f"merge {placements} {dtype}", merge, ["merged.h5"])
            shutil.rmtree(here)


def of_damaged_files(folder: Path, count: int) -> Iterator[Case]:
    chance = random.Random(1)
    for number in range(count):
        run = folder / f"damaged{number}"
        shutil.copytree(TESTDATA / "tp2sp", run)
        file = chance.choice(sorted(run.iterdir()))
        content = bytearray(file.read_bytes())
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)) :]
        for _ in range(chance.choice([1, 4, 64])):
            if content:
                content[chance.randrange(len(content))] = chance.randrange(256)
        file.write_bytes(content)
        yield from comparisons(f"damaged {number}", TESTDATA / "ref.h5", run)
        yield Case(f"lint damaged {number}", ["lint", str(run)])
        yield Case(f"merge damaged {number}", ["merge", str(run), "-o", "merged.h5"])
        shutil.rmtree(run)


@dataclass
class Answer:
    code: int
    text: str
    files: dict[str, Any]


def same(was: Any, now: Any, relative: float) -> bool:
    """Whether two answers are equal, but for numbers that differ by at most that share of them."""
    if isinstance(was, dict) and isinstance(now, dict):
        return was.keys() == now.keys() and all(same(was[key], now[key], relative) for key in was)
    if isinstance(was, list) and isinstance(now, list):
        return len(was) == len(now) and all(map(same, was, now, [relative] * len(was)))
    if isinstance(was, float) and isinstance(now, float):
        return was == now or math.isclose(was, now, rel_tol=relative)
    return bool(was == now)


def answer(ttrace: str, case: Case) -> Answer:
    with tempfile.TemporaryDirectory() as name:
        done = subprocess.run(
            [ttrace, *case.arguments], cwd=name, capture_output=True, text=True, timeout=300
        )
        files: dict[str, Any] = {}
        for file in case.files:
            path = Path(name) / file
            if not path.exists():
                files[file] = None
            elif path.suffix == ".json":
                files[file] = blanked(json.loads(path.read_text(encoding="utf-8")))
            else:
                files[file] = path.read_bytes()
        return Answer(done.returncode, done.stdout + done.stderr, files)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", help="the program as it was")
    parser.add_argument("after", help="the program as it is")
    parser.add_argument("--random", type=int, default=60, help="random traces")
    parser.add_argument("--damaged", type=int, default=200, help="damaged files")
    parser.add_argument("--gallery", type=int, default=0, help="bugs of the gallery, which trains")
    parser.add_argument("--relative", type=float, default=0, help="by how much numbers may differ")
    parser.add_argument("--texts", action="store_true", help="show texts that changed, too")
    given = parser.parse_args()
    before, after = (str(Path(program).resolve()) for program in (given.before, given.after))
    count = 0
    differ: list[str] = []
    texts: list[str] = []
    codes: dict[int, int] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for cases in (
            of_testdata(),
            of_random_traces(folder, given.random),
            of_synthetic_traces(folder),
            of_damaged_files(folder, given.damaged),
            of_gallery(folder, given.gallery),
        ):
            for case in cases:
                was, now = answer(before, case), answer(after, case)
                count += 1
                codes[was.code] = codes.get(was.code, 0) + 1
                if was.code != now.code or not same(was.files, now.files, given.relative):
                    differ.append(f"{case.name}: exit codes {was.code}, {now.code}")
                    print("differs:", differ[-1], flush=True)
                elif was.text.splitlines()[:1] != now.text.splitlines()[:1]:
                    texts.append(case.name)
                    if given.texts:
                        print(f"{case.name}\n- {was.text}+ {now.text}", flush=True)
    by_code = ", ".join(f"{codes[code]} with {code}" for code in sorted(codes))
    print(f"{count} commands ({by_code}): {len(differ)} answered otherwise;", end=" ")
    print(f"the first line of {len(texts)} others reads otherwise")
    return 1 if differ or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
