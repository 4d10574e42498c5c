"""`python -m ttrace_torch doctor SCRIPT`: the lines that it says, added, trace the script."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.python_runs import python_command, run_python
from trace_reading import Trace

from ttrace_torch.doctor.examine import main
from ttrace_torch.doctor.script import Script, UnclearScript
from ttrace_torch.version import __version__

PYTHON = sys.executable
PLAIN = '''"""Trains."""
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for batch in range(3):
        x = torch.ones(4, 4)
        loss = model(x).mean()  # of the ü batch
        loss.backward()

        optimizer.step()
        optimizer.zero_grad()
    print("epoch", epoch)
print("done")
'''
GUARDED = """import torch
from torch import nn
from torch.optim import SGD

model = nn.Sequential(nn.Linear(4, 1), nn.Dropout(0.0))


def train(model):
\toptimizer = SGD(model.parameters(), lr=0.1)
\twhile True:
\t\tloss = model(torch.ones(2, 4)).sum()
\t\t(loss / 2).backward()
\t\toptimizer.step()
\t\tbreak
\treturn model


if __name__ == "__main__":
\ttrain(model)
"""
SCALED = """import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(2):
    loss = model(torch.ones(2, 4)).sum()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


def added(text: str) -> list[str]:
    """The lines that the patch adds or changes, without what they were."""
    patch = Script(text, "train.py").patch().splitlines()
    return [line[1:].strip() for line in patch if line.startswith("+") and line[1:2] != "+"]


def patched(text: str) -> str:
    script = Script(text, "train.py")
    return "\n".join(script._edits().applied(text.splitlines())) + "\n"


