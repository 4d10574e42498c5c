"""LayerNorm on a CPU under bf16 autocast adds up its gradients in bf16: a bug of torch, which is
named, and which a rule accepts without hiding another fault."""

import json

import pytest
import torch
from support.ttrace_cli import run_ttrace
from torch import nn

import ttrace_torch as tt

ROWS, WIDTH = 2048, 32
# The terms of the bias cancel: what its operands were rounded by allows as much.
BROKEN = ["norm.weight"]
RULE = {"name": ["norm.weight", "norm.bias"], "kind": "param_grad", "skip": "known bug of torch"}


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(8, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.down = nn.Linear(WIDTH, 4)

    def forward(self, x):
        return self.down(self.norm(self.up(x)))


def run_job(folder, threads=1, faulty="", by=1.05, specification=False):
    """faulty: a parameter whose gradient is multiplied by `by`."""
    model = Model()
    for name, parameter in model.named_parameters():
        if name == faulty:
            parameter.register_hook(lambda gradient: gradient * by)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(ROWS // 16, 16, 8, generator=generator)
    labels = torch.randint(4, (ROWS,), generator=generator)
    tracer = tt.trace(
        model,
        optimizer,
        out=folder / "run.h5",
        specification=folder / "specification.json" if specification else None,
    )
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with tracer.step(0):
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(x).flatten(0, 1)
            loss = nn.functional.cross_entropy(logits.float(), labels)
            tracer.loss(loss, labels=labels).backward()
            optimizer.step()
    finally:
        torch.set_num_threads(before)
    tracer.close()


def audited(folder, *rules):
    """The exit code, the text, and the causes of the broken raw gradients, by name."""
    arguments = ["--specification", folder / "specification.json", "--json", folder / "report.json"]
    if rules:
        rules_file = folder / "rules.json"
        document = {"schema": "ttrace.tolerance/1", "rules": rules}
        rules_file.write_text(json.dumps(document), encoding="utf-8")
        arguments += ["--tolerance", rules_file]
    done = run_ttrace("audit", folder / "run.h5", *arguments)
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    causes = {}
    for finding in report["findings"]:
        for key in finding["members"]:
            kind, name = key.split("/")[2:4]
            assert kind == "param_grad"
            causes[name] = finding["causes"]
    return done, causes


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_sum_in_bf16_is_named(tmp_path, threads):
    run_job(tmp_path, threads, specification=True)
    done, causes = audited(tmp_path)
    assert done.returncode == 1 and list(causes) == BROKEN
    named = causes["norm.weight"][0]
    assert named["name"] == "narrow_accumulator" and named["unexplained"] < 0.001, named
    by = f" by each of {threads} threads" if threads > 1 else ""
    assert named["evidence"].startswith(
        f"accumulated in bf16: the sum over 2048 rows, rounded to bf16 after every row{by}, "
    )


def test_rule_accepts_it_and_says_so(tmp_path):
    run_job(tmp_path, specification=True)
    done, causes = audited(tmp_path, RULE)
    assert done.returncode == 0 and not causes, done.stdout
    assert "selected tensors" in done.stdout.splitlines()[0]
    told = done.stdout + done.stderr
    assert "rule 0 leaves out 2 tensors: known bug of torch" in told


def test_rule_that_is_over_accepts_nothing(tmp_path):
    run_job(tmp_path, specification=True)
    done, causes = audited(tmp_path, RULE | {"until": "2026-01-01"})
    assert done.returncode == 1 and list(causes) == BROKEN
    assert "rule 0 has no effect" in done.stdout + done.stderr


def test_rule_hides_no_other_fault(tmp_path):
    run_job(tmp_path, specification=True)
    run_job(tmp_path, faulty="down.weight")
    done, causes = audited(tmp_path, RULE)
    assert done.returncode == 1 and list(causes) == ["down.weight"]


@pytest.mark.parametrize("by", [-1.0, 0.5, 1.25])
def test_another_fault_of_such_a_gradient_has_another_cause(tmp_path, by):
    run_job(tmp_path, specification=True)
    run_job(tmp_path, faulty="norm.weight", by=by)
    done, causes = audited(tmp_path)
    assert done.returncode == 1 and list(causes) == BROKEN
    assert "narrow_accumulator" not in [cause["name"] for cause in causes["norm.weight"]]
