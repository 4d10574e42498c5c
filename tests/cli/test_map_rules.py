"""compare --map: a run with another framework's names, fusions, padding and orientation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.reports import findings, read_report
from support.text_report import evidence
from support.ttrace_cli import DIVERGED, INCONCLUSIVE

from .conftest import Run
from .rank_files import Held, add_to, entry, mesh, write_json, write_run, write_single
from .small_traces import SWAPPED, check_answer, check_diverged, check_match, check_refused

GROUPS, HIDDEN, VOCABULARY, PADDED = 4, 6, 50, 56
TP = {"": mesh(tp=2)}

# Names of a Hugging Face model made to meet Megatron's.
HF_TO_MEGATRON = [
    {
        "from": [f"model.layers.{{i}}.self_attn.{x}_proj.{{w}}" for x in "qkv"],
        "to": "decoder.layers.{i}.self_attention.linear_qkv.{w}",
        "concat": {"dim": 0, "groups": GROUPS},
    },
    {
        "from": "model.layers.{i}.mlp.gate_up_proj.{w}",
        "to": ["decoder.layers.{i}.mlp.gate.{w}", "decoder.layers.{i}.mlp.up.{w}"],
        "split": {"dim": 0},
    },
    {
        "from": "lm_head.weight",
        "to": "output_layer.weight",
        "trim": {"dim": 0, "size": VOCABULARY},
    },
    {
        "from": "model.layers.{i}.mlp.down_proj.weight",
        "to": "decoder.layers.{i}.mlp.fc2.weight",
        "transpose": [1, 0],
    },
    {"from": "model.{rest...}", "to": "decoder.{rest}"},
]
QKV = "decoder.layers.0.self_attention.linear_qkv.weight"
K = entry("model.layers.0.self_attn.k_proj.weight", (12, HIDDEN))


def weights() -> dict[str, np.ndarray]:
    """Whole tensors by the names of the candidate."""
    random = np.random.default_rng(0)
    shapes = {
        "model.layers.0.self_attn.q_proj.weight": (24, HIDDEN),
        "model.layers.0.self_attn.k_proj.weight": (12, HIDDEN),
        "model.layers.0.self_attn.v_proj.weight": (12, HIDDEN),
        "model.layers.0.mlp.gate_up_proj.weight": (10, HIDDEN),
        "model.layers.0.mlp.down_proj.weight": (HIDDEN, 5),
        "model.layers.0.norm.weight": (HIDDEN,),
        "lm_head.weight": (PADDED, HIDDEN),
    }
    return {name: random.standard_normal(shape).astype("f4") for name, shape in shapes.items()}


def megatron(w: dict[str, np.ndarray]) -> list[tuple[dict, np.ndarray]]:
    """The same as the reference has them."""
    q, k, v = (w[f"model.layers.0.self_attn.{x}_proj.weight"] for x in "qkv")
    per_group = [np.split(part, GROUPS) for part in (q, k, v)]
    gate, up = np.split(w["model.layers.0.mlp.gate_up_proj.weight"], 2)
    tensors = {
        QKV: np.concatenate([part[g] for g in range(GROUPS) for part in per_group]),
        "decoder.layers.0.mlp.gate.weight": gate,
        "decoder.layers.0.mlp.up.weight": up,
        "decoder.layers.0.mlp.fc2.weight": w["model.layers.0.mlp.down_proj.weight"].T,
        "decoder.layers.0.norm.weight": w["model.layers.0.norm.weight"],
        "output_layer.weight": w["lm_head.weight"][:VOCABULARY],
    }
    return [(entry(name, array.shape), array) for name, array in tensors.items()]


def sharded(w: dict[str, np.ndarray]) -> list[tuple[dict, Held]]:
    """The candidate's, over two tensor-parallel ranks."""
    tensors: list[tuple[dict, Held]] = []
    for name, array in w.items():
        if "norm" in name:
            placement, parts = "replicate", [array, array]
        elif "gate_up" in name:
            placement = {"shard": 0, "segments": [5, 5]}
            gate, up = np.split(array, 2)
            parts = [np.concatenate([gate[:3], up[:3]]), np.concatenate([gate[3:], up[3:]])]
        else:
            dim = 1 if "down" in name else 0
            placement, parts = {"shard": dim}, np.array_split(array, 2, axis=dim)
        described = entry(name, array.shape, placements={"tp": placement})
        tensors.append((described, dict(enumerate(parts))))
    return tensors


def write_models(folder: Path) -> tuple[Path, Path, Path]:
    reference = write_single(folder / "ref.h5", megatron(weights()))
    run = write_run(folder / "run", TP, 2, sharded(weights()))
    rules = {"schema": "ttrace.map/2", "candidate": HF_TO_MEGATRON}
    return reference, run, write_json(folder / "map.json", rules)


