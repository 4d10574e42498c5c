"""The benchmark of `ttrace compare`; `bench.sh` finds the programs. See there for the flags."""

from __future__ import annotations

import argparse
import datetime
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bench_growth
from bench_timing import SUCCESS, Command, Times, grown, in_turn, machine, run_once, table
from support.synth import Entry, synth, tensors

TTRACE = os.environ["TTRACE"]
# Without noise runs the late ones of many outputs are below the noise floor: inconclusive.
SUCCESS[TTRACE] = (0, 3)
HEAD = ["case", "program", "seconds", "processor s", "GB/s", "ttrace takes", "target", "peak MiB"]
ROW_BYTES = 4096 * 4
Row = list[str]


Made = Callable[[], list[Entry]]


@contextmanager
def pair(
    folder: Path, made: Made, *flags: str, mesh: dict[str, int] | None = None
) -> Iterator[tuple[Path, Path]]:
    """A reference and a healthy run that differs by one rounding, removed afterwards."""
    place = Path(tempfile.mkdtemp(dir=folder))

    def make() -> None:
        entries = made()
        synth(place / "ref.h5", entries, *flags)
        synth(place / "run", entries, *flags, "--noise", "1", mesh=mesh)

    try:
        # What this process has in memory would count for the programs that it starts.
        maker = multiprocessing.get_context("fork").Process(target=make)
        maker.start()
        maker.join()
        if maker.exitcode != 0:
            sys.exit("the traces could not be made")
        yield place / "ref.h5", place / "run"
    finally:
        shutil.rmtree(place)


def compare(reference: Path, run: Path) -> Command:
    return [TTRACE, "--quiet", "compare", str(reference), str(run)]


def files_of(run: Path) -> list[str]:
    return sorted(str(path) for path in run.glob("rank_*.h5"))


def cats(reference: Path, run: Path) -> list[Command]:
    return [["cat", str(reference)], ["cat", *files_of(run)]]


def python(script: str, *arguments: str) -> Command:
    return [sys.executable, str(Path(__file__).with_name(script)), *arguments]


def rows_of(case: str, times: dict[str, Times], size: int, targets: dict[str, str]) -> list[Row]:
    """The first contestant is ttrace; `targets` are those of its ratio to another."""
    ours = times["ttrace"]
    rows = []
    for name, one in times.items():
        ratio = "" if name == "ttrace" else f"{ours.over(one):.2f} × its time"
        if name != "ttrace" and ours.over(one) < 0.5:
            ratio = f"1/{1 / ours.over(one):.1f} of its time"
        speed = f"{size / one.median() / 1e9:.2f}" if size else ""
        rows.append(
            [
                case,
                name,
                f"{one.median():.3f}",
                f"{one.median_processor():.3f}",
                speed,
                ratio,
                targets.get(name, ""),
                f"{one.peak:.0f}",
            ]
        )
    return rows


