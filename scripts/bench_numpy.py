"""What `ttrace compare` computes of two files, slab by slab in numpy, as a peer."""

from __future__ import annotations

import sys

import h5py
import numpy as np

SLAB = 1 << 20


def numbers(stored: np.ndarray, bfloat16: bool) -> np.ndarray:
    if bfloat16:
        return (stored.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return stored.astype(np.float64)


def slabs(dataset: h5py.Dataset, bfloat16: bool) -> np.ndarray:
    rows = max(1, SLAB // max(1, dataset[0].size)) if dataset.shape else 1
    for start in range(0, dataset.shape[0], rows):
        stop = min(start + rows, dataset.shape[0])
        if bfloat16:
            stored = np.empty((stop - start, *dataset.shape[1:]), np.uint16)
            space = dataset.id.get_space()
            space.select_hyperslab((start, *[0] * (dataset.ndim - 1)), stored.shape)
            memory = h5py.h5s.create_simple(stored.shape)
            dataset.id.read(memory, space, stored, mtype=dataset.id.get_type())
            yield stored
        else:
            yield dataset[start:stop]


def compare(reference: h5py.Dataset, candidate: h5py.Dataset) -> np.ndarray:
    bfloat16 = reference.attrs["ttrace_dtype"] in ("bfloat16", b"bfloat16")
    sums = np.zeros(5)
    largest, unequal, nonfinite = 0.0, 0, 0
    for stored_r, stored_c in zip(
        slabs(reference, bfloat16), slabs(candidate, bfloat16), strict=True
    ):
        r, c = numbers(stored_r, bfloat16).ravel(), numbers(stored_c, bfloat16).ravel()
        d = c - r
        sums += [np.dot(d, d), d.sum(), np.dot(r, r), np.dot(c, c), np.dot(r, c)]
        largest = max(largest, float(np.abs(d).max(initial=0)))
        unequal += int(np.count_nonzero(d))
        nonfinite += d.size - int(np.count_nonzero(np.isfinite(d)))
    return np.array([*sums, largest, unequal, nonfinite])


def main() -> None:
    with h5py.File(sys.argv[1]) as reference, h5py.File(sys.argv[2]) as candidate:
        names: list[str] = []
        reference.visititems(
            lambda name, item: names.append(name) if getattr(item, "shape", ()) else None
        )
        for name in names:
            if name not in ("manifest", "ranges"):
                print(name, compare(reference[name], candidate[name]))


if __name__ == "__main__":
    main()
