"""The specification of a real step, made while it runs."""

from __future__ import annotations

import json

import h5py
import jsonschema_rs
import numpy as np
import pytest
import torch
from process_groups import run_ranks
from small_models import TiedGPT, batch, cross_entropy, seeded
from support.evaluate_specification import Evaluation
from support.ttrace_cli import MATCH, run_ttrace
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from trace_reading import SCHEMAS

import ttrace_torch as tt
from ttrace_torch.specification.marks import Marks
from ttrace_torch.specification.slicing import Slicer

VALIDATOR = jsonschema_rs.Draft202012Validator(
    json.loads((SCHEMAS / "specification.schema.json").read_text(encoding="utf-8"))
)


def clip_by_hand(parameters, limit):
    """The arithmetic of torch's clip_grad_norm_, which the collector follows by itself."""
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in parameters])
    factor = torch.clamp(limit / (norm + 1e-6), max=1.0)
    for parameter in parameters:
        parameter.grad.mul_(factor)
    return norm


def train(out=None, steps=1, microbatches=2, clip=None, dtype=torch.float32, **arguments):
    """A training of the tied GPT with accumulation; returns its parameters."""
    model = seeded(TiedGPT).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=out, **arguments)
    for step in range(steps):
        with tracer.step(step):
            for number in range(microbatches):
                with tracer.microbatch(number):
                    ids, targets = batch(seed=10 * step + number)
                    tracer.scalar("targets", targets)
                    loss = tracer.loss(cross_entropy(model(ids), targets))
                    (loss / microbatches).backward()
            if clip is not None:
                tracer.grad_norm(clip_by_hand(list(model.parameters()), clip), clip_norm=clip)
            optimizer.step()
            optimizer.zero_grad()
    tracer.close()
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def read(path):
    found = json.loads(path.read_text())
    VALIDATOR.validate(found)
    return found


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    found.pop("manifest")
    found.pop("ranges")
    return found


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float32, 4.0), (torch.bfloat16, 1.1)], ids=["fp32", "bf16"]
)
def test_every_tensor_of_every_micro_batch_follows(tmp_path, dtype, limit):
    out, path = tmp_path / "run.h5", tmp_path / "specification.json"
    train(out, steps=2, dtype=dtype, specification=path)
    specification = read(path)
    assert specification["source"]["how"] == "reference run"
    assert "opaque" not in specification
    assert specification["after_backward"] == {
        "main_grad": {"combine": "sum", "factor": 1.0},
        "tied": [["embedding.weight", "head.weight"]],
    }
    for step in range(2):
        for microbatch in range(2):
            evaluation = Evaluation(specification, out, step, microbatch)
            judgements = evaluation.judge_all()
            assert evaluation.coverage(judgements) >= 0.95
            assert max(one.error for one in judgements if one.error is not None) < limit


def test_run_and_trace_do_not_change_by_a_bit(tmp_path, monkeypatch):
    plain = train(tmp_path / "plain.h5", clip=0.5)
    monkeypatch.setenv("TTRACE_SPECIFICATION", str(tmp_path / "specification.json"))
    specified = train(tmp_path / "specified.h5", clip=0.5)
    monkeypatch.delenv("TTRACE_SPECIFICATION")
    untraced = train(clip=0.5)
    for name, value in plain.items():
        assert torch.equal(specified[name], value)
        assert torch.equal(untraced[name], value)
    one, other = datasets(tmp_path / "plain.h5"), datasets(tmp_path / "specified.h5")
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value)


