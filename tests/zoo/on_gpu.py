"""Jobs on a GPU: architectures of the zoo trained on one, audited, and compared with the CPU.

Usage: python -m zoo.on_gpu RAW.jsonl [--only KIND/TASK]... [--at-once N] [--device cuda]

Each architecture is trained on the CPU, which is the reference, and on the GPU as it comes (where
cuDNN's convolutions take TF32), with products in TF32, under autocast in bfloat16, and with the
fault that the zoo draws for it. Exits with 1 if a healthy run is accused or a fault passes, with 3
if a run was not recorded, or there is none.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from power.store import Record, Store
from support.ttrace_cli import run_ttrace

from zoo import train
from zoo.study import SECONDS, audited

# One of each kind: attention with and without groups, experts, convolutions, norms, states.
ARCHITECTURES = (
    *("gpt2/clm", "llama/clm", "gpt_neox/clm", "opt/clm", "bloom/clm", "gemma2/clm", "qwen3/clm"),
    *("phi/clm", "mixtral/clm", "deepseek_v3/clm", "gpt_oss/clm", "mamba/clm", "falcon/clm"),
    *("t5/s2s", "bart/s2s", "bert/mlm", "deberta-v2/mlm", "squeezebert/mlm", "modernbert/mlm"),
    *("vit/img", "convnext/img", "resnet/img", "mobilenet_v1/img", "swin/img", "regnet/img"),
)
RUNS = ("healthy", "tf32", "autocast", "faulty")
# What is audited alone, and why no run on a CPU is a reference for it.
NOT_COMPARED = {
    "swin/img": "it draws random numbers, others on each device",
    **dict.fromkeys(
        ("resnet/img", "mobilenet_v1/img", "regnet/img"),
        "it normalizes over two numbers, which makes anything of a rounding",
    ),
}
_PROCESSES = multiprocessing.get_context("forkserver")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path, help="raw results")
    parser.add_argument("--only", action="append", help="architectures as KIND/TASK")
    parser.add_argument("--at-once", type=int, default=2, help="how many at a time")
    parser.add_argument("--device", default="cuda", help="cpu tries the script itself")
    args = parser.parse_args()
    _PROCESSES.set_forkserver_preload(["zoo.train"])
    store = Store(args.raw, "")

    def one(architecture: str) -> list[Record]:
        with tempfile.TemporaryDirectory(prefix="ttrace-gpu-") as folder:
            return _tried(store, architecture, Path(folder), args.device)

    with ThreadPoolExecutor(args.at_once) as pool:
        records = [r for some in pool.map(one, args.only or ARCHITECTURES) for r in some]
    return _told(records)


def _told(records: list[Record]) -> int:
    for architecture, why in NOT_COMPARED.items():
        print(f"{architecture} was not compared: {why}")
    lost = [r for r in records if "exit_code" not in r]
    faulty = [r for r in records if r["name"].startswith("faulty")]
    healthy = [r for r in records if r not in faulty]
    accused = [r for r in healthy if 1 in (r.get("exit_code"), r.get("compare"))]
    passed = [r for r in faulty if r.get("exit_code", 1) != 1]
    print(
        f"{len(healthy)} healthy runs: {len(accused)} accused;"
        f" {len(faulty)} faults: {len(passed)} passed; {len(lost)} runs not recorded"
    )
    return 1 if accused or passed else 3 if lost or not healthy else 0


def _tried(store: Store, architecture: str, folder: Path, device: str) -> list[Record]:
    kind, task = architecture.split("/")
    (folder / "cpu").mkdir()
    on_cpu = folder / "cpu"
    references = {run: _run(kind, task, run, on_cpu, "cpu") for run in ("healthy", "autocast")}
    records = []
    for run in RUNS:
        record = {"name": f"{run}/{architecture}", **_run(kind, task, run, folder, device)}
        trace = folder / f"{run}.h5"
        if trace.exists():
            own = folder / f"{run}.spec"
            record.update(audited(trace, own if own.exists() else folder / "healthy.spec"))
            of = "autocast" if run == "autocast" else "healthy"
            compares = run != "faulty" and architecture not in NOT_COMPARED
            if compares and references[of]["state"] == "ran":
                runs = on_cpu / f"{of}.h5", trace
                record["compare"] = _compared(*runs)
                if record["compare"] == 1:
                    record["explained"] = run_ttrace("compare", *runs, "--explain", "1").stdout
        records.append(record)
        store.add(record["name"], **{k: v for k, v in record.items() if k != "name"})
        print(_line(record), flush=True)
    return records


def _run(kind: str, task: str, run: str, folder: Path, device: str) -> Record:
    process = _PROCESSES.Process(target=train.child, args=(kind, task, run, folder, None, device))
    process.start()
    process.join(SECONDS)
    if process.exitcode is None:
        process.kill()
        process.join()
        return {"state": "too slow"}
    facts, log = folder / f"{run}.json", folder / f"{run}.log"
    told: Record = json.loads(facts.read_text()) if facts.exists() else {"state": "died"}
    if log.exists():
        told["log"] = log.read_text(errors="replace")[-600:]
    return told


def _compared(reference: Path, candidate: Path) -> int | None:
    """The exit code; None for a comparison that was too slow."""
    try:
        return run_ttrace("compare", reference, candidate, timeout=SECONDS).returncode
    except subprocess.TimeoutExpired:
        return None


def _line(record: dict[str, Any]) -> str:
    name = record["name"]
    if "exit_code" not in record:
        return f"{name}: {record['state']}: {record.get('why', '')} {record.get('log', '')}"
    coverage = record["coverage"]
    return (
        f"{name}: audit {record['exit_code']}, {coverage['judged']} of {coverage['tensors']},"
        f" worst {(record['worst'] or {}).get('share', 0):.2f}, {record['findings'][:1]}"
        f" {record['causes'][:1]} {str(coverage['not_judged'])[:200]}; compare"
        f" {record.get('compare', '-')} {record.get('explained', '')}"
    )


if __name__ == "__main__":
    sys.exit(main())
