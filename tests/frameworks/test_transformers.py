"""Models of transformers under DDP, FSDP2, tp_plan="auto", accelerate and Trainer: each agrees with
one process, planted faults are found, and the training is the same with and without a tracer."""

from __future__ import annotations

import re

import agreement
import grid
import pytest
from agreement import entry_of
from support.text_report import answer
from support.ttrace_cli import DIVERGED, MATCH, REPOSITORY, run_ttrace

LAUNCHER = "launch_transformers.py"
ACCELERATE = {"script": "train_accelerate", "model": "llama"}
TRAINER = {"script": "train_trainer", "model": "llama"}
# Name -> the reference of one process, which noise runs belong to.
REFERENCES = {
    "llama": {"model": "llama", "kind": "plain"},
    "eager": {"model": "llama", "kind": "plain", "attention": "eager"},
    "qwen3": {"model": "qwen3", "kind": "plain", "micro_batches": 1},
    "accelerate": ACCELERATE,
    "trainer": TRAINER,
}
LONG_REFERENCES = {
    "gpt2": {"model": "gpt2", "kind": "plain"},
    "lora": {"model": "llama", "kind": "plain", "lora": True},
    "mixtral": {"model": "mixtral", "kind": "plain"},
    "qwen3_moe": {"model": "qwen3_moe", "kind": "plain", "micro_batches": 1},
}
# Name -> case, and its reference.
QUICK = {
    "llama_ddp": ({"model": "llama", "kind": "ddp", "twice": True}, "llama"),
    "llama_fsdp2": ({"model": "llama", "kind": "fsdp2"}, "llama"),
    "llama_tp": ({"model": "llama", "kind": "tp"}, "llama"),
    # With accumulation its norms' gradients are wrong: tests/frameworks/found.
    "qwen3_tp": ({"model": "qwen3", "kind": "tp", "micro_batches": 1, "twice": True}, "qwen3"),
    "accelerate_ddp": (ACCELERATE, "accelerate"),
    "trainer_ddp": ({**TRAINER, "twice": True}, "trainer"),
}
LONG = {
    "gpt2_ddp": ({"model": "gpt2", "kind": "ddp"}, "gpt2"),
    "gpt2_fsdp2": ({"model": "gpt2", "kind": "fsdp2"}, "gpt2"),
    "lora_ddp": ({"model": "llama", "kind": "ddp", "lora": True}, "lora"),
    "mixtral_ddp": ({"model": "mixtral", "kind": "ddp"}, "mixtral"),
    "mixtral_fsdp2": ({"model": "mixtral", "kind": "fsdp2"}, "mixtral"),
    "mixtral_tp": ({"model": "mixtral", "kind": "tp"}, "mixtral"),
    "llama_tp_eager": ({"model": "llama", "kind": "tp", "attention": "eager"}, "eager"),
    "qwen3_moe_tp": ({"model": "qwen3_moe", "kind": "tp", "micro_batches": 1}, "qwen3_moe"),
}
CASES = grid.cases("transformers", QUICK, LONG)
DDP, FSDP2, TP = ({"model": "llama", "kind": kind} for kind in ("ddp", "fsdp2", "tp"))
LOSS, DATA = "loss · grad_output", "(model) · input"
# Name -> the case that the fault is planted in, the fault, the reference, and what diverges first.
# Every fault and every way to train is among the quick ones.
QUICK_FAULTS = {
    "ddp_no_sync": (DDP, "no_sync", "llama", "main_grad"),
    "fsdp2_no_sync": (FSDP2, "layer_no_sync", "llama", "model.layers.1."),
    "tp_no_sync": (TP, "layer_no_sync", "llama", "model.layers.1.mlp"),
    "tp_shard": (TP, "wrong_shard", "llama", "model.layers.1.mlp.up_proj.weight · param"),
    "accelerate_swapped": (ACCELERATE, "swapped", "accelerate", DATA),
    "trainer_scale": (TRAINER, "wrong_scale", "trainer", LOSS),
}
LONG_FAULTS = {
    "ddp_scale": (DDP, "wrong_scale", "llama", LOSS),
    "ddp_swapped": (DDP, "swapped", "llama", DATA),
    "fsdp2_scale": (FSDP2, "wrong_scale", "llama", LOSS),
    "fsdp2_swapped": (FSDP2, "swapped", "llama", DATA),
    "tp_swapped": (TP, "swapped", "llama", DATA),
    "tp_scale": (TP, "wrong_scale", "llama", LOSS),
    "accelerate_no_sync": (ACCELERATE, "no_sync", "accelerate", "main_grad"),
    "accelerate_scale": (ACCELERATE, "wrong_scale", "accelerate", LOSS),
    "trainer_no_sync": (TRAINER, "no_sync", "trainer", "main_grad"),
    "trainer_swapped": (TRAINER, "swapped", "trainer", DATA),
}
FAULTS = grid.cases("transformers' faults", QUICK_FAULTS, LONG_FAULTS)


