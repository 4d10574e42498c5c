"""What becomes of a trace that stands where a run writes: one of its kind is replaced, others stay.

The kinds, the names, and what is left when something fails; several ranks are in
test_earlier_ranks.py.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import cache
from itertools import cycle, product

import h5py
import pytest
import torch
from fake_ranks import playing
from plans import write_plan
from small_models import TiedGPT, seeded, train_step
from torch import distributed, nn
from trace_reading import Trace

import ttrace_torch as tt
from ttrace_torch.write.earlier import Claim, make_way


def run(out, model=TiedGPT, steps=1, **options):
    """A reference, or by its options another run."""
    made = seeded(model)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-2)
    with tt.trace(made, optimizer, out=out, **options) as tracer:
        for step in range(steps):
            train_step(made, tracer, optimizer, step=step)
    return tracer


def files(folder):
    """Relative path -> content."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def kinds(tmp_path):
    """Name -> the options of a run of that kind."""
    plans = [
        write_plan(tmp_path / f"{n}.json", ("norm", {"inputs": {"std": n}})) for n in (1.0, 2.0)
    ]
    return {
        "reference": {},
        "noise 1": {"perturb": tt.Perturb(1)},
        "noise 2": {"perturb": tt.Perturb(2)},
        "plan 1": {"plan": plans[0]},
        "plan 2": {"plan": plans[1]},
        "another model": {"model": Other},
        "rank of dp": {"mesh": tt.Mesh({"dp": 2}), "rank": 0},
        "rank of tp": {"mesh": tt.Mesh({"tp": 2}), "rank": 0},
    }


class Other(TiedGPT):
    """A model of another class."""


KINDS = ["reference", "noise 1", "noise 2", "plan 1", "plan 2", "another model"]
WORDS = {
    "reference": "a reference of TiedGPT",
    "noise 1": "a noise run of seed 1 of TiedGPT",
    "noise 2": "a noise run of seed 2 of TiedGPT",
    "plan 1": "a rewritten run of plan ",
    "plan 2": "a rewritten run of plan ",
    "another model": "a reference of Other",
    "rank of dp": "a candidate of TiedGPT on dp 2",
    "rank of tp": "a candidate of TiedGPT on tp 2",
}
NAMES = ["run.h5", "run"]
PAIRS = [(old, new) for old in KINDS for new in KINDS if old != new]
# Every kind stands as a file and as a folder, and comes as both: five pairs begin with each.
NAMED_PAIRS = list(zip(PAIRS, cycle(NAMES), strict=False))
# A file holds one rank.
IN_FOLDERS = [
    ("rank of dp", "rank of tp"),
    ("rank of dp", "reference"),
    ("reference", "rank of dp"),
]
DATE = r"recorded 20\d\d-\d\d-\d\d \d\d:\d\d UTC"


@pytest.fixture(scope="module")
def earlier(tmp_path_factory):
    """`earlier(kind, name, folder)`: a run of that kind as folder/name, trained once and copied."""

    @cache
    def trained(kind, name):
        place = tmp_path_factory.mktemp("earlier")
        run(place / "out" / name, **kinds(place)[kind])
        return place / "out"

    return lambda kind, name, folder: shutil.copytree(trained(kind, name), folder)


@pytest.mark.parametrize(
    ("kind", "name"), [*product(KINDS, NAMES), ("rank of dp", "run"), ("rank of tp", "run")]
)
def test_a_trace_is_replaced_by_one_of_its_kind(tmp_path, capfd, earlier, kind, name):
    options = kinds(tmp_path)[kind]
    folder = tmp_path / "out"
    earlier(kind, name, folder)
    before = files(folder)
    capfd.readouterr()
    run(folder / name, **options)
    (said,) = capfd.readouterr().err.splitlines()
    words = f"{re.escape(str(folder / name))} replaces {WORDS[kind]}.*, {DATE}"
    assert re.fullmatch(f"ttrace: {words}", said)
    after = files(folder)
    assert set(after) == set(before) and after != before


