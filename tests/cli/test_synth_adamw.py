"""`ttrace synth --adamw`: the step follows from its inputs, as torch and the replay make it."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import torch

from .conftest import Run
from .small_traces import check_answer, check_refused

STEP = ["--adamw", "--tensors", "2", "--shape", "48x20"]


def synth(ttrace: Run, output: Path, *flags: str) -> Path:
    check_answer(ttrace("synth", "-o", output, *STEP, *flags), 0, "WROTE  10 tensors")
    return output


def values(trace: Path, kind: str, name: str) -> torch.Tensor:
    with h5py.File(trace) as file:
        return torch.from_numpy(file[f"step_000000/{kind}/{name}"][()])


def test_the_update_is_that_of_torch(ttrace: Run, tmp_path: Path) -> None:
    trace = synth(ttrace, tmp_path / "ref.h5", "--seed", "3")
    for name in ("tensor.0", "tensor.1"):
        param = torch.nn.Parameter(values(trace, "param", name))
        param.grad = values(trace, "main_grad", name)
        adamw = torch.optim.AdamW([param], lr=1e-3, weight_decay=0.01)
        adamw.state[param] = {
            "step": torch.tensor(9.0),
            "exp_avg": values(trace, "optimizer_state", f"{name}.exp_avg"),
            "exp_avg_sq": values(trace, "optimizer_state", f"{name}.exp_avg_sq"),
        }
        adamw.step()
        after = values(trace, "param_after_step", name)
        torch.testing.assert_close(after, param.data, rtol=3e-7, atol=1e-9)
        assert not torch.equal(after, values(trace, "param", name))


def test_a_replay_finds_every_update_right_and_a_scaled_one_wrong(
    ttrace: Run, tmp_path: Path
) -> None:
    ref = synth(ttrace, tmp_path / "ref.h5")
    noise = synth(ttrace, tmp_path / "noise.h5", "--noise", "1", "--noise-seed", "2")
    cut = ["--mesh", "tp=2", "--place", "tp=shard:1", "--noise", "1"]
    healthy = synth(ttrace, tmp_path / "healthy", *cut)
    fault = ["--fault", "scaled=1.001@param_after_step/tensor.1"]
    faulty = synth(ttrace, tmp_path / "faulty", *cut, *fault)
    for run, code, wrong in ((healthy, 0, []), (faulty, 1, ["tensor.1"])):
        report = tmp_path / f"{run.name}.json"
        done = ttrace("compare", ref, run, "--noise", noise, "--json", report)
        assert done.returncode == code, done.stdout
        results = json.loads(report.read_text(encoding="utf-8"))["results"]
        updates = [one for one in results if one["key"]["kind"] == "param_after_step"]
        assert [one["replay"]["optimizer"] for one in updates] == ["adamw", "adamw"]
        assert [one["key"]["name"] for one in updates if one["outcome"] == "diverged"] == wrong


def test_a_step_is_of_parameters(ttrace: Run, tmp_path: Path) -> None:
    for flags in (["--kind", "output", "--shape", "4"], ["--spec", "model.json"]):
        done = ttrace("synth", "-o", tmp_path / "x.h5", "--adamw", *flags)
        check_refused(done, "--adamw", flags[0])
