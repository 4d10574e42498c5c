"""A bug that hides where another one was is new, and a night that checked less is no good night."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.reports import read_report
from support.synth import synth, tensors
from support.ttrace_cli import DIVERGED, INCONCLUSIVE, MATCH, TESTDATA

from .conftest import Run

Json = dict[str, Any]
Edit = Callable[[Json], object]
REFERENCE = TESTDATA / "ref.h5"
FIRST = "0/-/main_grad/layers.0.norm1.weight/0/0"  # of a finding of ten main gradients
FOLLOWING = "0/-/grad_norm/grad_norm/0/0"  # wrong, and downstream of the finding


@pytest.fixture(scope="module")
def reports(ttrace: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Json]:
    folder = tmp_path_factory.mktemp("nights")
    made = {}
    for name, run in (("good", "tp2sp"), ("bad", "tp2sp_p12")):
        ttrace("compare", REFERENCE, TESTDATA / run, "--json", folder / name)
        made[name] = json.loads((folder / name).read_text())
    return made


def written(report: Json, edit: Edit | None, file: Path) -> Path:
    report = copy.deepcopy(report)
    if edit is not None:
        edit(report)
    report["counts"]["total"] = len(report["results"])
    file.write_text(json.dumps(report))
    return file


def diff(ttrace: Run, older: Path, newer: Path, exit_code: int) -> Json:
    out = newer.with_suffix(".diff.json")
    done = ttrace("report", "diff", older, newer, "--json", out)
    assert done.returncode == exit_code, (done.stdout, done.stderr)
    return read_report(out)


def result(report: Json, wanted: str) -> Json:
    (found,) = [one for one in report["results"] if one["id"] == wanted]
    return found


def item(report: Json, wanted: str = FIRST) -> Json:
    (found,) = [one for one in report["findings"] if one["id"] == wanted]
    return found


def used(wanted: str, value: Any, times: bool = False) -> Edit:
    def edit(report: Json) -> None:
        one = result(report, wanted)
        one["used"] = one["used"] * value if times else value
        if "replica_drift" in one and times:
            one["replica_drift"] *= value
        one.pop("slices", None)

    return edit


def of_all(**members: Any) -> Edit:
    """Sets members of every finding."""
    return lambda report: [one.update(copy.deepcopy(members)) for one in report["findings"]]


def scaled(**members: Any) -> Json:
    return {"name": "scaled", "axis": "", "evidence": "", "unexplained": 0, "values": {}, **members}


def cause_is(name: str, axis: str = "tp") -> Edit:
    return of_all(causes=[scaled(name=name, axis=axis)])


def drift_alone(report: Json) -> None:
    result(report, FIRST)["replica_drift"] *= 100


def own_finding(report: Json) -> None:
    report["findings"].append(
        {**copy.deepcopy(item(report)), "id": FOLLOWING, "members": [FOLLOWING], "causes": []}
    )
    del report["findings"][-1]["group"]
    report["findings"][-1]["headline"] = "the gradient norm"


def other_place(report: Json) -> None:
    """The finding of yesterday healed; what followed from it is the first now."""
    own_finding(report)
    members = {one["id"] for one in report["findings"][:-1]}
    del report["findings"][:-1]
    report["groups"] = []
    for one in report["results"]:
        if one["id"] in members:
            one.update(outcome="match", used=0.01)


def suspected(report: Json) -> None:
    one = {"id": FOLLOWING, "used": 4000, "used_before": 2, "largest_before": None}
    report["suspects"].append(one)


def everywhere(report: Json, ranks: list[int], **members: Any) -> None:
    of_all(ranks=ranks, **members)(report)


ON_RANK_0 = of_all(ranks=[0])
NOT_FINITE = {"reference": 0, "candidate": 1, "equal": 0, "different": 1, "first": [0]}


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        pytest.param(None, used(FIRST, 100, True), "it is off by", id="100 times worse"),
        pytest.param(None, drift_alone, "it is off by", id="one copy is 100 times worse"),
        pytest.param(None, used(FIRST, "inf"), "no number says any more", id="infinite"),
        pytest.param(None, used(FIRST, "nan"), "no number says any more", id="NaN"),
        pytest.param(used(FIRST, "nan"), None, "no number says how far it was", id="was NaN"),
        pytest.param(used(FIRST, "inf"), None, "no number says how far it was", id="was inf"),
        pytest.param(
            None,
            lambda report: result(report, FIRST).update(nonfinite=NOT_FINITE),
            "it is finite on one side alone",
            id="a NaN",
        ),
        pytest.param(
            None, cause_is("scaled"), "the cause is scaled over tp, and was missing", id="cause"
        ),
        pytest.param(
            None, cause_is("missing_reduction", "dp"), "reduction over dp, and was", id="axis"
        ),
        pytest.param(None, of_all(causes=[]), "the cause is not known", id="no cause"),
        pytest.param(of_all(causes=[]), None, "and was not known", id="a cause"),
        pytest.param(
            None, cause_is("mask_or_rows", ""), "the cause is not known", id="where alone"
        ),
        pytest.param(ON_RANK_0, None, "it is wrong on rank 1, where it was right", id="ranks"),
        pytest.param(
            None,
            lambda report: result(report, FIRST).update(outcome="incomparable"),
            "it is incomparable, and was replica conflict",
            id="shape",
        ),
        pytest.param(None, used(FOLLOWING, 1e6), "it is off by", id="what follows"),
        pytest.param(
            None,
            lambda report: result(report, FOLLOWING).update(nonfinite=NOT_FINITE),
            "it is finite on one side alone",
            id="what follows is NaN",
        ),
        pytest.param(None, suspected, "much further off than what comes into it", id="suspect"),
        pytest.param(None, own_finding, "it follows from no other finding", id="another finding"),
        pytest.param(None, other_place, "it follows from no other finding", id="another place"),
    ],
)
def test_it_is_new(
    ttrace: Run,
    reports: dict[str, Json],
    tmp_path: Path,
    before: Edit | None,
    now: Edit | None,
    why: str,
) -> None:
    older = written(reports["bad"], before, tmp_path / "old.json")
    newer = written(reports["bad"], now, tmp_path / "new.json")
    answer = diff(ttrace, older, newer, DIVERGED)
    assert answer["verdict"] == "new" and not answer["newly_diverged"]
    found = answer["diverged_otherwise"]
    assert any(why in one["why"] for one in found), found
    assert "diverged in another way than before" in answer["headline"]
    assert diff(ttrace, newer, newer, MATCH)["diverged_otherwise"] == []


def reordered(report: Json) -> None:
    report["findings"].reverse()
    report["groups"].reverse()
    report["results"].reverse()


def second_cause(report: Json) -> None:
    for one in report["findings"]:
        one["causes"].insert(0, scaled(axis="dp"))


def barely(report: Json) -> None:
    everywhere(report, [0])
    for one in report["results"]:
        if one["outcome"] == "replica_conflict":
            one.update(used=1.4, replica_drift=0, slices=[])


def healed_by_noise(report: Json) -> None:
    barely(report)
    other_place(report)
    for one in report["results"]:
        if one["outcome"] == "match" and one["used"] == 0.01:
            one["used"] = 1.35


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(None, None, id="the same"),
        pytest.param(None, used(FIRST, 1.5, True), id="slightly worse"),
        pytest.param(None, used(FIRST, 9, True), id="nine times worse"),
        pytest.param(used(FIRST, 0.5), used(FIRST, 9.5), id="within ten times what is allowed"),
        pytest.param(None, used(FIRST, 0.01, True), id="better"),
        pytest.param(used(FIRST, "inf"), used(FIRST, "inf"), id="nothing is allowed in both"),
        pytest.param(None, reordered, id="reordered"),
        pytest.param(None, second_cause, id="one cause more"),
        pytest.param(second_cause, None, id="one cause less"),
        pytest.param(of_all(causes=[]), cause_is("mask_or_rows", ""), id="where it is"),
        pytest.param(None, ON_RANK_0, id="right on one rank"),
        pytest.param(
            barely,
            lambda report: (barely(report), everywhere(report, [1])),
            id="noise decides ranks",
        ),
        pytest.param(suspected, suspected, id="suspected in both"),
        pytest.param(suspected, own_finding, id="suspected before"),
        pytest.param(own_finding, suspected, id="a finding before"),
        pytest.param(barely, healed_by_noise, id="just within its tolerance"),
    ],
)
def test_it_is_not_new(
    ttrace: Run, reports: dict[str, Json], tmp_path: Path, before: Edit | None, now: Edit | None
) -> None:
    older = written(reports["bad"], before, tmp_path / "old.json")
    newer = written(reports["bad"], now, tmp_path / "new.json")
    assert diff(ttrace, older, newer, MATCH)["verdict"] == "nothing new"


def test_only_a_new_fault_fails_a_night(ttrace: Run, tmp_path: Path) -> None:
    """Runs whose faults are planted: yesterday's is a factor of 1.01."""
    outputs = tensors(3, [64, 32], placements={"tp": {"shard": 0}})
    reference = synth(tmp_path / "ref.h5", outputs)

    def night(
        name: str, seed: int, fault: str | None = None, *, since: Path | None = None
    ) -> tuple[int, str, Path]:
        noise = ["--noise", "1", "--noise-seed", str(seed)]
        run = synth(
            tmp_path / name, outputs, *noise, mesh={"tp": 2}, faults=[fault] if fault else []
        )
        out = tmp_path / f"{name}.json"
        policy = ["--fail-on", "new", "--since", since] if since else []
        done = ttrace("compare", reference, run, "--json", out, *policy)
        return done.returncode, done.stdout.splitlines()[0], out

    code, _, old = night("old", 1, "scaled=1.01@tensor.1")
    assert code == DIVERGED
    for name, fault, words in (
        ("worse", "scaled=3@tensor.1", "it is off by"),
        ("nan", "nan@tensor.1", "it is finite on one side alone"),
        ("zero", "row_zeroed=3@tensor.1", "the cause is zeroed, and was scaled"),
        ("beside", "scaled=1.01@tensor.2", "1 tensor newly diverged"),
    ):
        code, line, _ = night(name, 2, fault, since=old)
        assert code == DIVERGED and words in line, (name, line)
    for name, fault in (("again", "scaled=1.01@tensor.1"), ("little", "scaled=1.015@tensor.1")):
        code, line, _ = night(name, 3, fault, since=old)
        assert code == MATCH and "nothing new" in line, (name, line)
    code, line, _ = night("well", 4, since=old)
    assert code == MATCH and line.startswith("MATCH")


