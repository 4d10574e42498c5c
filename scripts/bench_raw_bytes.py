"""The elements of all datasets of a file as they are stored, uncompressed, to standard output."""

from __future__ import annotations

import sys

import h5py
import numpy as np


def main() -> None:
    with h5py.File(sys.argv[1]) as file:
        names: list[str] = []
        file.visititems(
            lambda name, item: names.append(name) if getattr(item, "shape", ()) else None
        )
        for name in names:
            dataset = file[name]
            for start in range(0, dataset.shape[0], 1024):
                sys.stdout.buffer.write(np.ascontiguousarray(dataset[start : start + 1024]).data)


if __name__ == "__main__":
    main()
