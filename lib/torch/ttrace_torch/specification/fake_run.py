"""Runs a model's step under fake tensors: shapes and dtypes, no numbers, no memory."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from ttrace_torch.base import dtypes, pytree
from ttrace_torch.base.names import ROOT, ModelNames, check_name, loss_name
from ttrace_torch.capture.calls import in_backward
from ttrace_torch.capture.hooks import ForwardHooks
from ttrace_torch.capture.random_draws import recorded_draws
from ttrace_torch.capture.recorder import Recorder
from ttrace_torch.capture.records import Key
from ttrace_torch.capture.stable_sorts import stable_sorts
from ttrace_torch.capture.step import Step, record_loss
from ttrace_torch.errors import TraceError
from ttrace_torch.layout.assignment import Assignment
from ttrace_torch.layout.mesh import Mesh
from ttrace_torch.layout.meshes import Meshes
from ttrace_torch.specification.after_backward import after_backward
from ttrace_torch.specification.document import document, write
from ttrace_torch.specification.marks import Marks
from ttrace_torch.specification.recorder import OperationRecorder
from ttrace_torch.specification.storages import dtype_name, shape_of

Loss = Callable[..., Any]


@dataclass(frozen=True)
class StepRules:
    """How the training loop makes its gradients: the arguments of `specify` of the same names."""

    loss: Loss | None = None
    loss_scale: float = 1.0
    main_grad: Mapping[str, Any] | None = None
    precision: str | None = None
    kept_precision: str | None = None
    data: Mapping[str, torch.Tensor] | None = None


Resolve = Callable[[nn.Module], tuple[ModelNames, Assignment]]


def specified(
    model: nn.Module | Callable[[], nn.Module],
    given: tuple[Sequence[Any], Mapping[str, Any]],
    rules: StepRules,
    resolve: Resolve,
    file: str | Path | None = None,
) -> dict[str, Any]:
    """The specification of `model` on `given`, (args, kwargs); also written to `file`."""
    recorder, marks = run(model, given, rules, resolve)
    names = marks.names
    found = document(
        recorder.graph,
        marks.found,
        "fake tensors",
        type(names.modules[ROOT]).__name__,
        after_backward(names, rules.main_grad),
    )
    if file is not None:
        write(found, file)
    return found


def run(
    model: nn.Module | Callable[[], nn.Module],
    given: tuple[Sequence[Any], Mapping[str, Any]],
    rules: StepRules,
    resolve: Resolve,
) -> tuple[OperationRecorder, Marks]:
    """Runs forward and backward of `model`, and records them.

    model: or a function that makes it, which then runs under fake tensors, too.
    resolve: finds the names and layouts of the model.
    """
    precision = _dtype(rules.precision)
    fake_mode = FakeTensorMode(allow_non_fake_inputs=True)
    recorder = OperationRecorder()
    with ExitStack() as stack:
        stack.enter_context(fake_mode)
        stack.enter_context(recorder)
        stack.enter_context(stable_sorts())
        if not isinstance(model, nn.Module):
            with _default_dtype(precision):
                model = model()
        args, kwargs = _fake(given, fake_mode, recorder, {})
        originals = stack.enter_context(_fake_tensors(model, fake_mode, recorder, precision))
        names, assignment = resolve(model)
        marks = Marks(recorder, names, originals)
        capture = Recorder(Meshes(Mesh()), 0, (), set(), lambda *_: None, observer=marks)
        step = Step(0, capture, None, names.earlier_runs)
        kept_precision = _dtype(rules.kept_precision, "kept_precision")
        for name, parameter in names.parameters.items():
            kept: torch.Tensor = parameter
            if kept_precision is not None and parameter.is_floating_point():
                kept = _fake_tensor(parameter, fake_mode, recorder, kept_precision)
            leaf = recorder.graph.leaf(dtype_name(kept.dtype), shape_of(kept))
            recorder.storages.adopt(kept, leaf)
            if kept is not parameter:
                cast = recorder.make.cast(leaf, dtype_name(parameter.dtype))
                recorder.storages.adopt(parameter, cast)
            capture.add(Key(0, None, "param", name), kept, {})
        marks.buffers()
        hooks = ForwardHooks(step, None, None)
        recorder.inside_model = lambda: hooks.running() or in_backward()
        step.gradients.follow_parameters(names, set(names.parameters), assignment, {})
        hooks.attach(names, set(names.modules), assignment, {})
        try:
            with torch.enable_grad(), recorded_draws(hooks.record_draw):
                for name, tensor in (rules.data or {}).items():
                    capture.add(Key(0, 0, "scalar", check_name(name, "data")), tensor, {})
                result = _loss_of(model(*args, **kwargs), rules.loss, rules.data or {})
                record_loss(step, result, None, loss_name(names))
                scaled: Any = result if rules.loss_scale == 1 else result * rules.loss_scale
                scaled.backward()
        finally:
            hooks.remove()
            step.gradients.remove()
    return recorder, marks


def _taken(loss: Loss, data: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors of `data` that the function takes by name; it may also read others itself."""
    try:
        parameters = inspect.signature(loss).parameters
    except ValueError:  # a function of C has no signature
        return {}
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return dict(data)
    by_name = list(parameters)[1:]  # the first one takes the output
    return {name: data[name] for name in by_name if name in data}