def no_loss(report: Json) -> None:
    report["results"] = [one for one in report["results"] if one["key"]["kind"] != "loss"]


def parameters_alone(report: Json) -> None:
    report["results"] = [one for one in report["results"] if one["key"]["kind"] == "param"]


def three_alone(report: Json) -> None:
    report["results"] = report["results"][-3:]


def unjudged(kind: str, outcome: str, most: int) -> Edit:
    def edit(report: Json) -> None:
        of_kind = [one for one in report["results"] if one["key"]["kind"] == kind]
        for one in of_kind[:most]:
            one["outcome"] = outcome

    return edit


def activations(outcome: str, most: int) -> Edit:
    kinds = ("output", "grad_output", "grad_input", "param_grad")
    return lambda report: [unjudged(kind, outcome, most)(report) for kind in kinds]


def fewer_steps(report: Json) -> None:
    """Twice as many steps before."""
    for one in copy.deepcopy(report["results"]):
        one["key"]["step"] = 1
        one["id"] = one["id"].replace("0/", "1/", 1)
        report["results"].append(one)


@pytest.mark.parametrize(
    ("before", "now", "why"),
    [
        (None, no_loss, "losses, gradient norms and parameters"),
        (None, parameters_alone, "losses, gradient norms and parameters"),
        (None, three_alone, "losses, gradient norms and parameters"),
        (fewer_steps, None, "losses, gradient norms and parameters"),
        (None, unjudged("loss", "not_judged", 1), "losses, gradient norms and parameters"),
        (None, unjudged("param", "skipped_by_rule", 1), "losses, gradient norms and parameters"),
        (None, unjudged("main_grad", "below_noise_floor", 3), "3 of the 28 main gradients"),
        (None, unjudged("main_grad", "skipped_by_rule", 28), "28 of the 28 main gradients"),
        (None, unjudged("param_after_step", "not_judged", 28), "28 updated parameters"),
        (None, activations("skipped_by_rule", 28), "tensors of the step"),
        (None, activations("after_routing_flip", 28), "tensors of the step"),
    ],
)
def test_less_was_checked(
    ttrace: Run,
    reports: dict[str, Json],
    tmp_path: Path,
    before: Edit | None,
    now: Edit | None,
    why: str,
) -> None:
    older = written(reports["good"], before, tmp_path / "old.json")
    newer = written(reports["good"], now, tmp_path / "new.json")
    answer = diff(ttrace, older, newer, INCONCLUSIVE)
    assert answer["verdict"] == "inconclusive" and why in answer["why"]
    assert f"{newer} did not check" in answer["why"]
    done = ttrace("report", "trend", older, newer, newer)
    assert done.returncode == INCONCLUSIVE and why in done.stdout.splitlines()[0]
    # More is checked than before, and a night that had as little is no news.
    diff(ttrace, newer, older, MATCH)
    assert ttrace("report", "trend", newer, older).returncode == MATCH


