"""`ttrace compare` on traces as training makes them, beside the bare loop and `cat`; see bench.sh.

A step of AdamW of 64 million parameters is made by `ttrace_synth`. GPT-2 124M under FSDP2
and a Llama of 125 million parameters under tensor parallelism are recorded by the collector (GPT-2
keeps query, key and value in one matrix, which DTensor does not cut by heads). The bare loop
(tests/bench/bare_loop.cpp) reads the same files and adds up the same sums without knowing what is
in them.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench_timing import Times, in_turn, machine, table
from support.synth import adamw_step, synth, tensors

TTRACE = os.environ["TTRACE"]
BARE_LOOP = str(Path(TTRACE).with_name("ttrace_bare_loop"))
TESTS = Path(__file__).parent.parent / "tests"
HEAD = ["traces", "noise runs", "kind", "GB", "ttrace s", "cpu s", "× bare loop", "× cat",
        "cpu × bare loop", "cpu × cat", "MiB"]  # fmt: skip


class Traces(NamedTuple):
    name: str
    reference: Path
    candidate: Path
    noise: Path
    kinds: list[str]


def files_of(trace: Path) -> list[str]:
    return [str(trace)] if trace.is_file() else sorted(map(str, trace.glob("rank_*.h5")))


def adamw(folder: Path, millions: int) -> Traces:
    count = max(1, millions * 2**20 // 4096**2)
    step = adamw_step(tensors(count, [4096, 4096]))
    noise = ["--seed", "1", "--noise", "1"]
    return Traces(
        f"AdamW, {millions}M parameters",
        synth(folder / "ref.h5", step, "--seed", "1"),
        synth(folder / "run", step, *noise),
        synth(folder / "noise.h5", step, *noise, "--noise-seed", "2"),
        ["param_after_step"],
    )


def recorded(folder: Path, case_name: str, title: str, tiny: bool) -> Traces:
    """One step, every kind, two ranks; the reference and its noise run are one rank."""
    for path in (TESTS, TESTS / "frameworks"):
        sys.path.insert(0, str(path))
    import agreement
    from power.training import PATH, trace_path
    from real_size.cases import CASES

    (case,) = [case for case in CASES if case.name == case_name]
    trainings = case.trainings(tiny)
    for names in (["reference", "noise1"], ["healthy"]):
        if all(trace_path(folder, name).exists() for name in names):
            continue
        (ranks,) = {trainings[name][0] for name in names}
        cases = {name: trainings[name][1] for name in names}
        script = TESTS / "real_size" / "train.py"
        agreement.train(sys.executable, script, ranks, cases, folder, PATH)
    paths = (trace_path(folder, name) for name in ("reference", "healthy", "noise1"))
    kinds = ["output", "main_grad", "param_after_step"]
    return Traces(f"{title}{', tiny' if tiny else ''}", *paths, kinds)


MODELS = {
    "gpt2": ("gpt2-fsdp2-fp32", "GPT-2 124M, FSDP2"),
    "llama": ("llama-tp-fp32", "Llama 125M, tensor parallelism"),
}


def processor_ratio(one: Times, other: Times) -> float:
    """Of medians. On a machine that others use, seconds of the clock say more of these others."""
    return one.median_processor() / other.median_processor()


def measured(traces: Traces, rounds: int) -> Iterator[list[str]]:
    for noise in ([], [traces.noise]):
        every = [traces.reference, traces.candidate, *noise]
        files = [file for trace in every for file in files_of(trace)]
        bare = [BARE_LOOP, str(os.cpu_count()), *(",".join(files_of(trace)) for trace in every)]
        compare = [TTRACE, "--quiet", "compare", str(traces.reference), str(traces.candidate)]
        for run in noise:
            compare += ["--noise", str(run)]
        programs = {"ttrace": [compare], "bare loop": [bare], "cat": [["cat", *files]]}
        for kind in traces.kinds:
            programs[kind] = [[*compare, "--kind", kind]]
        times = in_turn(programs, rounds)
        size = sum(os.path.getsize(file) for file in files) / 1e9
        for name in ("ttrace", *traces.kinds):
            one = times[name]
            of_all = name == "ttrace"
            yield [
                traces.name,
                str(len(noise)),
                "every" if of_all else name,
                f"{size:.1f}" if of_all else "",
                f"{one.median():.2f}",
                f"{one.median_processor():.2f}",
                f"{one.over(times['bare loop']):.2f}" if of_all else "",
                f"{one.over(times['cat']):.2f}" if of_all else "",
                f"{processor_ratio(one, times['bare loop']):.2f}" if of_all else "",
                f"{processor_ratio(one, times['cat']):.2f}" if of_all else "",
                f"{one.peak:.0f}",
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmark of ttrace compare on real traces.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="adamw,gpt2,llama")
    parser.add_argument("--millions", type=int, default=64, help="parameters of the AdamW step")
    parser.add_argument("--tiny", action="store_true", help="small models, to try the script")
    parser.add_argument("--folder", type=Path, help="where the traces lie for a while (17 GB)")
    parser.add_argument("--traces", type=Path, help="keep the recorded traces there, and use them")
    flags = parser.parse_args()
    print(f"{machine()}, median of {flags.rounds} rounds in turn\n")
    rows: list[list[str]] = []
    for name in flags.only.split(","):
        with tempfile.TemporaryDirectory(dir=flags.folder) as temporary:
            if name == "adamw":
                traces = adamw(Path(temporary), flags.millions)
            else:
                folder = Path(temporary)
                if flags.traces:
                    folder = flags.traces / name
                    folder.mkdir(parents=True, exist_ok=True)
                traces = recorded(folder, *MODELS[name], flags.tiny)
            rows += measured(traces, flags.rounds)
    table(HEAD, rows)


if __name__ == "__main__":
    main()
