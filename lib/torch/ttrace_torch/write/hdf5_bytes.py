"""The few structures of HDF5 that a rank's file has, as bytes.

Names and numbers are those of the format's specification: a superblock of version 0, groups with a
table of symbols, object headers and trees of version 1. All releases of HDF5 read these.

`append` puts bytes at the end of the file and returns their address.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Callable

from ttrace_torch.base import dtypes

Append = Callable[[bytes], int]

SUPERBLOCK_BYTES = 96
_UNDEFINED = (1 << 64) - 1
# How many symbols a node of a group's table has at most, and how many children a node of the tree
# above them, or above the chunks of a dataset.
_SYMBOLS, _TABLES, _CHUNKS = 8, 32, 64
_SMALLEST_HEAP = 4096
# Floating-point type -> bits of the exponent and of the mantissa, bias.
_FLOATS = {
    "float64": (11, 52, 1023),
    "float32": (8, 23, 127),
    "float16": (5, 10, 15),
    "bfloat16": (8, 7, 127),
    "float8_e4m3fn": (4, 3, 7),
    "float8_e5m2": (5, 2, 15),
}
# Characters in UTF-8, as many as there are.
VARIABLE_TEXT = bytes.fromhex("19010100 10000000 10000000 01000000 00000800")


def superblock(root: int, end: int) -> bytes:
    """The first bytes of a file of `end` bytes, whose root group is at `root`."""
    head = b"\x89HDF\r\n\x1a\n" + bytes([0, 0, 0, 0, 0, 8, 8, 0])
    sizes = struct.pack("<HHI", _SYMBOLS // 2, _TABLES // 2, 0)
    return head + sizes + struct.pack("<QQQQ", 0, _UNDEFINED, end, _UNDEFINED) + _symbol(0, root)


def element_type(name: str) -> bytes:
    """The dtype called `name`."""
    if name == "bool":
        values = b"FALSE\0\0\0TRUE\0\0\0\0\0\1"
        return struct.pack("<BHxI", 0x18, 2, 1) + element_type("int8") + values
    size = dtypes.BY_NAME[name].bits.itemsize
    if name not in _FLOATS:
        signed = 0 if name.startswith("u") else 8
        return struct.pack("<BBxxIHH", 0x10, signed, size, 0, 8 * size)
    exponent, mantissa, bias = _FLOATS[name]
    fields = (0, 8 * size, mantissa, exponent, 0, mantissa, bias)
    return struct.pack("<BBBxIHHBBBBI", 0x11, 0x20, 8 * size - 1, size, *fields)


def contiguous(address: int, size: int) -> bytes:
    """The layout of a dataset whose elements stand together."""
    return struct.pack("<BBQQ", 3, 1, address, size)


def chunked(address: int, chunk: Sequence[int], item: int) -> bytes:
    """The layout of a dataset in chunks, whose tree is at `address`. item: bytes of an element."""
    count = len(chunk) + 1
    return struct.pack(f"<BBBQ{count}I", 3, 2, count, address, *chunk, item)


def shuffled_and_deflated(level: int, item: int) -> bytes:
    """The message about what a dataset's chunks went through."""
    shuffle = struct.pack("<HHHH8sII", 2, 8, 1, 1, b"shuffle", item, 0)
    deflate = struct.pack("<HHHH8sII", 1, 8, 1, 1, b"deflate", level, 0)
    return _message(0x0B, struct.pack("<BB6x", 1, 2) + shuffle + deflate)


def attribute(name: bytes, value: bytes | int) -> bytes:
    """The message about an attribute: ASCII characters, or an integer."""
    kind = struct.pack("<BBxxI", 0x13, 1, len(value)) if isinstance(value, bytes) else b""
    data = value if isinstance(value, bytes) else struct.pack("<q", value)
    kind = _padded(kind or element_type("int64"))
    sizes = struct.pack("<BxHHH", 1, len(name) + 1, len(kind), 8)
    return _message(0x0C, sizes + _padded(name + b"\0") + kind + _space(()) + data)


def dataset(kind: bytes, shape: Sequence[int], layout: bytes, *more: bytes) -> bytes:
    """The header of a dataset. kind: type of the elements. more: further messages."""
    late = struct.pack("<BBBBI", 2, 2, 2, 1, 0)  # when space is allotted: never before elements are
    own = ((1, _space(shape)), (3, kind), (5, late), (8, layout))
    return _header(*(_message(number, data) for number, data in own), *more)


