"""The generator of consistent tensors, against published vectors and a reading of its definition.

`Definition` follows schemas/consistent-v1.md with Python's integers and floats and takes the table
from that page; the vectors are those that tests/tools/synth is tested with.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from ttrace_torch.init.normal import QUANTILES, UNIT, normal, normal_units, uniform
from ttrace_torch.init.philox import fnv1a, noise_key, philox4x32, plan_key, tensor_key, words_at

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "schemas" / "consistent-v1.md").read_text()
VECTORS = (REPOSITORY / "tests" / "tools" / "synth" / "vectors.txt").read_text().splitlines()
TABLE = [int(number) for number in re.findall(r"\d+", PAGE.partition("## The table T")[2])]


def vectors(kind):
    found = [line.split()[1:] for line in VECTORS if line.startswith(kind + " ")]
    assert len(found) >= 3
    return found


def words(key, first, count):
    """Words first ... first + count - 1 of a stream, uint32."""
    blocks = np.arange(first // 4, (first + count + 3) // 4, dtype=np.uint64)
    return words_at(key, blocks).reshape(-1)[first % 4 :][:count]


class Definition:
    """The page, word by word."""

    @staticmethod
    def philox(counter, key):
        c0, c1, c2, c3 = counter
        k0, k1 = key
        for _ in range(10):
            p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
            c0, c1, c2, c3 = p1 >> 32 ^ c1 ^ k0, p1 % 2**32, p0 >> 32 ^ c3 ^ k1, p0 % 2**32
            k0, k1 = (k0 + 0x9E3779B9) % 2**32, (k1 + 0xBB67AE85) % 2**32
        return [c0, c1, c2, c3]

    @staticmethod
    def word(key, i):
        counter = [i // 4 % 2**32, i // 4 // 2**32, 0, 0]
        return Definition.philox(counter, [key % 2**32, key // 2**32])[i % 4]

    @staticmethod
    def n(w):
        v = 2 * (w % 2**31) + 1
        e = v.bit_length() - 1
        m = v * 2 ** (31 - e)
        j, f = 8 * e + m // 2**28 % 8, m % 2**28
        n = TABLE[j] - (TABLE[j] - TABLE[j + 1]) * f // 2**28
        return -n if w // 2**31 else n

    @staticmethod
    def value(w, mean, std):
        return struct.unpack("<f", struct.pack("<f", mean + std * (Definition.n(w) * 2.0**-28)))[0]


@pytest.mark.parametrize("line", vectors("philox"), ids=lambda line: line[0])
def test_philox_gives_the_words_that_random123_publishes(line):
    numbers = [int(text, 16) for text in line]
    counter = tuple(np.array([number], np.uint64) for number in numbers[:4])
    key = numbers[4] | numbers[5] << 32
    assert philox4x32(counter, key).tolist() == [numbers[6:]]
    assert Definition.philox(numbers[:4], numbers[4:6]) == numbers[6:]


def test_fnv_gives_the_hashes_that_its_authors_publish():
    assert fnv1a(b"") == 0xCBF29CE484222325
    assert fnv1a(b"a") == 0xAF63DC4C8601EC8C
    assert fnv1a(b"foobar") == 0x85944171F73967E8


def test_keys_are_those_of_the_vectors():
    for seed, name, key in vectors("tensor"):
        assert tensor_key(int(seed), name) == int(key, 16)
        assert fnv1a(f"tensor\0{seed}\0{name}".encode()) == int(key, 16)
    for *parts, key in vectors("noise"):
        assert noise_key(*parts) == int(key, 16)
    for *parts, key in vectors("plan"):
        assert plan_key(*parts) == int(key, 16)
        assert fnv1a("\0".join(["plan", *parts]).encode()) == int(key, 16)


def test_single_values_are_those_of_the_vectors():
    for key, index, bits in vectors("uniform"):
        value = uniform(words(int(key, 16), int(index), 1))
        assert value.view(np.uint32)[0] == int(bits, 16)
    for key, mean, std, index, bits in vectors("normal"):
        value = normal(words(int(key, 16), int(index), 1), float(mean), float(std))
        assert value.view(np.uint32)[0] == int(bits, 16)


def test_long_stretches_are_those_of_the_vectors():
    for kind, key, mean, std, first, count, digest in vectors("sum"):
        some = words(int(key, 16), int(first), int(count))
        values = uniform(some) if kind == "uniform" else normal(some, float(mean), float(std))
        assert fnv1a(values.tobytes()) == int(digest, 16)


def test_words_and_values_are_those_of_the_definition():
    key = tensor_key(5, "some.weight")
    for first in (0, 3, 2**34 - 5, 2**63 - 1, 2**64 - 200):
        some = words(key, first, 100)
        expected = [Definition.word(key, first + i) for i in range(100)]
        assert some.tolist() == expected
        found = normal(some, 1.0, 0.02)
        assert found.tolist() == [Definition.value(word, 1.0, 0.02) for word in expected]
        assert uniform(some).tolist() == [(word // 256) * 2.0**-23 - 1 for word in expected]


def test_the_words_at_every_entry_of_the_table_are_those_of_the_definition():
    edges = [2**e * (8 + k) // 8 for e in range(31) for k in range(8)]
    tails = sorted({t + d for t in edges for d in (-1, 0, 1) if 0 <= t + d < 2**31} | {0})
    some = [tail | sign for tail in tails for sign in (0, 2**31)]
    assert normal_units(np.array(some, np.uint32)).tolist() == [Definition.n(w) for w in some]


def test_the_table_holds_the_quantiles_that_the_page_says_it_holds():
    assert tuple(TABLE) == QUANTILES and len(QUANTILES) == 257
    for j, quantile in enumerate(QUANTILES[:256]):
        exact = -NormalDist().inv_cdf(2.0 ** (j // 8 - 33) * (1 + j % 8 / 8)) * 2**28
        assert abs(quantile - exact) < 0.5
    assert QUANTILES[256] == 0


def test_the_distribution_function_is_that_of_the_normal_distribution():
    # Between the entries the numbers lie evenly, so that is where they are off, if anywhere.
    worst = 0.0
    for j in range(256):
        tails = [2.0 ** (i // 8 - 33) * (1 + i % 8 / 8) for i in (j, j + 1)]
        for part in np.linspace(0, 1, 17):
            x = (QUANTILES[j] + (QUANTILES[j + 1] - QUANTILES[j]) * part) * UNIT
            tail = tails[0] + (tails[1] - tails[0]) * part
            worst = max(worst, abs(NormalDist().cdf(-x) - tail))
    assert 1e-5 < worst < 3e-4


def test_moments_are_those_of_the_distributions():
    some = words(tensor_key(1, "moments"), 0, 1_000_000)
    n = normal_units(some) * UNIT
    scale = 1 / np.sqrt(n.size)
    assert abs(n.mean()) < 4 * scale
    assert abs((n**2).mean() - 1) < 4 * np.sqrt(2) * scale + 1e-3
    assert abs((n**3).mean()) < 4 * np.sqrt(15) * scale
    assert abs((n**4).mean() - 3) < 4 * np.sqrt(96) * scale + 6e-3
    assert abs(np.corrcoef(n[:-1], n[1:])[0, 1]) < 4 * scale
    u = uniform(some).astype(np.float64)
    assert u.min() >= -1 and u.max() < 1
    assert abs(u.mean()) < 4 * scale * np.sqrt(1 / 3) and abs((u**2).mean() - 1 / 3) < 1e-3


def test_streams_of_other_names_and_seeds_are_unrelated():
    keys = [tensor_key(0, "layers.0.weight"), tensor_key(0, "layers.1.weight")]
    keys += [tensor_key(1, "layers.0.weight"), noise_key(0, 0, 0, 0, "layers.0.weight")]
    values = [normal_units(words(key, 0, 40_000)) * UNIT for key in keys]
    related = np.corrcoef(values) - np.eye(len(keys))
    assert np.abs(related).max() < 4 / np.sqrt(40_000)