# As nanoGPT has it: the model makes its optimizer, of lists of parameters, and a step has several
# micro-batches.
GROUPED = """import inspect

import torch
from torch import nn


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, idx, targets=None):
        logits = self.head(idx)
        return logits, nn.functional.mse_loss(logits, targets)

    def configure_optimizers(self, weight_decay, learning_rate):
        param_dict = {pn: p for pn, p in self.named_parameters() if p.requires_grad}
        decay_params = [p for n, p in param_dict.items() if p.dim() >= 2]
        nodecay_params = [p for n, p in param_dict.items() if p.dim() < 2]
        optim_groups = [
            {"params": decay_params, "weight_decay": weight_decay},
            {"params": nodecay_params, "weight_decay": 0.0},
        ]
        fused = "fused" in inspect.signature(torch.optim.AdamW).parameters
        optimizer = torch.optim.AdamW(optim_groups, lr=learning_rate)
        return optimizer


model = GPT()
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = model.configure_optimizers(1e-1, 1e-3)
iter_num = 0
while True:
    for param_group in optimizer.param_groups:
        param_group["lr"] = 1e-3
    for micro_step in range(2):
        logits, loss = model(torch.ones(2, 4), torch.zeros(2, 4))
        loss = loss / 2
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
    if iter_num > 2:
        break
"""
# The same groups, made beside the loop.
LISTED = PLAIN.replace(
    "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)",
    """decay, rest = [], []
for name, parameter in model.named_parameters():
    (decay if parameter.dim() > 1 else rest).append(parameter)
groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
optimizer = torch.optim.AdamW(groups, lr=1e-3)""",
)
METHOD = """import torch


class Job:
    def __init__(self):
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(params=self.model.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu", enabled=False)

    def train(self):
        for step in range(2):
            loss = self.model(torch.ones(2, 4)).sum()
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()


Job().train()
"""
SCRIPTS = {
    "plain": PLAIN,
    "guarded": GUARDED,
    "scaled": SCALED,
    "grouped": GROUPED,
    "listed": LISTED,
    "method": METHOD,
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS)
def test_the_lines_trace_the_script(tmp_path: Path, text: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(patched(text))
    environment = {"PYTHONPATH": ":".join(sys.path), "TTRACE_OUT": str(tmp_path / "ref.h5")}
    done = run_python([path], timeout=300, environment=environment)
    assert done.returncode == 0, done.stderr
    kinds = {entry["kind"] for entry in Trace(tmp_path / "ref.h5").entries.values()}
    assert {"param", "output", "param_grad", "main_grad", "param_after_step", "loss"} <= kinds
    script = Script(path.read_text(), "train.py")
    assert script.is_traced()


def test_the_patch_is_one_that_patch_takes(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PLAIN)
    assert main(["doctor", "train.py"]) == 1
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "NOT READY  train.py: lines"
    diff = "".join(line[6:] + "\n" for line in said.splitlines() if line.startswith("      "))
    subprocess.run(
        ["git", "apply", "-p0", "--unidiff-zero", "-"], input=diff, text=True, check=True
    )
    assert Path("train.py").read_text() == patched(PLAIN)
    assert main(["doctor", "train.py"]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0] == "READY  train.py can be traced"
    assert said.splitlines()[-2] == "next  TTRACE_OUT=ref.h5 python train.py"
    assert "– model      not looked at: without `if __name__" in said


@pytest.mark.parametrize(
    "text",
    [
        "from transformers import Trainer\ntrainer = Trainer(model)\n",
        "import transformers as hf\ntrainer = hf.Seq2SeqTrainer(model)\n",
        "from trl import SFTTrainer\ntrainer = SFTTrainer(model)\n",
        "from transformers import Trainer\nclass Mixin: pass\n"
        "class Base(Mixin, Trainer): pass\nclass OwnTrainer(Base): pass\n"
        "trainer = OwnTrainer(model)\n",
    ],
)
def test_trainers_of_transformers(text: str) -> None:
    assert added(text + "trainer.train()\n") == [
        "import ttrace_torch as tt",
        "trainer.add_callback(tt.trainer_callback(trainer))",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "import lightning as L\ntrainer = L.Trainer(max_steps=1)\n",
        "from lightning.pytorch import Trainer\ntrainer = Trainer(max_steps=1)\n",
        "import pytorch_lightning as pl\ntrainer = pl.Trainer(max_steps=1)\n",
    ],
)
def test_trainers_of_lightning(text: str) -> None:
    lines = ["import ttrace_torch.lightning"]
    lines += ["trainer.callbacks.append(ttrace_torch.lightning.Callback())"]
    assert added(text + "trainer.fit(model)\n") == lines
    assert Script(patched(text), "train.py").is_traced()


def test_another_class_called_trainer() -> None:
    """Whose it is the text does not say, so that nothing of transformers is proposed."""
    own = "class Trainer:\n    pass\n\n\ntrainer = Trainer()\n"
    assert "tracer = tt.trace(model, optimizer)" in added(own + PLAIN)
    assert not any("add_callback" in line for line in added(own + PLAIN))
    for text in (own, "class A(B): pass\nclass B(A): pass\ntrainer = MyTrainer(A)\n"):
        with pytest.raises(UnclearScript, match="Trainer is a Trainer of transformers does not"):
            Script(text, "train.py").patch()


def test_the_model_of_grouped_parameters() -> None:
    assert "tracer = tt.trace(model, optimizer)" in added(GROUPED)
    assert "loss = tracer.loss(loss / 2)" in added(GROUPED)
    assert "tracer = tt.trace(model, optimizer)" in added(LISTED)
    assert "tracer = tt.trace(self.model, self.optimizer)" in added(METHOD)
    elsewhere = GROUPED.replace("model.configure_optimizers(1e-1, 1e-3)", "made(model)")
    with pytest.raises(UnclearScript, match="no optimizer of torch.optim is made where"):
        Script(elsewhere, "train.py").patch()