def _dtype(name: str | None, argument: str = "precision") -> torch.dtype | None:
    if name is None:
        return None
    for dtype, known in dtypes.DTYPES.items():
        if known.name == name and known.epsilon is not None:
            return dtype
    raise TraceError(f"{argument}={name!r} is no floating-point type")


def _loss_of(output: Any, loss: Loss | None, data: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """The loss of a model's output: by the user's function, its member `loss`, or itself."""
    if loss is not None:
        found = loss(output, **_taken(loss, data))
    elif isinstance(getattr(output, "loss", None), torch.Tensor):
        found = output.loss
    elif isinstance(output, Mapping) and isinstance(output.get("loss"), torch.Tensor):
        found = output["loss"]
    else:
        found = next((x for x in pytree.tensors_in(output) if x.dim() == 0), None)
    if not isinstance(found, torch.Tensor) or found.numel() != 1:
        raise TraceError(
            "specify: the model returns no loss; give loss=, a function from the model's output "
            "to the loss"
        )
    return found


def _fake(
    value: Any, mode: FakeTensorMode, recorder: OperationRecorder, made: dict[int, torch.Tensor]
) -> Any:
    """`value` with fake tensors in the place of its tensors; equal ones stay equal."""
    if isinstance(value, torch.Tensor):
        if isinstance(value, FakeTensor):
            return value
        if id(value) not in made:
            fake = _fake_tensor(value, mode, recorder, value.dtype)
            made[id(value)] = fake.requires_grad_(value.requires_grad)
        return made[id(value)]
    if isinstance(value, Mapping) and type(value) is dict:
        return {key: _fake(child, mode, recorder, made) for key, child in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_fake(child, mode, recorder, made) for child in value)
    for index in range(len(pytree.tensors_in(value))):
        value = pytree.replace_tensor(
            value,
            index,
            lambda x: _fake(x, mode, recorder, made),  # type: ignore[no-any-return]
        )
    return value


def _fake_tensor(
    tensor: torch.Tensor, mode: FakeTensorMode, recorder: OperationRecorder, dtype: torch.dtype
) -> torch.Tensor:
    """A fake tensor on the CPU of the same shape, of which nothing is known."""
    with recorder.resting(), mode:
        return torch.empty_strided(tensor.size(), tensor.stride(), dtype=dtype, device="cpu")


@contextmanager
def _fake_tensors(
    model: nn.Module,
    mode: FakeTensorMode,
    recorder: OperationRecorder,
    precision: torch.dtype | None,
) -> Iterator[dict[int, torch.Tensor]]:
    """A context in which the model has fake tensors instead of its own.

    Yields the model's own tensors, each by the id of the fake one that stands in for it.
    """
    made: dict[int, torch.Tensor] = {}
    originals: dict[int, torch.Tensor] = {}
    kept = [
        (module, dict(vars(module)), dict(module._parameters), dict(module._buffers))
        for module in model.modules()
    ]

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        if isinstance(tensor, FakeTensor):
            return tensor
        if id(tensor) not in made:
            new = made[id(tensor)] = _in_place_of(tensor, mode, recorder, precision)
            originals[id(new)] = tensor
        return made[id(tensor)]

    try:
        for module, own, parameters, buffers in kept:
            for held, tensors in _holders(module, own, parameters, buffers):
                held.update({k: fake(x) for k, x in tensors.items() if _is_tensor(x)})
        yield originals
    finally:
        for module, own, parameters, buffers in kept:
            for held, tensors in _holders(module, own, parameters, buffers):
                held.clear()
                held.update(tensors)


def _holders(module: nn.Module, *tensors: dict[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What holds the tensors of a module, each with its own content."""
    yield from zip((vars(module), module._parameters, module._buffers), tensors)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _in_place_of(
    tensor: torch.Tensor,
    mode: FakeTensorMode,
    recorder: OperationRecorder,
    precision: torch.dtype | None,
) -> torch.Tensor:
    """A fake tensor, or parameter, for one of the model's own."""
    is_parameter = isinstance(tensor, nn.Parameter)
    converted = precision is not None and is_parameter and tensor.is_floating_point()
    dtype = precision if converted and precision is not None else tensor.dtype
    fake = _fake_tensor(tensor, mode, recorder, dtype)
    if is_parameter:
        with recorder.resting():
            fake = nn.Parameter(fake, requires_grad=tensor.requires_grad)
        vars(fake).update({k: v for k, v in vars(tensor).items() if k not in vars(fake)})
    return fake


@contextmanager
def _default_dtype(dtype: torch.dtype | None) -> Iterator[None]:
    before = torch.get_default_dtype()
    if dtype is not None:
        torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
