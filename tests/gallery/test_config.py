"""Runs that make no sense are refused in one sentence, before any process waits for another."""

import pytest

from gallery.config import Config, ConfigError, parse
from gallery.launch import launch


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 6}, "--hidden 32 is not divisible by --heads 6"),
        ({"tp": 3, "heads": 4}, "--heads 4 is not divisible by --tp 3"),
        ({"tp": 4, "ffn_hidden": 66}, "--ffn-hidden 66 is not divisible by --tp 4"),
        ({"tp": 2, "vocabulary": 49}, "--vocabulary 49 is not divisible by --tp 2"),
        ({"tp": 2, "sp": True, "sequence": 15}, "--sequence 15 is not divisible by --tp 2"),
        ({"tp": 0}, "--heads 4 is not divisible by --tp 0"),
        ({"dp": 2, "microbatches": 3}, "--microbatches 3 is not divisible by --dp 2"),
        ({"pp": 3}, "--pp 3: each of the --layers 2 has one stage"),
        ({"cp": 3}, "--sequence 16 is not divisible by twice --cp 6"),
        (
            {"cp": 4, "tp": 4, "sp": True, "sequence": 8},
            "--cp's part of --sequence 2 is not divisible by --tp 4",
        ),
        ({"zero": True}, "--zero cuts gradients and state over dp: it needs --dp 2 or more"),
        ({"optimizer": "lion"}, "--optimizer lion: known are sgd, adamw"),
        ({"ep": 2}, "--ep cuts experts: it needs --experts"),
        (
            {"experts": 3, "ep": 2, "dp": 2, "microbatches": 2},
            "--experts 3 is not divisible by --ep 2",
        ),
        ({"experts": 2, "ep": 2}, "--dp times --cp times --tp 1 is not divisible by --ep 2"),
        ({"experts": 2, "top_k": 3}, "--top-k 3: there are --experts 2"),
        (
            {"experts": 2, "tp": 2},
            "--experts with --tp needs --sp: each rank routes its own tokens",
        ),
        (
            {"experts": 2, "dp": 2, "microbatches": 2, "zero": True},
            "--zero with --experts: buckets of experts are not made",
        ),
        (
            {"experts": 2, "precision": "fp8"},
            "--precision fp8 with --experts: their products are not emulated",
        ),
        (
            {"experts": 2, "tp": 2, "sp": True, "expert_tp": True},
            "--expert-tp cuts every expert over tp: it goes without --sp and --ep",
        ),
        (
            {"multi_query": True, "precision": "fp8"},
            "--multi-query goes without --sp and --precision fp8",
        ),
        ({"dropout": 1.0}, "--dropout 1.0: this is a probability less than 1"),
        (
            {"packed": True, "dp": 2, "microbatches": 2, "zero": True},
            "--packed needs --zero, --pp 2 or more, and --steps 1",
        ),
        ({"vpp": 2}, "--vpp needs --pp 2 or more, and goes without --recompute"),
        (
            {"vpp": 2, "pp": 2, "layers": 6},
            "--layers 6 is not divisible by --pp times --vpp 4",
        ),
        (
            {"delayed_scaling": True},
            "--delayed-scaling is of FP8: it needs --precision fp8",
        ),
        ({"sp": True}, "--sp shards the sequence over tp: it needs --tp 2 or more"),
        ({"precision": "fp4"}, "--precision fp4: known are fp32, bf16, fp16, fp8"),
        ({"loss_scale": -1.0}, "--loss-scale -1.0: a scale is not negative"),
        ({"perturb": 1}, "--perturb makes a noise run for the trace: it needs --trace"),
    ],
)
def test_refused(options: dict, message: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        Config(**options)
    assert str(refusal.value) == message


def test_an_odd_sequence_needs_no_dividing_without_sequence_parallelism() -> None:
    assert Config(tp=2, sequence=15).features == {"tp", "tp without sp", "stage of several layers"}


def test_options_become_fields() -> None:
    config = parse(["--tp", "2", "--sp", "--bug", "P12", "--ffn-hidden", "128", "--clip", "0.5"])
    assert config == Config(tp=2, sp=True, bug=("P12",), ffn_hidden=128, clip=0.5)
    assert parse([]) == Config()


def test_a_wrong_option_ends_with_a_usage_message(capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as exit:
        parse(["--tp", "3"])
    assert exit.value.code == 2
    assert "--heads 4 is not divisible by --tp 3" in capsys.readouterr().err


def test_too_few_processes() -> None:
    run = launch("--tp", "2")
    assert run.exit_code == 2
    mesh = "pp 1 x dp 1 x cp 1 x tp 2"
    assert run.errors.endswith(f"the mesh {mesh} takes 2 processes, 1 were started\n")
    assert run.steps == []
