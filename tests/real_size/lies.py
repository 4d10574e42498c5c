"""What `ttrace audit` says where a healthy trace of real size is edited, and of two bugs at once.

python -m real_size.lies RAW.jsonl [--tiny]      as scripts/real_size.sh, which explains RAW.jsonl
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import agreement
import h5py
import numpy as np
from power.editing import Entry, bfloat16, dataset_of, files_of, manifest_of
from power.store import Record, Store
from power.training import PATH, trace_path

from real_size.audited import audited
from real_size.cases import CASES, SPECIFICATION

HERE = Path(__file__).parent
(CASE,) = [case for case in CASES if case.name == "llama-tp-fsdp2-bf16"]
TWO_BUGS = ("not_reduced", "divided_by_all")


def _scaled_row(value: np.ndarray) -> None:
    value[:, 77] *= 1.05


def _scaled(value: np.ndarray) -> None:
    value *= 1.01


def _zeroed_row(value: np.ndarray) -> None:
    value[:, 33] = 0


def _one_element(value: np.ndarray) -> None:
    value[0, 50, 10] += 20 * np.sqrt(np.mean(np.square(value)))


@dataclass(frozen=True)
class Lie:
    """One tensor that is not what the run computed.

    layer: the tensor's name behind that of the layer in the middle. row: what the report names.
    """

    says: str
    kind: str
    layer: str
    microbatch: int
    edit: Callable[[np.ndarray], None]
    row: str
    on_one_rank: bool = False

    def name(self, middle: int) -> str:
        return f"model.layers.{middle}.{self.layer}"


LIES = (
    Lie("a token's input × 1.05", "input", "mlp.down_proj", 0, _scaled_row, "77"),
    Lie("a weight gradient × 1.01", "param_grad", "mlp.up_proj.weight", 0, _scaled, ""),
    Lie("a token's row zeroed", "output", "mlp.gate_proj", 1, _zeroed_row, "33"),
    Lie("one element off by 20 rms", "output", "self_attn.q_proj", 0, _one_element, "50", True),
)


def study(store: Store, folder: Path, tiny: bool) -> None:
    trainings = CASE.trainings(tiny)
    ranks, run = trainings["healthy"]
    both = {**run, "fault": "+".join(TWO_BUGS)}
    _train(1, {"reference": trainings["reference"][1]}, folder)
    _train(ranks, {"both": both}, folder)
    trace = trace_path(folder, "both")
    patterns = [case.bug.first for case in CASES if case.bug.name in TWO_BUGS]
    names = tuple(pattern for one in patterns for pattern in one)
    said = audited(trace, folder / SPECIFICATION, names, folder / "both.audit.json")
    store.add("lies/two bugs", says=" and ".join(TWO_BUGS), **said)
    shutil.rmtree(trace)
    _train(ranks, {"healthy": run}, folder)
    trace = trace_path(folder, "healthy")
    for lie in LIES:
        store.add(f"lies/{lie.says}", **_told(lie, trace, folder, 1 if tiny else 6))


def _train(ranks: int, cases: dict[str, Record], folder: Path) -> None:
    agreement.train(sys.executable, HERE / "train.py", ranks, cases, folder, PATH)


def _told(lie: Lie, trace: Path, folder: Path, middle: int) -> Record:
    """The audit of the trace with that lie in it, which is taken back."""
    name = lie.name(middle)
    kept = _edited(lie, name, trace)
    pattern = f"{lie.kind} {name}"
    try:
        said = audited(trace, folder / SPECIFICATION, (pattern,), folder / "lie.audit.json")
    finally:
        for path, dataset, value in kept:
            with h5py.File(path, "r+") as file:
                file[dataset][...] = value
    return {"says": lie.says, "row": lie.row, "tensor": pattern, **said}


def _edited(lie: Lie, name: str, trace: Path) -> list[tuple[Path, str, np.ndarray]]:
    """Edits the tensor in the files of the ranks that hold it; what they held before."""
    entry = _entry(trace, lie, name)
    dataset = dataset_of(entry)
    kept = []
    for path in files_of(trace):
        with h5py.File(path, "r+") as file:
            if dataset not in file or (lie.on_one_rank and kept):
                continue
            before = np.asarray(file[dataset][()])
            value = before.astype(np.float64)
            lie.edit(value)
            file[dataset][...] = bfloat16(value)
            kept.append((path, dataset, before))
    assert kept, f"no rank has {dataset}"
    return kept


def _entry(trace: Path, lie: Lie, name: str) -> Entry:
    wanted = (lie.kind, name, lie.microbatch)
    (found,) = [
        entry
        for entry in manifest_of(trace)["tensors"]
        if (entry["kind"], entry["name"], entry.get("microbatch")) == wanted
    ]
    assert found["dtype"] == "bfloat16"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("raw", type=Path)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--build", default="")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = Store(given.raw, given.build)
        study(store, Path(folder), given.tiny)
    for name, record in store.records.items():
        if name.startswith("lies/"):
            print(f"{name}: {record['answer']}\n  {record['rows']}")


if __name__ == "__main__":
    main()