def compared(ttrace: Run, folder: Path, *arguments: str | Path) -> tuple[str, dict]:
    done = ttrace("compare", *arguments, "--json", folder / "report.json")
    report = read_report(folder / "report.json")
    assert done.returncode == report["exit_code"]
    return done.stdout, report


def test_a_model_with_other_names_matches(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    check_match(ttrace("compare", reference, run, "--map", rules), 6)
    text, report = compared(ttrace, tmp_path, reference, run, "--map", rules)
    assert f"tensors mapped by {rules}" in text
    assert {result["difference_norm"] for result in report["results"]} == {0}


def test_rules_may_be_the_references(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    write_json(rules, {"schema": "ttrace.map/2", "reference": HF_TO_MEGATRON})
    check_match(ttrace("compare", run, reference, "--map", rules), 6, SWAPPED)
    noise = {"seed": 1, "epsilon": 1e-7, "at": "(model)"}
    perturbed = write_run(tmp_path / "noise", TP, 2, sharded(weights()), run={"noise": noise})
    check_match(ttrace("compare", run, reference, "--map", rules, "--noise", perturbed), 6, SWAPPED)


def test_an_error_in_one_part_on_one_rank_is_found_there(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    add_to(run, 1, K, (1, 2), 1)
    text, report = compared(ttrace, tmp_path, reference, run, "--map", rules)
    check_answer(ttrace("compare", reference, run, "--map", rules), DIVERGED, "DIVERGED  ")
    assert f"\n  first at {QKV} · param · step 0" in text
    [finding] = findings(report)
    assert finding["ranks"] == [1]
    # Row 7 of k is row 1 of group 2, whose rows begin at 24, with six of q before those of k.
    lines = evidence(text)
    assert "k_proj" in lines["where"]
    assert "on rank 1" in lines["where"]
    assert "1 of 6 shards differ" in lines["where"]
    assert lines["largest"].startswith("|d| = 1 at [31, 2]: ")
    assert lines["largest"].endswith("(rank 1 at [1, 2])")
    assert lines["merged"].startswith("[48, 6] made of model.layers.0.self_attn.q_proj.weight, ")
    assert report["counts"]["match"] == 5


def test_an_error_in_one_half_of_a_split_is_that_halfs(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    add_to(run, 0, entry("model.layers.0.mlp.gate_up_proj.weight", ()), (4, 1), 1)
    text, report = compared(ttrace, tmp_path, reference, run, "--map", rules)
    assert "\n  first at decoder.layers.0.mlp.up.weight" in text
    assert report["counts"]["diverged"] == 1
    assert "|d| = 1 at [1, 1]" in text
    assert "(rank 0 at [4, 1])" in text
    assert "cut from model.layers.0.mlp.gate_up_proj.weight" in text


def test_an_error_in_a_transposed_tensor_has_both_places(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    add_to(run, 1, entry("model.layers.0.mlp.down_proj.weight", ()), (4, 1), 1)
    text, _ = compared(ttrace, tmp_path, reference, run, "--map", rules)
    assert "\n  first at decoder.layers.0.mlp.fc2.weight" in text
    assert "|d| = 1 at [4, 4]" in text
    assert "(rank 1 at [4, 1])" in text


def test_what_is_trimmed_is_not_compared(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    head = entry("lm_head.weight", ())
    add_to(run, 1, head, (PADDED // 2 - 1, 0), 9)
    done = ttrace("compare", reference, run, "--map", rules)
    check_match(done, 6)
    assert "; 6 rows of 1 tensor left out" in done.stdout
    add_to(run, 1, head, (VOCABULARY - PADDED // 2 - 1, 0), 9)
    done = ttrace("compare", reference, run, "--map", rules)
    check_diverged(done, "output_layer.weight")
    assert "|d| = 9 at [49, 0]" in done.stdout


def test_padding_must_be_zero_on_the_other_side(ttrace: Run, tmp_path: Path) -> None:
    values = np.arange(1, 7, dtype="f4").reshape(3, 2)
    padded = np.concatenate([values, np.zeros((1, 2), "f4")])
    reference = write_single(tmp_path / "ref.h5", [(entry("a", (4, 2)), padded)])
    run = write_single(tmp_path / "run.h5", [(entry("b", (3, 2)), values)])
    rule = {"from": "b", "to": "a", "pad": {"dim": 0, "size": 4}}
    rules = write_json(tmp_path / "map.json", {"schema": "ttrace.map/2", "candidate": [rule]})
    check_match(ttrace("compare", reference, run, "--map", rules), 1)
    padded[3, 1] = 5
    write_single(reference, [(entry("a", (4, 2)), padded)])
    done = ttrace("compare", reference, run, "--map", rules)
    check_diverged(done, "a · param")
    assert "padding" in done.stdout


def test_without_a_map_the_nearest_names_of_the_same_shape_are_told(
    ttrace: Run, tmp_path: Path
) -> None:
    reference, run, rules = write_models(tmp_path)
    text, report = compared(ttrace, tmp_path, reference, run)
    assert report["verdict"] == "inconclusive"
    assert "decoder.layers.0.norm.weight [6]  candidate model.layers.0.norm.weight" in text
    assert "--map" in text
    nearest = {result["key"]["name"]: result.get("nearest") for result in report["results"]}
    assert nearest["decoder.layers.0.norm.weight"] == ["model.layers.0.norm.weight"]
    assert nearest["model.layers.0.norm.weight"] == ["decoder.layers.0.norm.weight"]
    assert not nearest[QKV]  # nothing else has its shape


def test_tensors_of_which_others_are_missing_are_warned_of(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    tensors = [(e, held) for e, held in sharded(weights()) if "v_proj" not in e["name"]]
    run = write_run(tmp_path / "without", TP, 2, tensors)
    done = ttrace("compare", reference, run, "--map", rules)
    check_answer(done, DIVERGED, "DIVERGED  ", first=f"{QKV}")
    warnings = done.stderr.splitlines()
    assert len(warnings) == 2
    for warning, part in zip(warnings, "qk", strict=True):
        assert warning.startswith(
            f"ttrace: warning: {rules}: /candidate/0: model.layers.0.self_attn"
        )
        assert f"{part}_proj.weight" in warning
        assert "there is no model.layers.0.self_attn.v_proj.weight to join it with" in warning


def test_a_rule_that_does_not_fit_stops_the_comparison(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    fused = {"from": "model.{n...}", "to": "x.{n}"}

    def refused(rule: dict, *fragments: str) -> None:
        write_json(rules, {"schema": "ttrace.map/2", "candidate": [rule]})
        check_refused(ttrace("compare", reference, run, "--map", rules), rules, *fragments)

    refused(fused | {"transpose": [1, 0]}, "/candidate/0", "[6]", "permutation")
    refused({"from": "model.layer", "to": "x"}, "/candidate/0/from", "nearest names are")
    refused({"from": "{a...}", "to": "x"}, "two tensors would be x")
    refused({"from": "{a}.weight", "to": "{b}"}, "/candidate/0", "{b}")
    refused(
        {"from": "lm_head.weight", "to": ["a", "b"], "split": {"dim": 0, "sizes": [50, 5]}},
        "/candidate/0",
        "[56, 6]",
        "55 of 56",
    )


def test_an_empty_pair_of_traces_has_no_tensor_for_a_rule(ttrace: Run, tmp_path: Path) -> None:
    empty = write_single(tmp_path / "ref.h5", [])
    assert ttrace("compare", empty, empty).returncode == INCONCLUSIVE
    rule = {"schema": "ttrace.map/2", "candidate": [{"from": "a", "to": "b"}]}
    rules = write_json(tmp_path / "map.json", rule)
    check_refused(ttrace("compare", empty, empty, "--map", rules), "matches a")


def test_what_rules_drop_is_counted_and_told(ttrace: Run, tmp_path: Path) -> None:
    reference, run, rules = write_models(tmp_path)
    drop = {"drop": "model.layers.{i}.norm.{w}", "reason": "fused into the next layer"}
    write_json(rules, {"schema": "ttrace.map/2", "candidate": [drop, *HF_TO_MEGATRON]})
    text, report = compared(ttrace, tmp_path, reference, run, "--map", rules, "--common")
    assert f"dropped: 1 tensor: {drop['reason']}\n" in text
    assert report["map_dropped"] == [
        {"rule": "/candidate/0", "reason": drop["reason"], "tensors": 1}
    ]
    # The reference's norm, a parameter, is left over.
    assert report["verdict"] == "inconclusive"
    check_diverged(ttrace("compare", reference, run, "--map", rules), "decoder.layers.0.norm")


def test_one_tensor_under_several_names_is_compared_with_each(ttrace: Run, tmp_path: Path) -> None:
    array = np.arange(8, dtype="f4").reshape(4, 2)
    names = [f"self_attn.{x}_proj" for x in "qkv"]
    apart = [(entry(name, (4, 2), "input"), array) for name in names]
    reference = write_single(tmp_path / "ref.h5", apart)
    run = write_single(tmp_path / "run.h5", [(entry("attn.qkv", (4, 2), "input"), array)])
    rule = {"from": "attn.qkv", "to": names, "kind": "input", "same": True}
    rules = write_json(
        tmp_path / "map.json", {"schema": "ttrace.map/2", "candidate": [rule]}
    )  # fmt: skip
    check_match(ttrace("compare", reference, run, "--map", rules), 3)
    wrong = [*apart[:2], (apart[2][0], array + 1)]
    other = write_single(tmp_path / "other.h5", wrong)
    check_diverged(ttrace("compare", other, run, "--map", rules), "self_attn.v_proj · input")
