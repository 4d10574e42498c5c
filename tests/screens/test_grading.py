"""Grades: what is right, what is vague, what is wrong, and what cannot be graded."""

import json
from pathlib import Path

import pytest

from screens import study
from screens.cases import FAULTS, PAIRS, cases
from screens.faults import MECHANISMS, drawn
from screens.grading import Answer, AnswerError, Grade, grade, results_table
from screens.key import Right, right_of_bug

NAMES = ("embedding.weight", "layers", "layers.0", "layers.0.fc", "layers.0.fc.weight",
         "layers.1", "layers.1.fc", "layers.1.fc.weight", "norm.weight")  # fmt: skip
OF_FC = Right(("backward",), ("tp",), ((0,), (0, 1)), ("layers.*.fc", "layers.*.fc.weight"), 4)
OF_NORM = Right(("optimizer",), ("dp",), ((0, 1, 2, 3),), ("norm.weight",), 4)


def graded(*told: tuple[str, str, str], faults: tuple[Right, ...] = (OF_FC,)) -> Grade:
    return grade([Answer(phase, who, (place,)) for phase, who, place in told], faults, NAMES)


@pytest.mark.parametrize(
    ("phase", "who", "place", "points"),
    [
        ("backward", "tp", "layers.0.fc", 1),
        ("backward", "rank 0", "layers.*.fc.weight", 1),
        ("backward", "ranks 0, 1", "layers.1.fc", 1),
        ("forward", "tp", "layers.0.fc", 0),
        ("backward", "dp", "layers.0.fc", 0),
        ("backward", "tp over dp", "layers.0.fc", 0),
        ("backward", "every rank", "layers.0.fc", 0),
        ("backward", "rank 1", "layers.0.fc", 0),
        ("backward", "", "layers.0.fc", 0),
        ("backward", "tp", "layers.0", 0),  # around it
        ("backward", "tp", "layers.*", 0),
        ("backward", "tp", "*", 0),
        ("backward", "tp", "norm.weight", -1),
        ("backward", "tp", "nowhere", -1),
        ("optimizer", "tp", "norm.*", -1),
    ],
)
def test_one_fault(phase: str, who: str, place: str, points: int) -> None:
    assert graded((phase, who, place)).points == points


def test_all_ranks_are_every_rank() -> None:
    assert graded(("optimizer", "every rank", "norm.weight"), faults=(OF_NORM,)).points == 1


def test_nothing_answered() -> None:
    assert graded().points == 0


def test_two_faults() -> None:
    both = (OF_FC, OF_NORM)
    right, other = ("backward", "tp", "layers.0.fc"), ("optimizer", "dp", "norm.weight")
    assert graded(right, other, faults=both).named == 2
    one = graded(right, faults=both)
    assert (one.points, one.named) == (1, 1)
    assert graded(right, ("forward", "dp", "norm.weight"), faults=both).points == 0
    assert graded(right, ("optimizer", "dp", "embedding.weight"), faults=both).points == -1


def test_the_table_says_what_lacks() -> None:
    grades = {"01": graded(("backward", "tp", "layers.0.fc")),
              "02": graded(("forward", "tp", "norm.weight"))}  # fmt: skip
    lines = results_table(grades, {"01": "a", "02": "b"}, {"01": "good", "02": "bad"})
    assert "| all | 2 | 1 | 1 | 2 | 1 | 1 | 0 | 1 | 2 |" in lines[0]
    assert lines[-1] == "02 bad: phase, wrong place not right"


def test_the_fifty() -> None:
    fifty = list(cases(study.SEED))
    assert len(fifty) == 50 and len({case.name for case in fifty}) == 50
    assert [case.group for case in fifty].count("two bugs") == PAIRS
    assert fifty == list(cases(study.SEED)) and fifty != list(cases(study.SEED + 1))
    assert {fault.mechanism for fault in drawn(study.SEED, FAULTS)} == set(MECHANISMS)


def test_a_key_is_of_the_bug() -> None:
    kinds, right = right_of_bug("G2", 2)
    assert kinds == ("grad_output",) and right.phases == ("backward",)
    assert right.covers("layers.1.norm2") and right.covers("layers.1.mlp.fc1")
    assert not right.covers("layers.0.norm2")


@pytest.mark.parametrize(
    "entry",
    [{"phase": "backward"}, "backward", {"phase": "gradient", "who": "tp", "place": ["a"]}],
)
def test_what_is_no_answer(entry: object) -> None:
    with pytest.raises(AnswerError):
        Answer.from_json("01", entry)


def test_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers, key = tmp_path / "answers.json", tmp_path / "key.json"
    case = {"group": "a bug", "case": "G2", "faults": [OF_FC.__dict__], "names": NAMES}
    key.write_text(json.dumps({"01": case}))
    told = {"phase": "backward", "who": "tp", "place": ["layers.1.fc"]}
    answers.write_text(json.dumps({"01": [told]}))
    assert study.main(["grade", str(answers), str(key)]) == 0
    assert "| all | 1 | 1 |" in capsys.readouterr().out
    answers.write_text(json.dumps({"7": [told]}))
    assert study.main(["grade", str(answers), str(key)]) == 2
    assert "one member for each screen" in capsys.readouterr().err
