#!/usr/bin/env python3
"""Checks what a build in batches hides from the compiler.

In a batch several sources of a room are compiled as one. A source then compiles with the includes
of another one, and equal file-local names collide. Here

* every source and header includes what declares the names that it uses, `std::name` and
  `room::name`, directly or over headers of the project;
* every file-local name of a room stands in one source only, and in none of the room's headers;
* no source takes a name of another room by `using` that its own room has too.

Exits 1 with one line per violation. check_headers.py compiles every header alone.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from check_layers import ADAPTERS, INCLUDE, ORDER
from checking import run

ROOMS = [room for room in ORDER if room not in ADAPTERS]
# Header of the standard library -> the names that it is included for.
STANDARD = """
algorithm: all_of any_of binary_search clamp copy copy_n count count_if equal equal_range fill
  fill_n find find_if find_if_not for_each is_sorted lower_bound max max_element min min_element
  minmax_element none_of nth_element partial_sort partition remove remove_if replace reverse
  rotate search set_difference set_intersection sort stable_partition stable_sort transform unique
  upper_bound
array: array to_array
atomic: atomic atomic_bool atomic_flag memory_order_relaxed memory_order_acquire
  memory_order_release
bit: bit_cast bit_ceil bit_floor bit_width countl_zero countr_zero endian has_single_bit popcount
charconv: chars_format from_chars to_chars
chrono: chrono
cmath: abs ceil copysign cos erf erfc exp exp2 fabs floor fma fmod frexp hypot isfinite isinf
  isnan ldexp llround log log1p log2 log10 nextafter pow remainder rint round signbit sin sqrt
  tanh trunc
complex: complex
concepts: convertible_to floating_point integral same_as
condition_variable: condition_variable
cstdio: fclose fflush fopen fprintf fputs fread fwrite printf puts remove snprintf
cstdlib: abort exit getenv strtod strtoull
cstring: memchr memcmp memcpy memmove memset strerror strlen
deque: deque
exception: current_exception exception exception_ptr rethrow_exception terminate
filesystem: error_code filesystem
fstream: fstream ifstream ofstream
functional: function greater hash less ref reference_wrapper
future: async future promise
initializer_list: initializer_list
iomanip: setprecision setw
iostream: cerr cin cout
iterator: back_inserter inserter make_move_iterator
limits: numeric_limits
list: list
map: map multimap
memory: make_shared make_unique shared_ptr unique_ptr weak_ptr enable_shared_from_this
mutex: call_once lock_guard mutex once_flag scoped_lock unique_lock
new: bad_alloc nothrow set_new_handler
numeric: accumulate exclusive_scan gcd iota lcm partial_sum
optional: make_optional nullopt optional
queue: priority_queue queue
random: mt19937 mt19937_64 normal_distribution uniform_int_distribution uniform_real_distribution
regex: regex regex_match
set: multiset set
shared_mutex: shared_lock shared_mutex
span: as_bytes as_writable_bytes span
sstream: istringstream ostringstream stringstream
stdexcept: invalid_argument logic_error out_of_range runtime_error
string: stod stoi stoul stoull string to_string
string_view: string_view
system_error: generic_category system_error
thread: thread this_thread
tuple: make_tuple tie tuple
type_traits: conditional_t decay_t enable_if_t invoke_result_t is_base_of_v is_convertible_v
  is_floating_point_v is_integral_v is_same_v is_signed_v is_trivially_copyable_v make_unsigned_t
  remove_cvref_t underlying_type_t
unordered_map: unordered_map
unordered_set: unordered_set
utility: exchange forward in_range move pair swap
variant: get_if holds_alternative monostate variant visit
vector: vector
"""
HEADER_OF = {
    name: header
    for header, names in (
        entry.split(":") for entry in STANDARD.strip().replace("\n  ", " ").splitlines()
    )
    for name in names.split()
}
STD_NAME = re.compile(r"\bstd::(\w+)")
QUALIFIED = re.compile(rf"\b({'|'.join(ROOMS)})::(?:hdf5::|safetensors::|cuda::|cpu::)?(\w+)")
COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"\w*\(.*?\)\w*"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+\'""", re.DOTALL
)
TYPE = re.compile(
    r"^(?:struct|class|enum class|enum|union)\s+(?:\[\[\w+\]\]\s*)?(\w+)(?!\w*;)", re.MULTILINE
)
ALIAS = re.compile(r"^(?:__extension__ )?using (\w+) =", re.MULTILINE)
TAKEN = re.compile(r"^using (?:\w+::)*(\w+)::(\w+);", re.MULTILINE)
CONSTANT = re.compile(
    r"^(?:inline |static |constexpr |const |thread_local )+[\w:<>,*& ]+?"
    r"\b(\w+)(?:\[\w*\])*(?= = |\{|;| =$)",
    re.MULTILINE,
)
FUNCTION = re.compile(
    r"^(?!return\b|using\b|namespace\b|else\b|friend\b|typedef\b)"
    r"[A-Za-z_][\w:<>,*&\[\] ]*?[ *&>](\w+)\((?=[^;]*?[;{])",
    re.MULTILINE,
)


