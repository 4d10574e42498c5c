"""Synthetic traces: manifests, which `ttrace_synth` (tests/tools/synth) fills with numbers.

A number depends only on the seed, the tensor's key and the element's place in the whole tensor, so
traces of the same tensors agree in every layout.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.ttrace_cli import REPOSITORY

Entry = dict[str, Any]
OF_SHARDS = ("mesh", "held_at", "placements", "scale")


def synth_binary() -> Path:
    """$TTRACE_SYNTH, or what is built beside the tool under test, or in build/."""
    program = Path(os.environ.get("TTRACE") or REPOSITORY / "build" / "ttrace").absolute()
    beside = program.parent / "tests" / "ttrace_synth"
    built = REPOSITORY / "build" / "tests" / "ttrace_synth"
    path = Path(os.environ.get("TTRACE_SYNTH") or (beside if beside.exists() else built))
    if not os.access(path, os.X_OK):
        raise FileNotFoundError(
            f"{path} is not an executable: build the target ttrace_synth with TTRACE_BUILD_TESTS,"
            " or name another in TTRACE_SYNTH"
        )
    return path.absolute()


def tensors(
    count: int,
    shape: Sequence[int],
    *,
    name: str = "tensor.{i}",
    kind: str = "output",
    dtype: str = "float32",
    **more: Any,
) -> list[Entry]:
    """Entries of a manifest that differ in their numbers alone. more: placements, for one."""
    like = {"kind": kind, "step": 0, "dtype": dtype, "shape": list(shape), **more}
    return [{"name": name.replace("{i}", str(i)), **like} for i in range(count)]


def adamw_step(params: list[Entry]) -> dict[str, Any]:
    """What a trace has of one step of AdamW on these parameters: members of a manifest."""
    numbers = {"lr": 1e-3, "eps": 1e-8, "weight_decay": 0.01, "updates": 10}
    group = {"type": "adamw", **numbers, "betas": [0.9, 0.999], "amsgrad": False, "maximize": False}
    made = []
    for kind, state in (
        ("optimizer_state", ".exp_avg"),
        ("optimizer_state", ".exp_avg_sq"),
        ("param", ""),
        ("main_grad", ""),
        ("param_after_step", ""),
    ):
        made += [{**entry, "kind": kind, "name": entry["name"] + state} for entry in params]
    names = [entry["name"] for entry in params]
    return {"tensors": made, "optimizer": [{"step": 0, **group, "params": names}]}


def synth(
    out: Path,
    manifest: list[Entry] | dict[str, Any],
    *flags: str,
    mesh: Mapping[str, int] | None = None,
    faults: Sequence[str] = (),
) -> Path:
    """Makes the trace of the tensors, or of the members of a manifest. Returns its path.

    Where `out` ends in ".h5" it is one file with whole tensors, the reference; else a folder.
    flags: of ttrace_synth, as in "--noise", "1". mesh: sizes by axis, in the place of the
    manifest's. faults: planted afterwards, see `planted_faults.plant`.
    """
    made = {"tensors": manifest} if isinstance(manifest, list) else dict(manifest)
    if mesh is not None:
        axes = [{"name": name, "size": size} for name, size in mesh.items()]
        made["meshes"] = {"": {"axes": axes}}
    entries = made["tensors"]
    if out.suffix == ".h5":
        made["meshes"] = {}
        entries = [{k: v for k, v in one.items() if k not in OF_SHARDS} for one in entries]
    made["meshes"] = {"": {"axes": []}, **made.get("meshes", {})}
    made["tensors"] = [{"step": 0, "order": i, **entry} for i, entry in enumerate(entries)]
    text = json.dumps({"schema": "ttrace.manifest/2", **made})
    subprocess.run([synth_binary(), out, *flags], input=text.encode(), check=True)
    for fault in faults:
        from support.planted_faults import plant  # numpy: benchmarks have none in their memory

        plant(out, fault)
    return out
