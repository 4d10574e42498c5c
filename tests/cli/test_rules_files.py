"""Files for --map and --layout that are none, and that nothing may replace."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .conftest import Run
from .rank_files import entry, write_json, write_single
from .small_traces import check_refused


def one_tensor(folder: Path) -> Path:
    return write_single(folder / "ref.h5", [(entry("a", (1,)), np.ones(1))])


def test_a_report_does_not_replace_the_rules(ttrace: Run, tmp_path: Path) -> None:
    reference = one_tensor(tmp_path)
    rule = {"from": "a", "to": "b"}
    rules = write_json(tmp_path / "map.json", {"schema": "ttrace.map/2", "candidate": [rule]})
    layout = write_json(tmp_path / "layout.json", {"schema": "ttrace.layout/1", "rules": []})
    for flag, path in (("--map", rules), ("--layout", layout)):
        before = path.read_bytes()
        done = ttrace("compare", reference, reference, flag, path, "--json", path)
        check_refused(done, path)
        done = ttrace(
            "compare", reference, reference, flag, path.name, "--json", path, cwd=tmp_path
        )
        check_refused(done, path)
        assert path.read_bytes() == before


BAD_FILES = {
    "empty": ("", "empty"),
    "not JSON": ("candidate:\n", "not valid JSON"),
    "cut off": ('{"schema": "ttrace.map/2", "candidate": [', "not valid JSON"),
    "a list": ("[]", "expected an object"),
    "of another schema": ('{"schema": "ttrace.manifest/2"}', 'this is "ttrace.manifest/2"'),
    "nested deeply": ("[" * 100000, "nested deeper than 64 levels"),
    "with a NUL": ('{"schema": "ttrace.map/2"}\0', "NUL"),
    "not UTF-8": ('{"schema": "ttrace.map/2", "\udcff": 1}', "not valid JSON"),
}


@pytest.mark.parametrize("flag", ["--map", "--layout"])
@pytest.mark.parametrize("name", BAD_FILES)
def test_a_rules_file_that_is_none_is_refused(
    ttrace: Run, tmp_path: Path, flag: str, name: str
) -> None:
    text, reason = BAD_FILES[name]
    if flag == "--layout":
        text = text.replace("ttrace.map/2", "ttrace.layout/1")
    reference = one_tensor(tmp_path)
    rules = tmp_path / "rules.json"
    rules.write_bytes(text.encode(errors="surrogateescape"))
    check_refused(ttrace("compare", reference, reference, flag, rules), f"{rules}: ", reason)


@pytest.mark.parametrize("flag", ["--map", "--layout"])
def test_a_rules_file_that_cannot_be_read_is_refused(
    ttrace: Run, tmp_path: Path, flag: str
) -> None:
    reference = one_tensor(tmp_path)
    absent = tmp_path / "absent.json"
    check_refused(
        ttrace("compare", reference, reference, flag, absent),
        f"{absent}: cannot be read: No such file",
    )
    done = ttrace("compare", reference, reference, flag, tmp_path)
    check_refused(done, f"{tmp_path}: not a regular file")
    done = ttrace("compare", reference, reference, flag, reference)
    check_refused(done, f"{reference}: not valid JSON")
