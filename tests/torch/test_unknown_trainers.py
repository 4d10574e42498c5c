"""A Trainer of torchtitan that lacks names: the rest is recorded, and the job trains on."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from ttrace_torch.torchtitan import Callback


class Trainer:
    """What the callback reads of a Trainer, but for `missing`."""

    def __init__(self, missing):
        torch.manual_seed(0)
        self.model_parts = [nn.Linear(4, 4)]
        self.own = torch.optim.SGD(self.model_parts[0].parameters(), lr=0.1)
        known = {
            "optimizers": [self.own],
            "train_step": self.trained,
            "step": 1,
            "close": lambda: None,
            "loss_fn": lambda output, labels: (output - labels).square().mean(),
            "parallel_dims": object(),
        }
        vars(self).update({name: one for name, one in known.items() if name != missing})

    def trained(self):
        output = self.model_parts[0](torch.ones(2, 4))
        loss_fn = getattr(self, "loss_fn", lambda output, labels: output.square().mean())
        loss_fn(output, torch.zeros(2, 4)).backward()
        self.own.step()
        self.own.zero_grad()


def run(path, missing):
    """Trains a step to the same weights as without a callback; returns the kinds recorded, and
    the names of scalars."""
    plain, trainer = Trainer(missing), Trainer(missing)
    plain.trained()
    callback = Callback(trainer, out=path)
    getattr(trainer, "train_step", trainer.trained)()
    getattr(trainer, "close", callback.tracer.close)()
    callback.tracer.close()
    assert torch.equal(plain.model_parts[0].weight, trainer.model_parts[0].weight)
    manifest = path / "manifest.json"
    if not manifest.exists():
        return set()
    tensors = json.loads(manifest.read_text(encoding="utf-8"))["tensors"]
    return {one["name" if one["kind"] == "scalar" else "kind"] for one in tensors}


def test_with_all_names_everything_is_recorded(tmp_path, capfd):
    kinds = run(tmp_path / "run", None)
    assert {"loss", "output", "main_grad", "param_after_step"} <= kinds
    assert "this release's" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("missing", "kept", "lost"),
    [
        ("optimizers", {"loss", "output"}, {"optimizer_state"}),
        ("loss_fn", {"output", "main_grad"}, {"loss"}),
        ("close", {"loss", "output", "main_grad"}, set()),
        ("train_step", set(), {"output"}),
        ("step", set(), {"output"}),
    ],
)
def test_what_has_no_name_is_left_out_and_told_once(tmp_path, capfd, missing, kept, lost):
    kinds = run(tmp_path / "run", missing)
    assert kept <= kinds
    assert not lost & kinds
    told = capfd.readouterr().err
    assert told.count(f"this release's Trainer has no {missing}, so ") == 1


def test_labels_are_left_out_where_their_cut_is_not_known(tmp_path):
    assert {"loss", "labels"} <= run(tmp_path / "known", None)
    recorded = run(tmp_path / "unknown", "parallel_dims")
    assert "loss" in recorded
    assert "labels" not in recorded