def test_frameworks() -> None:
    text = "import deepspeed\nengine, _, _, _ = deepspeed.initialize(model=m)\n"
    text += "for batch in data:\n    loss = engine(batch)\n    engine.backward(loss)\n"
    text += "    engine.step()\n"
    assert "tracer = tt.trace(engine)" in added(text)
    assert "loss = tracer.loss(engine(batch))" in added(text)
    wrapped = PLAIN.replace(
        "for epoch", "ddp = nn.parallel.DistributedDataParallel(model)\nfor epoch"
    )
    assert "tracer = tt.trace(ddp, optimizer)" in added(wrapped)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import torch\n", "has no backward"),
        ("loss.backward()\n", "has no step() of an optimizer"),
        (PLAIN + "loss.backward()\n", "several of backward()"),
        (
            PLAIN.replace("        optimizer.step()", "        if batch: optimizer.step()"),
            "condition",
        ),
        (PLAIN.replace("torch.optim.AdamW(model.parameters(), lr=1e-3)", "make()"), "no optimizer"),
        (PLAIN.replace("AdamW(model.parameters()", "AdamW(groups"), "which model optimizer trains"),
        (
            PLAIN.replace("x = torch", '"""two\nlines"""\n        x = torch'),
            "text of several lines",
        ),
        ("for b in d: loss.backward(); optimizer.step()\n", "no optimizer of torch.optim"),
        (PLAIN.replace("loss.backward", "model(x).mean().backward"), "the loss has no name here"),
        ("def f():\n    loss.backward()\n    optimizer.step()\n", "stands elsewhere"),
    ],
)
def test_what_the_text_does_not_say_is_not_guessed(
    text: str, why: str, tmp_path: Path, capsys
) -> None:
    with pytest.raises(UnclearScript, match=why.replace("(", r"\(").replace(")", r"\)")):
        Script(text, "train.py").patch()
    path = tmp_path / "train.py"
    path.write_text(text)
    assert main(["doctor", str(path)]) == 1
    assert "      tracer = tt.trace(model, optimizer)" in capsys.readouterr().out


def model_line(text: str, folder: Path, capsys) -> str:
    path = folder / "train.py"
    path.write_text(text)
    main(["doctor", str(path)])
    return next(line for line in capsys.readouterr().out.splitlines() if line[4:9] == "model")


