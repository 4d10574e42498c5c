"""`python -m ttrace_torch.union FOLDER` writes the manifest of a folder of rank files.

For runs whose last rank died after the others had finished, and for files gathered from several
hosts. `--parts DIR FOLDER` writes the parts that the rank files hold to files of their own: where
each machine has those of its own ranks alone, DIR is a folder that all see, and `union DIR` then
makes them one. No module of the package imports this one, so that it can be run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ttrace_torch.errors import TraceError
from ttrace_torch.write.merge import merge_manifests, write_manifest, write_parts

__all__ = ["main", "merge_manifests", "write_manifest"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes FOLDER/manifest.json, or the parts, and prints the paths. Returns 0, or 2 after an
    error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    parts = given[1] if len(given) == 3 and given[0] == "--parts" else None
    if (parts is None and len(given) != 1) or given[-1].startswith("-"):
        print("usage: python -m ttrace_torch.union [--parts DIR] FOLDER", file=sys.stderr)
        return 2
    try:
        written = [write_manifest(given[0])] if parts is None else write_parts(given[-1], parts)
    except TraceError as error:
        print(f"ttrace_torch.union: {error}", file=sys.stderr)
        return 2
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
