"""`python -m ttrace_torch.union FOLDER` writes the manifest of a folder of rank files.

For runs whose last rank died after the others had finished, and for files gathered from several
hosts. No module of the package imports this one, so that it can be run.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ttrace_torch.errors import TraceError
from ttrace_torch.write.merge import merge_manifests, write_manifest

__all__ = ["main", "merge_manifests", "write_manifest"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes FOLDER/manifest.json and prints its path. Returns 0, or 2 after an error."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) != 1 or given[0].startswith("-"):
        print("usage: python -m ttrace_torch.union FOLDER", file=sys.stderr)
        return 2
    try:
        print(write_manifest(given[0]))
    except TraceError as error:
        print(f"ttrace_torch.union: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