@pytest.fixture
def forked_python(tmp_path: Path, monkeypatch) -> None:
    """Where this interpreter is asked for, there is one that has imported torch already."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {shlex.join(python_command())} "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))


def test_the_model_is_looked_at_where_importing_trains_nothing(
    tmp_path: Path, capsys, forked_python
) -> None:
    line = model_line(GUARDED, tmp_path, capsys)
    assert line == "  ✓ model      model, a Sequential of 5 parameters"
    line = model_line(GUARDED.replace("Dropout(0.0)", "Dropout(0.1)"), tmp_path, capsys)
    assert line.startswith(
        "  ✗ model      model: dropout is active in 1; set it to 0 in traced runs"
    )
    line = model_line("import no_such_package\n" + GUARDED, tmp_path, capsys)
    assert "importing the script fails (no_such_package cannot be found): ModuleNotFou" in line
    line = model_line("raise SystemExit(3)\n" + GUARDED, tmp_path, capsys)
    assert "importing the script fails: SystemExit: 3" in line
    line = model_line(GUARDED.replace("model = nn", "train = nn"), tmp_path, capsys)
    assert "not looked at" in line
    # A loop that importing would run.
    marker = tmp_path / "trained"
    at_once = GUARDED + f"open({str(marker)!r}, 'w')\ntrain(model)\n"
    assert "importing the script would train" in model_line(at_once, tmp_path, capsys)
    assert not marker.exists()


# What an import does -> how the line of the model goes on behind "not looked at: importing the
# script ", and the first mark.
ENDS = {
    "import os\nos._exit(0)": ("✗", "ended Python with exit code 0"),
    "import os\nos._exit(1)": ("✗", "ended Python with exit code 1"),
    "import sys\nsys.exit()": ("✗", "fails: SystemExit: "),
    "raise SystemExit(0)": ("✗", "fails: SystemExit: 0"),
    "raise SystemExit(3)": ("✗", "fails: SystemExit: 3"),
    "while True: pass": ("✗", "has not ended after 4 s, and was ended"),
    "import os, time\nos.close(1); os.close(2); time.sleep(1e6)": ("✗", "has not ended after"),
    "import ctypes\nctypes.string_at(0)": ("✗", "ended Python by SIGSEGV"),
    "import os\nos.kill(os.getpid(), 9)": ("✗", "ended Python by SIGKILL"),
    "import os\nprint('{\"models\": []}', flush=True); os._exit(0)": (
        "✗",
        'ended Python with exit code 0; the last line that it printed: {"models": []}',
    ),
    "import os\nif os.fork(): os._exit(0)": ("✗", "ended Python with exit code 0"),
    "input('go on? ')": ("–", "fails: EOFError: EOF when reading a line"),
    "import argparse\np = argparse.ArgumentParser(); p.add_argument('data'); p.parse_args()": (
        "–",
        "fails: SystemExit: 2",
    ),
    "import no_such_package": ("–", "fails (no_such_package cannot be found): ModuleNotFoundError"),
    "raise RuntimeError('no GPU')": ("–", "fails: RuntimeError: no GPU"),
}


@pytest.mark.parametrize("first", ENDS, ids=range(len(ENDS)))
def test_an_import_that_ends_is_told(first: str, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setattr("ttrace_torch.doctor.imported._LIMIT_SECONDS", 4.0)
    path = tmp_path / "train.py"
    path.write_text(f"{first}\n{patched(GUARDED)}")
    code = main(["doctor", str(path)])
    headline, *lines = capsys.readouterr().out.splitlines()
    mark, told = ENDS[first]
    (line,) = (line for line in lines if line[4:9] == "model")
    assert line.startswith(f"  {mark} model      not looked at: importing the script {told}")
    assert code == (1 if mark == "✗" else 0)
    assert headline.startswith("NOT READY" if mark == "✗" else "READY")


# What an import does besides, and still makes its model, each in a process that imports torch.
PRINTS = "print('x' * 10_000_000 + '{\"models\": []}')\nimport beside\nassert beside.here"
FOLDER = "import os, tempfile, torch\nos.chdir(tempfile.mkdtemp()); os.rmdir(os.getcwd())"
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=[1e3]).start()"
FORK = "import os\nos.fork()\nos.closerange(0, 256)"
ARGUMENTS = "import argparse, sys\nassert argparse.ArgumentParser().parse_args()"
GOES_ON = {
    "arguments, prints, thread, folder": [ARGUMENTS, PRINTS, THREAD, FOLDER],
    "fork": [FORK],
}


@pytest.mark.parametrize("first", GOES_ON.values(), ids=GOES_ON)
def test_an_import_that_goes_on_is_looked_at(first: list[str], tmp_path: Path, capsys) -> None:
    (tmp_path / "beside.py").write_text("here = True\n")
    line = model_line("\n".join([*first, GUARDED]), tmp_path, capsys)
    assert line == "  ✓ model      model, a Sequential of 5 parameters"


def test_no_process_is_left(tmp_path: Path, capsys) -> None:
    marker = tmp_path / "children"
    first = (
        "import os, subprocess\nif not os.fork():\n    while True: pass\n"
        "found = [subprocess.Popen(['sleep', '1000']).pid for _ in range(5)]\n"
        f"open({str(marker)!r}, 'w').write(' '.join(map(str, found)))\nos._exit(0)\n"
    )
    model_line(first + GUARDED, tmp_path, capsys)
    left = {Path("/proc", child, "stat") for child in marker.read_text().split()}
    until = time.monotonic() + 10
    while left and time.monotonic() < until:
        # Whoever took them over may leave them as zombies.
        left = {path for path in left if path.exists() and ") Z" not in path.read_text()}
    assert not left


@pytest.mark.parametrize(
    ("test", "guards"),
    [
        ('if __name__ == "__main__":', True),
        ('if "__main__" == __name__:', True),
        ('if __name__ == "__main__" and torch:', True),
        ('if not __name__ != "__main__":', True),
        ('if __name__ != "__main__":\n\tpass\nelse:', True),
        ('if __name__ == "__main__" or torch:', False),
        ('if __name__ != "__main__":', False),
        ('if not __name__ == "__main__":', False),
        ('if "__main__" == "x":', False),
        ('if "__main__" == "__main__":', False),
        ('if __name__ == "main":', False),
        ('if "__main__":', False),
        ('if str("__main__"):', False),
        ('if __name__ == "__main__":\n\tpass\nelse:', False),
    ],
)
def test_a_guard_holds_back_what_imports_would_run(test: str, guards: bool) -> None:
    text = GUARDED.replace('if __name__ == "__main__":', test)
    assert Script(text, "train.py").has_guard() is guards
    beside = text.replace("\ttrain(model)", "\tpass") + "train(model)\n"
    assert not Script(beside, "train.py").has_guard()


def test_what_is_no_script(tmp_path: Path, capsys) -> None:
    for name, content, said in [
        ("none.py", None, "No such file"),
        ("bytes.py", b"\xff\xfe\x00", "is no text in UTF-8"),
        ("broken.py", b"for x in:\n", "is no Python that"),
        ("nul.py", b"a = 1\0\n", "is no Python that"),
    ]:
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        assert main(["doctor", str(path)]) == 2
        captured = capsys.readouterr()
        assert said in captured.err and captured.out == "" and captured.err.count("\n") == 1
    assert (
        main(["doctor"]) == 2 and "usage: python -m ttrace_torch doctor" in capsys.readouterr().err
    )


def fake_program(path: Path, version: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'ttrace {version}'\n")
    path.chmod(0o755)
    return path


def line_of_program(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    main(["doctor", str(path)])
    lines = capsys.readouterr().out.splitlines()
    return next(line for line in lines if line[4:].startswith("program"))


def test_the_program_is_found_wherever_commands_find_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(PLAIN)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("TTRACE", raising=False)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "env" / "python"))
    assert "comparing needs the program somewhere" in line_of_program(script, capsys)
    beside = fake_program(tmp_path / "env" / "ttrace", __version__)
    assert line_of_program(script, capsys).endswith(f"ttrace {__version__}, {beside}")
    on_path = fake_program(tmp_path / "path" / "ttrace", "0.0.1")
    assert f"{on_path} says 'ttrace 0.0.1'" in line_of_program(script, capsys)
    named = fake_program(tmp_path / "named", __version__)
    monkeypatch.setenv("TTRACE", str(named))
    assert line_of_program(script, capsys).endswith(str(named))
    monkeypatch.setenv("TTRACE", str(tmp_path / "nowhere"))
    assert "No such file" in line_of_program(script, capsys)
    alone = "import sys; from ttrace_command import main; sys.exit(main())"
    folder = Path(__file__).parents[2] / "lib" / "torch"
    named.write_text(f"#!/bin/sh\nPYTHONPATH={folder} exec {PYTHON} -c '{alone}'\n")
    monkeypatch.setenv("TTRACE", str(named))
    assert f"{named} is none (ttrace: only the collector for PyTorch is installed here" in (
        line_of_program(script, capsys)
    )
    script.write_text(patched(PLAIN))
    assert main(["doctor", str(script)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        f"READY  {script} can be traced; comparing needs the program somewhere\n"
    )
    assert "ttrace run" not in said


def test_without_torch_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(patched(PLAIN))
    folder = Path(__file__).parents[2] / "lib" / "torch"
    # Neither torch nor anything else that was installed.
    command = "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]; "
    command += f"sys.path.append({str(folder)!r}); sys.argv = ['-m', 'doctor', 'train.py']; "
    command += "import runpy; runpy.run_module('ttrace_torch', run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-S", "-c", command], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.startswith("NOT READY  train.py: torch\n")
    assert f"✗ torch      {sys.executable} has no torch, h5py, numpy; run" in done.stdout