@pytest.mark.parametrize(("pair", "name"), [*NAMED_PAIRS, *((pair, "run") for pair in IN_FOLDERS)])
def test_a_trace_of_another_kind_stays(tmp_path, capfd, earlier, pair, name):
    (old, new), options = pair, kinds(tmp_path)
    folder = tmp_path / "out"
    earlier(old, name, folder)
    before = files(folder)
    capfd.readouterr()
    run(folder / name, **options[new])
    (said,) = capfd.readouterr().err.splitlines()
    path = re.escape(str(folder / name))
    words = f"{WORDS[old]}.*, {DATE}, which stood at {path}, is now {path}.1, as this run is "
    assert re.fullmatch(f"ttrace: {words}{WORDS[new]}.*", said)
    after = files(folder)
    kept = {path.replace(name, f"{name}.1", 1): content for path, content in before.items()}
    assert kept.items() <= after.items()
    assert set(after) - set(kept) <= {name, f"{name}/rank_00000.h5", f"{name}/manifest.json"}


def test_axes_of_one_rank_make_no_other_kind(tmp_path, capfd):
    run(tmp_path / "run.h5", mesh=tt.Mesh({"dp": 1, "tp": 1}))
    run(tmp_path / "run.h5")
    assert "replaces a reference" in capfd.readouterr().err


def test_places_that_are_taken_stay(tmp_path, capfd):
    for name in ("run.h5.1", "run.h5.2"):
        (tmp_path / name).write_text("mine")
    for seed in (1, 2, 3):
        run(tmp_path / "run.h5", perturb=tt.Perturb(seed))
    said = capfd.readouterr().err
    assert "is now " + str(tmp_path / "run.h5.3") in said
    assert sorted(files(tmp_path)) == ["run.h5"] + [f"run.h5.{n}" for n in (1, 2, 3, 4)]
    assert (tmp_path / "run.h5.1").read_text() == "mine"


@pytest.mark.parametrize("content", [b"", b"not HDF5", b"\x89HDF\r\n\x1a\n and damaged"])
def test_what_is_no_trace_stays(tmp_path, capfd, content):
    (tmp_path / "run.h5").write_bytes(content)
    run(tmp_path / "run.h5")
    assert "what cannot be read as a trace" in capfd.readouterr().err
    assert (tmp_path / "run.h5.1").read_bytes() == content


def test_the_users_hdf5_file_stays(tmp_path, capfd):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["manifest"] = [1, 2, 3]
    before = (tmp_path / "data.h5").read_bytes()
    run(tmp_path / "data.h5")
    assert (tmp_path / "data.h5.1").read_bytes() == before


def test_other_files_of_the_folder_stay_where_they_are(tmp_path):
    run(tmp_path / "run")
    mine = ("notes.txt", "rank_1.h5", "rank_00000.h5.bak", "manifest.json.orig", "x/manifest.json")
    (tmp_path / "run" / "x").mkdir()
    for name in mine:
        (tmp_path / "run" / name).write_text("mine")
    run(tmp_path / "run", perturb=tt.Perturb(1))
    whole = {"manifest.json", "rank_00000.h5"}
    assert {str(p.relative_to(tmp_path / "run")) for p in (tmp_path / "run").rglob("*")} == {
        *mine,
        *whole,
        "x",
    }
    assert {path.name for path in (tmp_path / "run.1").iterdir()} == whole


def test_a_manifest_of_another_tool_stays(tmp_path, capfd):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "manifest.json").write_text('["icons"]')
    run(tmp_path / "run")
    assert (tmp_path / "run.1" / "manifest.json").read_text() == '["icons"]'
    assert "what cannot be read as a trace" in capfd.readouterr().err


def test_half_of_a_killed_run_goes(tmp_path):
    (tmp_path / "run").mkdir()
    for name in ("rank_00000.h5.tmp", "rank_00005.h5.tmp"):
        (tmp_path / "run" / name).write_text("half")
    run(tmp_path / "run")
    assert sorted(files(tmp_path)) == ["run/manifest.json", "run/rank_00000.h5"]


@pytest.mark.parametrize("name", NAMES)
def test_it_is_out_of_the_way_at_once_and_stays_until_a_step_is_finished(tmp_path, capfd, name):
    run(tmp_path / name)
    before = files(tmp_path)
    held = {path.replace(name, f"{name}.1", 1): content for path, content in before.items()}
    model = seeded(TiedGPT)
    tracer = tt.trace(model, out=tmp_path / name)
    found = files(tmp_path)
    assert {path: found[path] for path in found if not path.endswith(".tmp")} == held
    with pytest.raises(ZeroDivisionError), tracer.step(0):
        raise ZeroDivisionError
    tracer.close()
    # Nothing was recorded: the earlier trace is still worth something.
    assert held.items() <= files(tmp_path).items()
    assert f"is now {tmp_path / name}.1" in capfd.readouterr().err
    run(tmp_path / name)
    # That run replaces the empty trace; what was left aside stays aside.
    assert held.items() <= files(tmp_path).items()


