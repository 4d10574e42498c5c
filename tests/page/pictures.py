"""The pictures of the guide "My run diverges: what now": parts of the pages of real bugs.

    scripts/guide_pictures.sh            all of them, into lib/torch/docs/pictures
    scripts/guide_pictures.sh -o FOLDER  into another folder

Trains the miniature with each bug, compares, and cuts the picture out of the page in a headless
browser. What the pages are of, and which part of them, is the list below.
"""

from __future__ import annotations

import argparse
import base64
import dataclasses
import sys
import tempfile
from pathlib import Path

from gallery.expected import EXPECTED
from power.gallery_runs import Runs
from support.ttrace_cli import REPOSITORY, run_ttrace

from page.browser import Browser, find_browser

OUT = REPOSITORY / "lib" / "torch" / "docs" / "pictures"
WIDTH, HEIGHT = 840, 250  # of the page and of the profile, in pixels


@dataclasses.dataclass(frozen=True)
class Picture:
    """Elements of the page of a bug, from the first to the last selector.

    healthy: of the same run without the bug.
    """

    name: str
    bug: str
    command: str = "compare"
    healthy: bool = False
    first: str = "#profile"
    last: str = "#legend"


PICTURES = (
    Picture("healthy", "P12", healthy=True),
    Picture("data", "G12"),
    Picture("one_place", "G4"),
    Picture("backward", "P3"),
    Picture("layers", "G6", first="#h-depth", last="#depth-table"),
    Picture("synchronisation", "P12"),
    Picture("update", "P9"),
    Picture("finding", "P12", "localize", first="#finding-1", last="#finding-1 .facts"),
)


def page_of(picture: Picture, runs: Runs, folder: Path) -> Path:
    bugs = () if picture.healthy else (picture.bug,)
    config = dataclasses.replace(EXPECTED[picture.bug].config, bug=bugs)
    words = runs.commands(config, runs.trace(config))[picture.command]
    folder.mkdir()
    # By names that a person would give, since the page shows them.
    given: dict[Path, str] = {}
    for at, word in enumerate(words):
        path = Path(word)
        if not path.is_absolute():
            continue
        names = {".json": "specification.json", ".h5": f"noise{len(given) - 1}.h5"}
        names = {1: {".h5": "ref.h5"}, 2: {"": "run"}}.get(at, names)
        given[path] = names[path.suffix]
        words[at] = given[path]
        (folder / given[path]).symlink_to(path)
    words[words.index("--json") :] = ["--html", "page.html"]
    done = run_ttrace(*words, cwd=folder, timeout=300)
    if done.returncode != (0 if picture.healthy else 1):
        raise SystemExit(f"{picture.name}: {done.stdout}{done.stderr}")
    print(f"{picture.name}: {done.stdout.splitlines()[0]}", file=sys.stderr)
    return folder / "page.html"


def cut(browser: Browser, page: Path, picture: Picture) -> bytes:
    """A PNG of a part of the page, in light colours."""
    browser.open(page)
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        width=WIDTH,
        height=900,
        deviceScaleFactor=1,
        mobile=False,
    )
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    browser.evaluate("document.documentElement.dataset.theme = 'light'")
    browser.evaluate(f"document.querySelector('#profile').style.height = '{HEIGHT}px'")
    browser.evaluate("window.dispatchEvent(new Event('resize'))")
    browser.evaluate("new Promise((done) => setTimeout(done, 300))")
    first, last = (
        browser.evaluate(
            f"(() => {{ const r = document.querySelector('{selector}').getBoundingClientRect();"
            "return [r.x, r.y + scrollY, r.right, r.bottom + scrollY]; })()"
        )
        for selector in (picture.first, picture.last)
    )
    edge = 6
    x, y = min(first[0], last[0]) - edge, first[1] - edge
    right, bottom = max(first[2], last[2]) + edge, last[3] + edge
    clip = {"x": x, "y": y, "width": right - x, "height": bottom - y, "scale": 1}
    shot = browser.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
    return base64.b64decode(shot["data"])


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", type=Path, default=OUT)
    parser.add_argument("names", nargs="*", help="only these pictures")
    asked = parser.parse_args()
    program = find_browser()
    if program is None:
        print("scripts/guide_pictures.sh: needs Chromium or Chrome on PATH", file=sys.stderr)
        return 2
    asked.o.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(Path(folder))
        browser = Browser(program, Path(folder) / "browser")
        try:
            for picture in PICTURES:
                if asked.names and picture.name not in asked.names:
                    continue
                page = page_of(picture, runs, Path(folder) / picture.name)
                image = cut(browser, page, picture)
                (asked.o / f"{picture.name}.png").write_bytes(image)
        finally:
            browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