@pytest.mark.parametrize(
    "now",
    [
        unjudged("main_grad", "not_judged", 2),
        unjudged("output", "not_judged", 9),
        unjudged("param_after_step", "not_judged", 2),
    ],
)
def test_little_less_was_checked(
    ttrace: Run, reports: dict[str, Json], tmp_path: Path, now: Edit
) -> None:
    older = written(reports["good"], None, tmp_path / "old.json")
    diff(ttrace, older, written(reports["good"], now, tmp_path / "new.json"), MATCH)


@pytest.mark.parametrize("detail", ["all", "findings"])
def test_a_night_of_parameters_alone_fails(ttrace: Run, tmp_path: Path, detail: str) -> None:
    old, out = tmp_path / "old.json", tmp_path / "new.json"
    pair = ["compare", REFERENCE, TESTDATA / "tp2sp"]
    ttrace(*pair, "--json", old)
    new = ["--fail-on", "new", "--since", old, "--json", out, "--json-detail", detail]
    assert ttrace(*pair, *new).returncode == MATCH
    done = ttrace(*pair, "--kind", "param", *new)
    assert done.returncode == INCONCLUSIVE
    assert done.stdout.startswith("INCONCLUSIVE  nothing newly diverged, but "), done.stdout
    assert read_report(out)["exit_code"] == INCONCLUSIVE
    # The two files by themselves, one of them with findings alone or not.
    assert ttrace("report", "diff", old, out).returncode == INCONCLUSIVE


@pytest.mark.parametrize("command", [["audit"], ["localize", REFERENCE]])
def test_other_commands_know_how_much_was_checked(
    ttrace: Run, tmp_path: Path, command: list[Any]
) -> None:
    old, out = tmp_path / "old.json", tmp_path / "new.json"
    given = [*command, TESTDATA / "tp2sp", "--specification", TESTDATA / "specification.json"]
    ttrace(*given, "--json", old)
    assert ttrace("report", "diff", old, old).returncode == MATCH
    done = ttrace(*given, "--kind", "loss", "--json", out)
    if done.returncode == MATCH:
        assert ttrace("report", "diff", old, out).returncode == INCONCLUSIVE
        done = ttrace(*given, "--kind", "loss", "--fail-on", "new", "--since", old)
        assert done.returncode == INCONCLUSIVE
