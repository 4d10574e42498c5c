"""What a rank prints of its problems: each sentence once, and few that are alike."""

from __future__ import annotations

from ttrace_torch.base.problems import Problems


def test_sentences_that_differ_by_names_alone_are_printed_three_times(capsys):
    problems = Problems(0)
    for layer in range(40):
        problems.advise(f"layers.{layer}.fc: its output cannot be seen")
        problems.advise(f"layers.{layer}.fc: its output cannot be seen")
    problems.say_once("step 3: another sentence")
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "ttrace: rank 0: layers.0.fc: its output cannot be seen",
        "ttrace: rank 0: layers.1.fc: its output cannot be seen",
        "ttrace: rank 0: layers.2.fc: its output cannot be seen (others like it are not printed)",
        "ttrace: rank 0: step 3: another sentence",
    ]


def test_what_is_not_printed_is_kept():
    problems = Problems(2)
    for layer in range(40):
        problems.left_out("output", f"layers.{layer}.fc", "it cannot be seen")
    assert len(problems.entries()) == 40
    assert all(entry["ranks"] == [2] for entry in problems.entries())