@pytest.fixture(scope="module")
def references(python, tmp_path_factory):
    used = {"eager", *(name for _, name in CASES.values())}
    wanted = {n: case for n, case in {**REFERENCES, **LONG_REFERENCES}.items() if n in used}
    noise = {
        f"{name}_noise{seed}": {**case, "noise": seed}
        for name, case in wanted.items()
        for seed in grid.SEEDS
    }
    four = {"qwen3_four": agreement.first_step({"model": "qwen3", "kind": "plain"})}
    out = tmp_path_factory.mktemp("references")
    return agreement.train(python, LAUNCHER, 1, {**wanted, **noise, **four}, out)


@pytest.fixture(scope="module")
def on_two(python, tmp_path_factory):
    cases = {name: case for name, (case, _) in CASES.items()}
    faults = {
        name: agreement.first_step({**case, "fault": fault})
        for name, (case, fault, _, _) in FAULTS.items()
    }
    accumulating = {"qwen3_accumulating": agreement.first_step({"model": "qwen3", "kind": "tp"})}
    out = tmp_path_factory.mktemp("two")
    return agreement.train(python, LAUNCHER, 2, {**cases, **faults, **accumulating}, out)


def noise_of(references, name):
    return [references / f"{name}_noise{seed}.h5" for seed in grid.SEEDS]


@pytest.mark.parametrize("name", CASES)
def test_layouts_agree_with_one_process(name, references, on_two):
    _, reference = CASES[name]
    path, noise = references / f"{reference}.h5", noise_of(references, reference)
    if name in ("mixtral_tp", "qwen3_moe_tp"):
        # What a rank computes for its share of the experts is left out.
        compared = run_ttrace("compare", path, on_two / name, "--noise", *noise)
        grid.add_row(name, on_two / name, compared.returncode, answer(compared.stdout))
        assert compared.returncode == MATCH, compared.stdout
        left = {e["tensors"] for e in grid.manifest(on_two / name)["run"]["incomplete"]}
        assert all("mlp.experts" in tensors for tensors in left)
        return
    agreement.check_agreement(name, on_two / name, path, noise)
    assert "incomplete" not in grid.manifest(on_two / name)["run"]


@pytest.mark.parametrize("name", ["llama_ddp", "llama_tp"])
def test_another_attention_is_no_bug(name, references, on_two):
    noise = noise_of(references, "eager")
    for other in (references / "llama.h5", on_two / name):
        compared = run_ttrace("compare", references / "eager.h5", other, "--noise", *noise)
        assert compared.returncode == MATCH, compared.stdout
        assert "not recorded by the other implementation" in answer(compared.stdout)
        told = " ".join(compared.stdout.split())
        assert "eager attention in the reference, sdpa in the candidate" in told


def test_a_fault_is_found_under_another_attention(references, on_two):
    one = references / "eager.h5"
    compared = run_ttrace("compare", one, on_two / "tp_no_sync", *agreement.FIRST_STEP)
    assert compared.returncode == DIVERGED, compared.stdout
    assert "first at model.layers.1.mlp" in compared.stdout


@pytest.mark.parametrize("name", FAULTS)
def test_planted_faults_are_found(name, references, on_two):
    _, _, reference, first = FAULTS[name]
    path = references / f"{reference}.h5"
    noise = noise_of(references, reference)
    done = run_ttrace("compare", path, on_two / name, *agreement.FIRST_STEP, "--noise", *noise)
    assert done.returncode == DIVERGED, done.stdout
    said = " ".join(done.stdout.split())
    where = re.search(r"first at .*? \(\d+ findings?", said)
    assert first in (where[0] if where else said.partition("finding")[0]), done.stdout


def test_sharded_heads_are_placed_by_the_graph(on_two):
    heads = entry_of(on_two / "qwen3_tp", "output", "model.layers.0.self_attn.q_norm", 0)
    assert heads["shape"] == [2, 8, 4, 8] and heads["placements"] == {"tp": {"shard": 2}}
    raw = entry_of(on_two / "qwen3_tp", "param_grad", "model.layers.0.self_attn.q_norm.weight", 0)
    assert raw["placements"] == {"tp": {"partial": "sum"}}


def test_a_bug_of_transformers_is_blamed(references, on_two):
    """Accumulated gradients of q_norm and k_norm are summed over the ranks once too often."""
    whole = references / "qwen3_four.h5"
    done = run_ttrace("compare", whole, on_two / "qwen3_accumulating")
    assert done.returncode == DIVERGED
    assert "q_norm.weight · main_grad" in done.stdout


@pytest.mark.parametrize(
    ("script", "page", "lines"),
    [
        ("train_transformers.py", "transformers.md", 7),
        ("train_accelerate.py", "accelerate.md", 8),
        ("train_trainer.py", "trainer.md", 3),
    ],
)
def test_the_user_adds_few_lines(script, page, lines):
    added = agreement.added_lines(script)
    text = (REPOSITORY / "lib" / "torch" / "docs" / page).read_text(encoding="utf-8")
    diff = text.split("```diff\n", 1)[1].split("```", 1)[0]
    assert len(added) == lines
    assert sum(line.startswith("+") for line in diff.splitlines()) == lines
