"""Packages that cpack makes of a build: they run from elsewhere, and say what is linked in."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.ttrace_cli import DIVERGED, ttrace_binary
from support.wheels import own_version

BUILD = ttrace_binary().parent
pytestmark = pytest.mark.skipif(
    not (BUILD / "CPackConfig.cmake").exists() or shutil.which("cpack") is None,
    reason="the program under test is not in a build folder, or there is no cpack",
)


def packed(generator: str, folder: Path) -> Path:
    command = ["cpack", "-G", generator, "--config", "CPackConfig.cmake", "-B", folder]
    subprocess.run(command, cwd=BUILD, check=True, capture_output=True, timeout=600)
    (found,) = [path for path in folder.iterdir() if path.suffix in (".deb", ".gz")]
    return found


def output(*command: str | Path) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return done.stdout


def check_installed(root: Path) -> None:
    program = root / "bin" / "ttrace"
    assert own_version() in output(program, "--version").split()
    output(program, "demo", root / "demo")
    pair = ("ref.h5", "buggy", "--noise", "noise1.h5")
    shown = subprocess.run(
        [program, "compare", *pair], cwd=root / "demo", capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == DIVERGED and shown.stdout.startswith("DIVERGED")
    assert (root / "lib" / "libttrace.so").exists() and (root / "include" / "ttrace.h").exists()
    assert (root / "share" / "man" / "man1" / "ttrace.1").exists()
    assert "Apache License" in (root / "share/doc/ttrace/copyright").read_text()
    check_materials(root / "share" / "doc" / "ttrace" / "ttrace.cdx.json", program)
    assert not list(root.rglob("ttrace_mpi.so"))


def check_materials(file: Path, program: Path) -> None:
    told = json.loads(file.read_text())
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.5")
    assert told["metadata"]["component"]["version"] == own_version()
    versions = {part["name"]: part.get("version") for part in told["components"]}
    assert f"hdf5: {versions['hdf5']}" in output(program, "--version").splitlines()
    assert {"cli11", "nlohmann-json", "spdlog"} <= set(versions)
    assert told["dependencies"] == [{"ref": "ttrace", "dependsOn": list(versions)}]
    linked = output("ldd", program)
    for library, name in (("libz.", "zlib"), ("libfmt.", "fmt"), ("libdeflate.", "libdeflate")):
        assert library not in linked or name in versions


def test_a_tarball_runs_from_wherever_it_is_unpacked(tmp_path: Path) -> None:
    tarball = packed("TGZ", tmp_path / "out")
    shutil.unpack_archive(tarball, tmp_path / "elsewhere")
    (root,) = (tmp_path / "elsewhere").iterdir()
    check_installed(root)


@pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="dpkg-deb is not installed")
def test_a_package_of_debian_names_what_it_needs(tmp_path: Path) -> None:
    package = packed("DEB", tmp_path / "out")
    assert package.name.startswith(f"ttrace_{own_version()}_")
    fields = output("dpkg-deb", "--field", package)
    assert f"Version: {own_version()}\n" in fields
    needed = next(line for line in fields.splitlines() if line.startswith("Depends: "))
    assert "libc6 (>=" in needed and "openmpi" not in needed
    output("dpkg-deb", "--extract", package, tmp_path / "elsewhere")
    check_installed(tmp_path / "elsewhere" / "usr")
