#!/usr/bin/env python3
"""Prints how finely the C++ code is cut: files, their lengths, and headers that hold too little.

    scripts/count_files.py [--list] [ROOT]

`--list` also names the headers that are counted. Own .cpp files and tests do not count as users of
a header; constructors, data and types do not count as functions, and a header with a class that has
member functions is no header of one function.
"""

from __future__ import annotations

import argparse
import re
import statistics
from collections import defaultdict
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DIRECTIVE = re.compile(r"^\s*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
TYPE = re.compile(r"^(?:template\s*<.*?>\s*)?(?:class|struct|union)\b(?![^;{]*\()", re.DOTALL)
NO_FUNCTION = re.compile(r"^(?:using|typedef|enum|static_assert|friend)\b")
SUFFIXES = (".h", ".cpp", ".cu", ".cuh")


def statements(text: str) -> list[tuple[str, str]]:
    """Head and braced body of everything at namespace level or, for a body, at class level."""
    found = []
    head, start, depth = "", 0, 0
    for i, char in enumerate(text):
        if char == "{":
            if depth == 0:
                head, start = text[start:i].strip(), i + 1
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                found.append((head, text[start:i]))
                start = i + 1
        elif char == ";" and depth == 0:
            found.append((text[start:i].strip(), ""))
            start = i + 1
    return found


def functions(text: str) -> int:
    """Functions that `text` declares; 2 or more where a class has member functions."""
    count = 0
    for head, body in statements(text):
        head = re.sub(r"^(?:public|private|protected)\s*:\s*", "", head)
        if re.match(r"^(?:inline\s+)?namespace\b|^extern\s+\"C\"$", head):
            count += functions(body)
        elif TYPE.match(head):
            count += 2 if functions(body) > 0 else 0
        elif "(" in head.split("=")[0] and not NO_FUNCTION.match(head):
            count += 1
    return count


def bare(text: str) -> str:
    return DIRECTIVE.sub("", COMMENT.sub("", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", default=Path(__file__).resolve().parents[1], type=Path)
    parser.add_argument("--list", action="store_true", help="name the headers that are counted")
    options = parser.parse_args()

    texts = {
        path.relative_to(options.root): path.read_text()
        for top in ("lib", "apps/ttrace")
        for path in sorted((options.root / top).rglob("*"))
        if path.suffix in SUFFIXES
    }
    users = defaultdict(set)
    for path, text in texts.items():
        for include in INCLUDE.findall(text):
            for top in ("lib", "apps/ttrace"):
                header = Path(top) / include
                if header in texts and header.with_suffix("") != path.with_suffix(""):
                    users[header].add(path)
    headers = [path for path in texts if path.suffix in (".h", ".cuh")]
    lone = [path for path in headers if functions(bare(texts[path])) == 1]
    single = [path for path in headers if len(users[path]) == 1]
    lines = {path: text.count("\n") for path, text in texts.items()}
    longest = max(lines, key=lambda path: lines[path])
    engine = sum(n for path, n in lines.items() if path.parts[:2] == ("lib", "engine"))

    print(f"files                           {len(texts):6}  (at most 300)")
    print(f"median lines                    {statistics.median(lines.values()):6.0f}  (85 to 130)")
    print(f"longest file                    {lines[longest]:6}  {longest} (at most 450)")
    print(f"headers with one function only  {len(lone):6}  (at most 15)")
    print(f"headers that one file includes  {len(single):6}  (at most 25)")
    print(f"lines in lib/engine             {engine:6}  (under 2000)")
    print(f"lines                           {sum(lines.values()):6}")
    if options.list:
        for title, paths in (("one function", lone), ("included by one file", single)):
            print(f"\n{title}:")
            for path in paths:
                print(f"  {path}")


if __name__ == "__main__":
    main()