@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_throws_before_its_first_step_leaves_it(tmp_path, capfd, name):
    run(tmp_path / name)
    before = files(tmp_path)
    capfd.readouterr()
    with pytest.raises(ZeroDivisionError), tt.trace(nn.Linear(2, 2), out=tmp_path / name):
        raise ZeroDivisionError
    assert sorted(files(tmp_path).values()) == sorted(before.values())
    assert f"is now {tmp_path / name}.1" in capfd.readouterr().err


def test_wrong_arguments_touch_nothing(tmp_path):
    run(tmp_path / "run.h5")
    before = files(tmp_path)
    for wrong in ({"kinds": ["outputs"]}, {"compress": 11}, {"memory": "much"}, {"run": {"a": 1}}):
        with pytest.raises(tt.TraceError):
            tt.trace(seeded(TiedGPT), out=tmp_path / "run.h5", **wrong)
    assert files(tmp_path) == before


def test_the_current_folder_and_links(tmp_path, capfd, monkeypatch):
    (tmp_path / "work").mkdir()
    (tmp_path / "link").symlink_to("work")
    monkeypatch.chdir(tmp_path / "work")
    run(".")
    run(".", perturb=tt.Perturb(1))
    assert f"stood at ., is now {tmp_path / 'work.1'}" in capfd.readouterr().err
    assert Trace(tmp_path / "work.1").manifest["run"].get("noise") is None
    run(tmp_path / "link", perturb=tt.Perturb(2))
    assert Trace(tmp_path / "link.1").manifest["run"]["noise"]["seed"] == 1
    run(tmp_path / "one.h5")
    (tmp_path / "two.h5").symlink_to("one.h5")
    run(tmp_path / "two.h5", perturb=tt.Perturb(1))
    assert (tmp_path / "two.h5.1").is_symlink() and not (tmp_path / "two.h5").is_symlink()
    assert Trace(tmp_path / "one.h5").manifest["run"].get("noise") is None


def test_a_place_that_other_ranks_chose_may_be_taken_on_this_disk(tmp_path):
    claim = Claim(1, range(2), "topic", None)
    with playing(1, 2, distributed.HashStore()):
        for content in ("one", "two", "three"):
            (tmp_path / "run").mkdir(exist_ok=True)
            (tmp_path / "run" / "rank_00001.h5").write_text(content)
            make_way(tmp_path / "run", claim)
    assert files(tmp_path) == {
        "run.old/rank_00001.h5": b"one",
        "run.old.1/rank_00001.h5": b"two",
        "run.old.2/rank_00001.h5": b"three",
    }


def as_nobody(work, *arguments):
    """Runs `work` in a child without root's rights."""

    def child():
        torch.set_num_threads(1)
        if os.geteuid() == 0:
            os.setuid(65534)
        work(*arguments)

    process = torch.multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(600)
    assert process.exitcode == 0


def made_for_nobody(folder):
    """A trace in a folder that anybody may write, below one that nobody may write."""
    os.chmod(folder, 0o755)
    run(folder / "run")
    for path in folder.rglob("*"):
        os.chmod(path, 0o777 if path.is_dir() else 0o666)
    os.chmod(folder, 0o555)
    os.chdir(folder)


def test_a_folder_that_nothing_can_be_made_beside(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_for_nobody(tmp_path)
    before = files(tmp_path)
    as_nobody(lambda: run("run", perturb=tt.Perturb(1)))
    kept = {path.replace("run/", "run/earlier.1/"): content for path, content in before.items()}
    after = files(tmp_path)
    assert kept.items() <= after.items() and set(after) == set(kept) | set(before)
    assert "which stood at run, is now run/earlier.1" in capfd.readouterr().err
    Trace(tmp_path / "run").check_complete()


def test_what_cannot_be_moved_is_told(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made_for_nobody(tmp_path)
    os.chmod("run", 0o555)
    before = files(tmp_path)

    def work():
        tracer = run("run", perturb=tt.Perturb(1))
        assert "Permission denied" in tracer.failed

    as_nobody(work)
    assert files(tmp_path) == before
    said = capfd.readouterr().err
    assert said.count("Permission denied") == 3
    assert "what stands at run is of an earlier run, and cannot be moved away" in said
