"""What a trace is: a reference, a noise run, a rewritten run or a candidate, and on which mesh."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.write.hdf5 import read_manifest


@dataclass(frozen=True)
class TraceKind:
    """The kind of a trace. One trace takes the place of another of the same kind alone.

    noise: the seed of a noise run. plan: the digest of a rewritten run's plan.
    model: the class of the model; None if it is not known.
    """

    mesh: Mesh
    noise: int | None = None
    plan: str | None = None
    model: str | None = None

    def is_that_of(self, other: TraceKind) -> bool:
        """Whether both are the same kind. Axes of one coordinate and unknown models are ignored."""
        models = {self.model, other.model} - {None}
        return (
            _without_single(self.mesh) == _without_single(other.mesh)
            and (self.noise, self.plan) == (other.noise, other.plan)
            and len(models) <= 1
        )

    def __str__(self) -> str:
        """In words, as in "a noise run of seed 7 of GPT on dp 2, tp 4"."""
        axes = _without_single(self.mesh).axes
        if self.noise is not None:
            text = f"a noise run of seed {self.noise}"
        elif self.plan is not None:
            text = f"a rewritten run of plan {self.plan[:8]}"
        else:
            text = "a candidate" if axes else "a reference"
        text += f" of {self.model}" if self.model else ""
        return text + (" on " if axes else "") + ", ".join(f"{a} {n}" for a, n in axes.items())


def kind_of(manifest: Mapping[str, Any]) -> TraceKind | None:
    """The kind of a trace by its manifest, or by a rank's part of it; None if that is no manifest.

    A rank that perturbs nothing does not know that its run is a noise run.
    """
    try:
        run = manifest.get("run", {})
        noise, plan = run.get("noise"), run.get("plan")
        return TraceKind(
            Mesh.from_json(manifest["meshes"][""]),
            None if noise is None else int(noise["seed"]),
            None if plan is None else str(plan["digest"]),
            run.get("model"),
        )
    except Exception:  # any file may have the name of a trace
        return None


def manifest_in(path: Path) -> Mapping[str, Any]:
    """The manifest that a rank file embeds or a JSON file is; empty if it cannot be read."""
    try:
        text = read_manifest(path) if path.suffix == ".h5" else path.read_text(encoding="utf-8")
        found = json.loads(text)
    except Exception:  # any file may have the name of a trace
        return {}
    return found if isinstance(found, Mapping) else {}


def _without_single(mesh: Mesh) -> Mesh:
    """`mesh` without its axes of one coordinate."""
    return Mesh([(axis, size) for axis, size in mesh.axes.items() if size > 1], mesh.ranks)
