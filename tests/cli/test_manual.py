"""The manual page, the page of all flags and the completions, all made of the declared flags."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from support.ttrace_cli import run_ttrace

from .conftest import Run

SHELLS = ("bash", "fish", "zsh")
# What is typed, and what each shell must offer for its last word.
TYPED = {
    "ttrace comp": {"compare", "completions"},
    "ttrace report ": {"diff", "merge", "show", "trend"},
    "ttrace -q compare ref.h5 --json-d": {"--json-detail"},
    "ttrace compare --format ": {"text", "line"},
    "ttrace report show --format h": {"html"},
    "ttrace inspect run --kind main_": {"main_grad"},
    "ttrace compare --device c": {"cpu", "cuda"},
    "ttrace help au": {"audit"},
    "ttrace explain missing_r": {"missing_reduction"},
    "ttrace completions f": {"fish"},
}


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completions")
    written = {shell: folder / f"_ttrace.{shell}" for shell in SHELLS}
    for shell, path in written.items():
        path.write_text(run_ttrace("completions", shell).stdout)
    return written


def flags_of_help(ttrace: Run, *command: str) -> set[str]:
    return set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", ttrace(*command, "--help").stdout, re.M))


def in_bash(script: Path, typed: str) -> list[str]:
    call = (
        f'source "{script}"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ttrace; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    words = typed.split(" ")
    done = subprocess.run(
        ["bash", "--norc", "-c", call, "bash", *words], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    return done.stdout.split()


def in_fish(script: Path, typed: str) -> list[str]:
    call = [need("fish"), "--no-config", "-c", f"source {script}; complete -C '{typed}'"]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


def line_in_zsh(script: Path, typed: str) -> str:
    """The line that zsh makes of it when the tabulator is pressed."""
    child, terminal = pty.fork()
    if child == 0:
        os.execve(need("zsh"), ["zsh", "-f", "-i"], {"TERM": "dumb", "PATH": os.environ["PATH"]})
    shown = ""
    try:
        for keys in (
            "autoload -U compinit; compinit -u -D; unsetopt beep list_beep\n",
            f"source {script}; print re''ady\n",
            f"{typed}\t",
            "\x01print -r -- 'LINE \x05'\n",
        ):
            os.write(terminal, keys.encode())
            end = time.monotonic() + 10
            wanted = {"s": r"\nready", "\x01": r"\nLINE .*\n"}.get(keys[0])
            while time.monotonic() < end:
                if not select.select([terminal], [], [], 0.3 if wanted is None else 1)[0]:
                    if wanted is None:
                        break
                    continue
                shown += os.read(terminal, 4096).decode(errors="replace").replace("\r", "")
                if wanted and re.search(wanted, shown):
                    break
        found = re.search(r"\nLINE (.*?)\n", shown)
        assert found, shown
        return found[1]
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(terminal)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_takes_its_script(scripts: dict[str, Path], shell: str) -> None:
    done = subprocess.run([need(shell), "-n", scripts[shell]], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("typed", TYPED)
def test_bash_offers_what_goes_on(scripts: dict[str, Path], typed: str) -> None:
    assert set(in_bash(scripts["bash"], typed)) == TYPED[typed]


@pytest.mark.parametrize("typed", TYPED)
def test_fish_offers_what_goes_on(scripts: dict[str, Path], typed: str) -> None:
    assert set(in_fish(scripts["fish"], typed)) == TYPED[typed]


@pytest.mark.parametrize(
    "typed", [typed for typed, offers in TYPED.items() if len(offers) == 1 and typed[-1] != " "]
)
def test_zsh_completes_what_goes_on(scripts: dict[str, Path], typed: str) -> None:
    need("zsh")
    (offer,) = TYPED[typed]
    before = typed.rpartition(" ")[0]
    assert line_in_zsh(scripts["zsh"], typed).rstrip(" =") == f"{before} {offer}"


def test_a_shell_offers_files_where_a_file_is_expected(
    scripts: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "run.h5").touch()
    for typed in ("ttrace compare ", "ttrace compare --json ", "ttrace lint --layout "):
        # Bash offers files where the function offers nothing.
        assert in_bash(scripts["bash"], typed) == []
        assert f"{tmp_path}/run.h5" in in_fish(scripts["fish"], f"{typed}{tmp_path}/r")
    assert in_bash(scripts["bash"], "ttrace compare --noise a b --ki") == ["--kind"]
    assert in_bash(scripts["bash"], "ttrace compare --kind output main_") == ["main_grad"]


# In no help, for want of room: its footer says where to read on.
NIGHTS = {"--known", "--require", "--since", "--fail-on"}
RARE = {"--mpi", "--local-files"}  # of the commands that divide their work


@pytest.mark.parametrize(
    "command", ["compare", "audit", "localize", "report merge", "selftest", "man"]
)
def test_every_flag_of_the_help_is_offered_and_described(
    ttrace: Run, scripts: dict[str, Path], command: str
) -> None:
    flags = flags_of_help(ttrace, *command.split())
    assert flags
    if command in ("compare", "audit", "localize", "report merge"):
        hidden = NIGHTS if command == "report merge" else NIGHTS | RARE
        assert not flags & hidden
        flags |= hidden
    everywhere = flags_of_help(ttrace) | {"-V", "-q", "-v", "--help"}
    offered = set(in_bash(scripts["bash"], f"ttrace {command} -")) - everywhere
    assert {flag for flag in offered if flag.startswith("--")} == flags
    assert flags | everywhere >= {
        flag for flag in in_fish(scripts["fish"], f"ttrace {command} --") if flag != "--help"
    }
    page = ttrace("man").stdout.replace("\\-", "-")
    section = page.split(f"\n.SH TTRACE {command.upper()}\n")[1].split("\n.SH ")[0]
    assert set(re.findall(r"^\.B (?:-\w, )?(--[\w-]+)", section, re.M)) == flags


@pytest.mark.parametrize(
    "check",
    [
        ["groff", "-ww", "-K", "utf8", "-man", "-T", "utf8", "-Z"],
        ["man", "--warnings", "-E", "UTF-8", "-Tutf8", "-Z", "-l"],
        ["mandoc", "-T", "lint", "-W", "error"],
    ],
    ids=lambda check: check[0],
)
def test_readers_of_manuals_find_no_fault_in_the_page(
    ttrace: Run, tmp_path: Path, check: list[str]
) -> None:
    need(check[0])
    page = tmp_path / "ttrace.1"
    page.write_text(ttrace("man").stdout)
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run([*check, page], capture_output=True, text=True, env=environment)
    said = done.stdout if check[0] == "mandoc" else ""
    assert (done.returncode, said, done.stderr) == (0, "", "")


def test_the_page_of_all_flags_is_what_the_program_prints(ttrace: Run) -> None:
    page = Path(__file__).resolve().parents[2] / "apps/ttrace/REFERENCE.md"
    printed = ttrace("man", "--format", "markdown").stdout
    assert page.read_text() == printed, (
        "ttrace man --format markdown > apps/ttrace/REFERENCE.md writes it again"
    )


def test_no_other_shell_is_known(ttrace: Run) -> None:
    done = ttrace("completions", "tcsh")
    assert done.returncode == 2
    assert "tcsh" in done.stderr and "bash" in done.stderr
