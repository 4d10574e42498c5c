"""Reports for people, by `ttrace report show`: the text, the page, what pipelines read."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path

from ttrace_torch.compare.program import ProgramError, last_line, path_argument, run_program
from ttrace_torch.report.errors import CommandFailed

# In a frame without an address of its own, links inside the page would lead to the notebook's.
_HEAD = "<head>\n"
_BASE = f'{_HEAD}<base href="about:srcdoc">\n'
# The page's own height is that of its tables; in a notebook it scrolls in a window.
_HEIGHT = 720


def shown_text(name: str, data: bytes, format: str) -> str:
    """A report in a format of `report show`. Throws CommandFailed."""
    with tempfile.TemporaryDirectory(prefix="ttrace-report-") as folder:
        # The text names the file, so it has its name; the bytes are those that were read.
        file = Path(folder, Path(name).name)
        file.write_bytes(data)
        try:
            given = [f"--format={format}", path_argument(file.name)]
            done = run_program(["report", "show", *given], file.parent)
        except ProgramError as error:
            raise CommandFailed(str(error)) from error
    if done.returncode:
        raise CommandFailed(last_line(done), done.returncode)
    return done.stdout


def page_in_frame(page: str, title: str) -> str:
    """The page for a notebook, in a frame that runs the page's script but cannot reach the
    notebook."""
    page = page.replace(_HEAD, _BASE, 1)
    return (
        f'<iframe sandbox="allow-scripts" srcdoc="{html.escape(page)}" '
        f'style="width: 100%; height: {_HEIGHT}px; border: 0" '
        f'title="{html.escape(title)}"></iframe>'
    )
