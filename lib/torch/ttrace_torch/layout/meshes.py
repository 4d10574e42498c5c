"""All meshes of a run: the default one, those that the user names, and those of DTensors."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from ttrace_torch.errors import TraceError
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.placements import OnMesh, Placements, Skip, mesh_name_of
from ttrace_torch.layout.shapes import check_axes


class Meshes:
    """Name -> mesh. The default mesh has the name ""."""

    def __init__(self, default: Mesh, named: Mapping[str, Mesh] | None = None) -> None:
        if "" in (named or {}):
            raise TraceError('meshes={"": ...}: the default mesh is given as trace(mesh=...)')
        self._named: dict[str, Mesh] = {"": default, **(named or {})}
        self._own: dict[str, Mesh] = {}

    @property
    def default(self) -> Mesh:
        """The mesh of placements that name no other."""
        return self._named[""]

    @property
    def named(self) -> dict[str, Mesh]:
        """The user's meshes, the default one first."""
        return dict(self._named)

    @property
    def ranks(self) -> list[int]:
        """The ranks of the run: those of the user's meshes."""
        return sorted({rank for mesh in self._named.values() for rank in mesh.ranks})

    def of(self, placements: Placements, what: str) -> tuple[str, Mesh]:
        """Name and mesh of placements. Throws TraceError if it does not exist or lacks one of
        their axes."""
        name = mesh_name_of(placements)
        if name not in self._named:
            raise TraceError(
                f'{what}: there is no mesh "{name}"; name it in trace(meshes={{"{name}": '
                "Mesh({...})})"
            )
        check_axes(placements, self._named[name], what)
        return name, self._named[name]

    def known(self, placements: Placements) -> Placements:
        """`placements` without the axes that this run's mesh lacks, which are no-ops: the reference
        runs the same script on one process."""
        mesh = self._named.get(mesh_name_of(placements))
        if (
            isinstance(placements, Skip)
            or mesh is None
            or all(axis in mesh.axes for axis in placements)
        ):
            return placements
        kept = {axis: one for axis, one in placements.items() if axis in mesh.axes}
        return OnMesh(placements.mesh, kept) if isinstance(placements, OnMesh) else kept

    def add(self, mesh: Mesh, first: str = "") -> str:
        """Adds a mesh, unless a user's mesh equals it, and returns its name, equal on all ranks.

        first: the user's mesh to prefer if several are equal.
        """
        for name in [first, *self._named]:
            if self._named[name] == mesh:
                return name
        name = ",".join(f"{axis}={size}" for axis, size in mesh.axes.items())
        if not mesh.row_major:
            name += f"@{zlib.crc32(repr(mesh.ranks).encode()):08x}"
        self._own[name] = mesh
        return name

    def to_json(self) -> dict[str, Any]:
        """The manifest's `meshes`."""
        own = sorted(self._own.items())
        return {name: mesh.to_json() for name, mesh in [*self._named.items(), *own]}