def put_text(append: Append, text: bytes) -> int:
    """Puts a scalar dataset of characters. Returns the address of its header."""
    body = struct.pack("<HHIQ", 1, 1, 0, len(text)) + _padded(text)
    size = max(_SMALLEST_HEAP, 16 + len(body))
    free = size - 16 - len(body)
    body += struct.pack("<HHIQ", 0, 0, 0, free) if free >= 16 else b""
    heap = append((b"GCOL" + struct.pack("<B3xQ", 1, size) + body).ljust(size, b"\0"))
    reference = struct.pack("<IQI", len(text), heap, 1)
    return append(dataset(VARIABLE_TEXT, (), contiguous(append(reference), len(reference))))


def put_group(append: Append, members: Mapping[bytes, int], *messages: bytes) -> int:
    """Puts a group of at least one member. Returns the address of its header.

    members: name -> address of the header.
    """
    names = sorted(members)
    text, places = bytearray(8), []
    for name in names:
        places.append(len(text))
        text += _padded(name + b"\0")
    heap = append(struct.pack("<4sB3xQQQ", b"HEAP", 0, len(text), 1, append(bytes(text))))
    symbols = [_symbol(place, members[name]) for place, name in zip(places, names)]
    tables, before = [], 0
    for first in range(0, len(symbols), _SYMBOLS):
        part = symbols[first : first + _SYMBOLS]
        table = b"SNOD" + struct.pack("<BxH", 1, len(part)) + b"".join(part)
        address = append(table.ljust(8 + _SYMBOLS * len(part[0]), b"\0"))
        tables.append((struct.pack("<Q", before), address))
        before = places[first + len(part) - 1]
    tree = _put_tree(append, 0, _TABLES, tables, struct.pack("<Q", before))
    return append(_header(_message(0x11, struct.pack("<QQ", tree, heap)), *messages))


def put_chunk_tree(
    append: Append, chunks: Sequence[tuple[tuple[int, ...], int, int]], end: tuple[int, ...]
) -> int:
    """Puts the tree above the chunks of a dataset, and returns its address.

    chunks: of each the offset of its elements, its size and its address, in the order of offsets.
    end: an offset behind all of them.
    """
    key = struct.Struct(f"<II{len(end) + 1}Q")
    children = [(key.pack(size, 0, *offset, 0), address) for offset, size, address in chunks]
    return _put_tree(append, 1, _CHUNKS, children, key.pack(0, 0, *end, 0))


def _put_tree(
    append: Append, kind: int, width: int, children: Sequence[tuple[bytes, int]], last: bytes
) -> int:
    """Puts nodes of at most `width` children. Returns the address of the node above all.

    children: each with the key to its left. last: the key to the right of all.
    """
    level = 0
    size = 24 + 8 * width + (width + 1) * len(last)
    while True:
        base = append(b"")
        nodes: list[bytes] = []
        above = []
        for first in range(0, len(children), width):
            part = children[first : first + width]
            at, end = base + len(nodes) * size, first + width >= len(children)
            beside = (at - size if first else _UNDEFINED, _UNDEFINED if end else at + size)
            node = b"TREE" + struct.pack("<BBHQQ", kind, level, len(part), *beside)
            node += b"".join(key + struct.pack("<Q", address) for key, address in part)
            node += last if end else children[first + width][0]
            nodes.append(node.ljust(size, b"\0"))
            above.append((part[0][0], at))
        append(b"".join(nodes))
        if len(above) == 1:
            return base
        level, children = level + 1, above


def _symbol(name: int, header: int) -> bytes:
    return struct.pack("<QQ24x", name, header)


def _space(shape: Sequence[int]) -> bytes:
    return struct.pack(f"<BB6x{len(shape)}Q", 1, len(shape), *shape)


def _header(*messages: bytes) -> bytes:
    body = b"".join(messages)
    return struct.pack("<BxHII4x", 1, len(messages), 1, len(body)) + body


def _message(number: int, data: bytes) -> bytes:
    data = _padded(data)
    return struct.pack("<HHB3x", number, len(data), 0) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