class Cases:
    """Each makes its traces, runs the programs and removes the traces."""

    def __init__(self, folder: Path, size: int, rounds: int) -> None:
        self.folder, self.size, self.rounds = folder, size, rounds

    def rows(self, size: int, dtype: str = "float32", **more: Any) -> Made:
        """32 tensors of rows of 4,096 elements."""
        rows = max(8, size // 32 // (4096 * (2 if dtype == "bfloat16" else 4)))
        return lambda: tensors(32, [rows, 4096], dtype=dtype, **more)

    def run(
        self,
        case: str,
        made: Made,
        targets: dict[str, str],
        mesh: dict[str, int] | None = None,
    ) -> list[Row]:
        with pair(self.folder, made, mesh=mesh) as (ref, run):
            programs = {"ttrace": [compare(ref, run)], "2 × cat": cats(ref, run)}
            files = files_of(run)
            if "h5diff" in targets:
                programs["h5diff"] = [
                    ["h5diff", "-p", "0.001", "--exclude-path", "/manifest", str(ref), files[0]]
                ]
            if "numpy" in targets:
                programs["numpy"] = [python("bench_numpy.py", str(ref), files[0])]
            size = sum(os.path.getsize(path) for path in [str(ref), *files])
            return rows_of(case, in_turn(programs, self.rounds), size, targets)

    def f32(self) -> list[Row]:
        targets = {"2 × cat": "≤ 1.15", "h5diff": "≤ 1/20", "numpy": "≤ 1/12"}
        return self.run("f32", self.rows(self.size), targets)

    def columns(self) -> list[Row]:
        made = self.rows(self.size, placements={"tp": {"shard": 1}})
        targets = {"2 × cat": "≤ 1.5"}
        return self.run("f32, columns over 8 ranks", made, targets, mesh={"tp": 8})

    def bf16(self) -> list[Row]:
        targets = {"2 × cat": "≤ 1.6", "numpy": ""}
        return self.run("bf16", self.rows(self.size, "bfloat16"), targets)

    def one_tensor(self) -> list[Row]:
        rows = max(8, self.size // ROW_BYTES)
        return self.run("f32, one tensor", lambda: tensors(1, [rows, 4096]), {"2 × cat": ""})

    def deflate(self) -> list[Row]:
        """A quarter of the size: compressing takes its time."""
        with pair(self.folder, self.rows(self.size // 4), "--deflate", "4") as (ref, run):
            zipped = []
            for file in (str(ref), files_of(run)[0]):
                zipped.append(f"{file}.gz")
                unpack = python("bench_raw_bytes.py", file)
                with subprocess.Popen(unpack, stdout=subprocess.PIPE) as raw:
                    with open(zipped[-1], "wb") as out:
                        subprocess.run(
                            ["gzip", "-4", "-c"], stdin=raw.stdout, stdout=out, check=True
                        )
            programs = {
                "ttrace": [compare(ref, run)],
                "2 × gzip -dc": [["gzip", "-dc", file] for file in zipped],
            }
            times = in_turn(programs, self.rounds)
            return rows_of("f32, deflate 4", times, self.size // 2, {"2 × gzip -dc": "≤ 1.3"})

    def small(self) -> list[Row]:
        stages = 64

        def made() -> list[Entry]:
            entries = tensors(100_000, [32, 32])
            for i, entry in enumerate(entries):
                entry["held_at"] = {"pp": [i * stages // len(entries)]}
            return entries

        with pair(self.folder, made, mesh={"pp": stages}) as (ref, run):
            times = {"ttrace": grown([compare(ref, run)], self.rounds)}
        return rows_of("100,000 × 4 KiB, 64 ranks", times, 0, {"ttrace": "≤ 2 s"})

    def startup(self) -> list[Row]:
        with pair(self.folder, lambda: tensors(1000, [16])) as (ref, run):
            times = in_turn({"ttrace": [compare(ref, run)]}, max(self.rounds, 11))
        return rows_of("start-up, 1,000 tensors", times, 0, {"ttrace": "≤ 0.05 s"})

    def memory(self) -> list[Row]:
        """Holes: read as any other file, but on no disk. Last: it empties the page cache."""
        rows = []
        sides: dict[str, Made] = {
            "40 tensors": lambda: tensors(40, [65536, 4096]),
            "one tensor": lambda: tensors(1, [2621440, 4096]),
        }
        for name, made in sides.items():
            with pair(self.folder, made, "--sparse") as (ref, run):
                size = sum(os.path.getsize(path) for path in [str(ref), *files_of(run)])
                one = Times()
                one.add(run_once([compare(ref, run)]))
            rows += rows_of(
                f"40 GiB sparse, {name}", {"ttrace": one}, size, {"ttrace": "≤ 2048 MiB"}
            )
        return rows


def bytes_from(text: str) -> int:
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    return int(float(text[:-1]) * units[text[-1]]) if text[-1] in units else int(text)


def main() -> None:
    cases = [name for name, member in vars(Cases).items() if name not in ("run", "rows") and
             isinstance(member, Callable) and not name.startswith("_")]  # fmt: skip
    parser = argparse.ArgumentParser(description="Benchmark of ttrace compare.")
    parser.add_argument("--size", type=bytes_from, default=2 * 2**30, help="bytes of either side")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(cases), help=f"of {', '.join(cases)}")
    parser.add_argument("--growth", action="store_true", help="the second table instead")
    parser.add_argument("--folder", type=Path, help="where the traces lie for a while")
    flags = parser.parse_args()
    unknown = set(flags.only.split(",")) - set(cases)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(cases)}")

    print(f"{datetime.date.today()}, {machine()}, {flags.size / 2**30:g} GiB on either side, "
          f"median of {flags.rounds}\n")  # fmt: skip
    with tempfile.TemporaryDirectory(dir=flags.folder) as folder:
        if flags.growth:
            bench_growth.run(Path(folder), flags.rounds, pair, compare)
            return
        rows: list[Row] = []
        for name in flags.only.split(","):
            print(f"{name} ...", file=sys.stderr, flush=True)
            rows += getattr(Cases(Path(folder), flags.size, flags.rounds), name)()
        table(HEAD, rows)


if __name__ == "__main__":
    main()