def room_of(path: str) -> str:
    parts = path.split("/")
    if parts[:2] == ["lib", "trace"] and parts[2] in ADAPTERS:
        return "/".join(parts[:3])
    return "/".join(parts[:2])


def code_of(text: str) -> str:
    """The text without comments, and with empty strings."""
    return COMMENT_OR_TEXT.sub(lambda found: '""' if found[0][0] in "\"R'" else "", text)


def declared(code: str) -> set[str]:
    """Names declared at the start of a line: types, aliases, constants and functions."""
    return {name for rule in (TYPE, ALIAS, CONSTANT, FUNCTION) for name in rule.findall(code)}


def file_local(code: str) -> set[str]:
    """What a source declares in anonymous namespaces.

    These end with "}  // namespace", of which code_of() leaves the spaces; functions end with "}".
    """
    inside = re.findall(r"^namespace \{\n(.*?)^\}  $", code, re.DOTALL | re.MULTILINE)
    return {name for block in inside for name in declared(block)}


class Sources:
    """All C++ of lib/ and apps/."""

    def __init__(self, root: Path) -> None:
        self.paths = [
            path.relative_to(root).as_posix()
            for top in ("lib", "apps")
            for suffix in ("*.h", "*.cpp")
            for path in sorted((root / top).rglob(suffix))
        ]
        self.texts = {path: (root / path).read_text() for path in self.paths}
        self.code = {path: code_of(text) for path, text in self.texts.items()}
        self.includes = {path: INCLUDE.findall(text) for path, text in self.texts.items()}
        self.headers_of_name: dict[str, set[str]] = defaultdict(set)
        for path, code in self.code.items():
            if path.endswith(".h"):
                for name in declared(code):
                    self.headers_of_name[name].add(path)

    def reached(self, path: str) -> set[str]:
        """The file and the headers of the project that it includes, over however many others."""
        found = {path}
        left = [path]
        beside = path.rpartition("/")[0]
        while left:
            for include in self.includes[left.pop()]:
                for place in (f"lib/{include}", f"apps/ttrace/{include}", f"{beside}/{include}"):
                    if place in self.texts and place not in found:
                        found.add(place)
                        left.append(place)
        return found


def lacking_includes(sources: Sources) -> list[str]:
    found = []
    for path, code in sources.code.items():
        reached = sources.reached(path)
        given = {header for other in reached for header in sources.includes[other]}
        needed = {HEADER_OF[name] for name in STD_NAME.findall(code) if name in HEADER_OF}
        for header in sorted(needed - given):
            found.append(f"{path}: uses names of <{header}> and does not include it")
        for room, name in sorted(set(QUALIFIED.findall(code))):
            homes = {
                home for home in sources.headers_of_name[name] if home.startswith(f"lib/{room}/")
            }
            forward = re.compile(rf"\b(class|struct) {name};")
            if homes and not homes & reached:
                if not any(forward.search(sources.code[other]) for other in reached):
                    home = sorted(homes)[0]
                    found.append(f"{path}: uses {room}::{name} and does not include {home}")
    return found


def repeated_names(sources: Sources) -> list[str]:
    places: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path, code in sources.code.items():
        if path.endswith(".cpp"):
            for name in file_local(code):
                places[room_of(path), name].add(path)
    found = []
    for (room, name), paths in sorted(places.items()):
        public = {home for home in sources.headers_of_name[name] if room_of(home) == room}
        if len(paths) > 1 or public:
            where = ", ".join(sorted(paths) + sorted(public))
            found.append(f"{room}: {name} is file-local and stands in {where}")
    return found


def taken_names(sources: Sources) -> list[str]:
    own: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path, code in sources.code.items():
        names = declared(code) if path.endswith(".h") else file_local(code)
        for name in names:
            own[room_of(path), name].add(path)
    found = []
    for path, code in sources.code.items():
        if not path.endswith(".cpp"):
            continue
        for other, name in sorted(set(TAKEN.findall(code))):
            homes = own[room_of(path), name] - {path}
            if homes and not room_of(path).endswith(f"/{other}"):
                where = ", ".join(sorted(homes))
                found.append(f"{path}: takes {other}::{name}, and {where} has another {name}")
    return found


def violations(root: Path) -> list[str]:
    sources = Sources(root)
    found = lacking_includes(sources) + repeated_names(sources) + taken_names(sources)
    if len(sources.paths) < 50:
        found.append(f"only {len(sources.paths)} source files found: is {root} the repository?")
    return found


if __name__ == "__main__":
    sys.exit(run(violations, "violations that a build in batches would hide"))