def test_specification_alone(tmp_path, monkeypatch):
    beside, alone = tmp_path / "beside.json", tmp_path / "alone.json"
    train(tmp_path / "run.h5", specification=beside)
    monkeypatch.setenv("TTRACE_SPECIFICATION", str(alone))
    train(steps=2)
    one, other = read(beside), read(alone)
    assert (one["patterns"], one["tensors"]) == (other["patterns"], other["tensors"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["alone.json", "beside.json", "run.h5"]


def test_trace_of_some_kinds_has_the_whole_specification(tmp_path):
    whole, some = tmp_path / "whole.json", tmp_path / "some.json"
    train(tmp_path / "whole.h5", specification=whole)
    train(tmp_path / "some.h5", specification=some, kinds=["output"])
    assert read(whole)["tensors"] == read(some)["tensors"]
    with h5py.File(tmp_path / "some.h5") as file:
        assert list(file["step_000000/mb_0000"]) == ["output"]


def expressions(specification):
    return {
        (t["kind"], t["name"]): specification["patterns"][t["pattern"]]
        for t in specification["tensors"]
        if "pattern" in t and t["name"] != "head"
    }


def test_same_as_under_fake_tensors(tmp_path):
    path = tmp_path / "specification.json"
    train(microbatches=1, specification=path)
    real = read(path)
    ids, targets = batch()
    fake = tt.specify(
        seeded(TiedGPT),
        ids,
        loss=lambda out: cross_entropy(out, targets),
        data={"targets": targets},
    )
    # The loss of one micro-batch is divided by 1, which is no operation of `specify`.
    assert expressions(fake) == expressions(real)


@pytest.mark.parametrize("clip", [0.01, 1e6])
def test_clipping_before_the_main_gradients(tmp_path, clip):
    path = tmp_path / "specification.json"
    train(tmp_path / "run.h5", specification=path, clip=clip)
    after = read(path)["after_backward"]
    assert after["clip_norm"] == clip
    assert after["main_grad"] == {"combine": "sum", "factor": 1.0}


def test_step_that_throws_is_not_specified(tmp_path):
    model = seeded(TiedGPT)
    path = tmp_path / "specification.json"
    tracer = tt.trace(model, specification=path)
    ids, _ = batch()
    with pytest.raises(RuntimeError, match="twice"), tracer.step(0):
        model(ids)
        raise RuntimeError("twice")
    assert not path.exists()
    tracer.close()


def test_perturbed_run_has_none(tmp_path, capfd):
    path = tmp_path / "specification.json"
    train(tmp_path / "run.h5", specification=path, perturb=tt.Perturb(1))
    assert not path.exists()
    assert "perturbed or rewritten" in capfd.readouterr().err


def test_several_micro_batches_at_once_have_none(tmp_path, capfd):
    path = tmp_path / "specification.json"
    model = seeded(TiedGPT)
    ids, _ = batch()
    with tt.trace(model, specification=path) as tracer:
        with tracer.step(0), tracer.microbatch([0, 1]):
            model(ids).sum().backward()
    assert not path.exists()
    assert "one by one" in capfd.readouterr().err


def test_file_that_cannot_be_written_does_not_stop_the_job(tmp_path, capfd):
    (tmp_path / "file").write_text("")
    train(specification=tmp_path / "file" / "specification.json")
    assert "no specification" in capfd.readouterr().err


@pytest.mark.parametrize("failing", ["Slicer.cut", "Marks.__call__", "Marks.buffers"])
def test_specification_that_fails_costs_no_trace(tmp_path, monkeypatch, capfd, failing):
    def broken(*_, **__):
        raise KeyError(36)

    owner, method = failing.split(".")
    monkeypatch.setattr({"Slicer": Slicer, "Marks": Marks}[owner], method, broken)
    train(tmp_path / "with.h5", specification=tmp_path / "specification.json")
    assert not (tmp_path / "specification.json").exists()
    said = capfd.readouterr().err
    assert said.count("no specification in") == said.count("KeyError: 36") == 1
    train(tmp_path / "without.h5")
    one, other = datasets(tmp_path / "with.h5"), datasets(tmp_path / "without.h5")
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(other[name], value)


def specified(model, path, loss, microbatches=1, optimizer=None):
    """The specification of one step of a reference run; loss(number) runs the model."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    tracer = tt.trace(model, optimizer, out=path / "run.h5", specification=path / "s.json")
    with tracer.step(0):
        for number in range(microbatches):
            tracer.loss(loss(number)).backward()
        optimizer.step()
    tracer.close()
    return read(path / "s.json")


def entry(specification, kind, name):
    found = [t for t in specification["tensors"] if (t["kind"], t["name"]) == (kind, name)]
    assert len(found) == 1, found
    return found[0]


def test_sparse_gradients_of_bags_are_opaque_and_end_nothing(tmp_path):
    model = nn.EmbeddingBag(8, 4, mode="sum", sparse=True)
    optimizer = torch.optim.SparseAdam(list(model.parameters()))
    ids, starts = torch.tensor([1, 2, 3]), torch.tensor([0, 2])
    specification = specified(
        model, tmp_path, lambda _: model(ids, starts).sum(), optimizer=optimizer
    )
    assert "opaque" not in entry(specification, "output", "(model)")
    assert "opaque" in entry(specification, "param_grad", "weight")


class Spectrum(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.filter = nn.Parameter(torch.ones(5, dtype=torch.cfloat))

    def forward(self, x):
        return torch.fft.irfft(torch.fft.rfft(self.scale * x) * self.filter, n=8)


def test_complex_numbers_are_in_no_specification(tmp_path):
    model = Spectrum()
    specification = specified(model, tmp_path, lambda _: model(torch.ones(2, 8)).sum())
    assert all("complex" not in t["dtype"] for t in specification["tensors"])
    assert "complex" not in json.dumps(specification["patterns"])
    assert "pattern" in entry(specification, "output", "(model)")


def test_a_buffer_that_the_step_writes_is_no_constant(tmp_path):
    model = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    specification = specified(model, tmp_path, lambda _: model(x).sum())
    buffers = [t for t in specification["tensors"] if t["kind"] == "buffer"]
    assert buffers and all("values" not in buffer for buffer in buffers)
    model.eval()
    specification = specified(model, tmp_path, lambda _: model(x).sum())
    buffers = [t for t in specification["tensors"] if t["kind"] == "buffer"]
    assert buffers and all("values" in buffer for buffer in buffers)


class Turned(nn.Module):
    """Turns its inputs by a table of complex numbers, as torchtitan's models do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        angles = torch.outer(torch.arange(3.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("table", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        pairs = torch.view_as_complex(self.inner(x).unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * self.table)


def test_the_elements_of_a_complex_buffer_are_known(tmp_path):
    torch.manual_seed(0)
    model = Turned()
    specification = specified(model, tmp_path, lambda _: model(torch.ones(3, 4)).sum())
    values = entry(specification, "buffer", "table")["values"]
    assert values == torch.view_as_real(model.table).double().flatten().tolist()


@pytest.mark.parametrize("combine", ["sum", "mean"])
def test_a_loss_that_runs_backward_in_chunks(tmp_path, combine):
    """A head whose gradients come in several parts of each micro-batch, the body's in one."""
    torch.manual_seed(0)
    model = nn.ModuleDict({"body": nn.Linear(4, 4), "head": nn.Linear(4, 8)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    path, out = tmp_path / "specification.json", tmp_path / "run.h5"
    with tt.trace(model, optimizer, out=out, specification=path) as tracer, tracer.step(0):
        for number in range(2):
            with tracer.microbatch(number):
                labels = torch.randint(8, (6,))
                tracer.loss_data(labels=labels)
                hidden = model["body"](torch.randn(6, 4))
                whole = hidden.detach().requires_grad_()
                losses = []
                for part, chosen in zip(whole.chunk(3), labels.chunk(3), strict=True):
                    loss = cross_entropy(model["head"](part), chosen)
                    loss.backward()
                    losses.append(loss.detach())
                hidden.backward(whole.grad)
                tracer.loss(sum(losses))
        for parameter in model.parameters() if combine == "mean" else ():
            parameter.grad.div_(2)
        optimizer.step()
    assert read(path)["after_backward"]["main_grad"] == {"combine": combine, "factor": 1.0}
    done = run_ttrace("audit", out, "--specification", path, "--kind", "main_grad", "grad_output")
    assert "12 tensors: 12 hold, 0 broken, 0 not judged" in done.stdout


def test_equal_gradients_of_two_micro_batches_are_two(tmp_path):
    model = nn.Linear(4, 2)  # the gradient of its bias is that of the mean, whatever the data

    def loss(number):
        return model(torch.full((3, 4), 1.0 + number)).mean() / 2

    found = specified(model, tmp_path, loss, microbatches=2)["after_backward"]["main_grad"]
    assert found == {"combine": "sum", "factor": 1.0}


def mixed_rank(rank, folder, ranks):
    """FSDP2 in mixed precision, two micro-batches in all; one rank writes the specification."""
    model = seeded(TiedGPT)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    out = folder / ("run.h5" if ranks == 1 else "run")
    path = folder / "specification.json" if ranks == 1 else None
    with tt.trace(model, optimizer, out=out, specification=path) as tracer:
        with tracer.step(0):
            share = 2 // ranks
            for number in range(rank * share, (rank + 1) * share):
                with tracer.microbatch(number):
                    ids, targets = batch(seed=number)
                    tracer.scalar("targets", targets)
                    loss = tracer.loss(cross_entropy(model(ids).float(), targets))
                    (loss / share).backward()
            optimizer.step()


def test_fsdp2_in_mixed_precision_casts_inside_the_specification(tmp_path):
    run_ranks(1, mixed_rank, tmp_path, 1)
    specification = read(tmp_path / "specification.json")
    assert "opaque" not in specification
    assert specification["after_backward"]["main_grad"] == {"combine": "sum", "factor": 1.0}
    tensors = specification["tensors"]
    assert {t["dtype"] for t in tensors if t["kind"] == "param"} == {"float32"}
    (embedded,) = [t for t in tensors if (t["kind"], t["name"]) == ("output", "embedding")]
    assert embedded["dtype"] == "bfloat16"
    nodes = [node[0] for node in specification["patterns"][embedded["pattern"]]["nodes"]]
    assert nodes == ["cast", "embedding"]
    for microbatch in range(2):
        evaluation = Evaluation(specification, tmp_path / "run.h5", 0, microbatch)
        judgements = evaluation.judge_all()
        assert evaluation.coverage(judgements) >= 0.95
        assert max(one.error for one in judgements if one.error is not None) < 1.1
    ids, targets = batch()
    fake = tt.specify(
        seeded(TiedGPT),
        ids,
        loss=lambda out: cross_entropy(out.float(), targets),
        loss_scale=0.5,
        precision="bfloat16",
        kept_precision="float32",
        data={"targets": targets},
    )
    real, fake = expressions(specification), expressions(fake)
    assert real.keys() == fake.keys()
    # The loop divides the loss by 2, `specify` multiplies it by 0.5: one factor.
    assert real == fake


def test_audit_of_fsdp2_in_mixed_precision_judges_every_tensor(tmp_path):
    for ranks in (1, 2):
        run_ranks(ranks, mixed_rank, tmp_path, ranks)
    done = run_ttrace("audit", tmp_path / "run", "--specification", tmp_path / "specification.json")
    assert done.returncode == MATCH, done.stdout + done.stderr
    assert "(100 %)" in done.stdout.splitlines()[0], done.stdout
