"""Raw results: a line of JSON each, appended as they come, so that a study can go on later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Store:
    """Results by name. A line that a killed study left half written is forgotten."""

    def __init__(self, path: Path, build: str = "") -> None:
        """build: what the results that come are measured by, a commit; told with them."""
        self.path = path
        self.build = build
        self.records: dict[str, Record] = {}
        whole = []
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            whole.append(line)
            self.records[record["id"]] = record
        path.write_text("".join(line + "\n" for line in whole), encoding="utf-8")

    def __contains__(self, name: str) -> bool:
        return name in self.records

    def add(self, name: str, **members: Any) -> Record:
        record = {"id": name, **({"build": self.build} if self.build else {}), **members}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")
        self.records[name] = record
        return record

    def of(self, what: str) -> list[Record]:
        """The records whose name begins with `what/`."""
        return [record for name, record in self.records.items() if name.startswith(f"{what}/")]
