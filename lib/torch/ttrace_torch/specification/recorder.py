"""Records the operations of a step as they run, on real or on fake tensors.

The recorder looks at operations below autograd, and changes none of them. An operation that it
cannot translate becomes an opaque value with the operation's name, never a guess.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ttrace_torch.layout.dtensor import storage_of
from ttrace_torch.specification import channels_last, mixed_layouts
from ttrace_torch.specification.collectives import effect_of, tensors_in
from ttrace_torch.specification.complexes import conjugate, leaf_of
from ttrace_torch.specification.expressions import Expressions, Inexpressible
from ttrace_torch.specification.graph import MISTAKE, Graph, Value
from ttrace_torch.specification.nested import asked, listed, local, number_of
from ttrace_torch.specification.operations.table import Call
from ttrace_torch.specification.outside import constant_of, is_zero
from ttrace_torch.specification.signature import Signature
from ttrace_torch.specification.sparse import dense_value
from ttrace_torch.specification.storages import Storages, apply, dtype_name, shape_of

_READS_NUMBER = "aten::_local_scalar_dense"
_SINGULAR = {"tensors1": "other", "scalar": "other", "scalars": "other"}


class OperationRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode that follows every tensor's value into a graph."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph = Graph()
        self.make = Expressions(self.graph)
        self.storages = Storages(self.make)
        self.paused = False
        # Operation -> how often a mistake of this package made its value opaque.
        self.mistakes: Counter[str] = Counter()
        # The numbers that the model has read from tensors, and these: constants from then on.
        self.numbers_read: list[tuple[Value, float]] = []
        # Whether an operation ran that makes sizes of elements, and one that chooses some of them.
        self.sizes_depend_on_data = False
        self.chooses = False
        # Whether small tensors that are made from Python numbers are part of the model.
        self.inside_model: Callable[[], bool] = lambda: False
        # Whether numbers from outside, such as a count of updates, are constants of this step.
        self.of_step = False
        self._signatures: dict[Any, Signature] = {}

    def value(self, tensor: torch.Tensor) -> Value:
        """The value that `tensor` holds now; a new leaf for one that the step did not make.

        A DTensor's is that of its local tensor, which is all of it in a run of one process.
        """
        tensor = storage_of(tensor)
        try:
            found = self.storages.read(tensor)
        except (NotImplementedError, RuntimeError):
            # No storage: a sparse tensor, or a subclass that wraps others.
            with self.resting():
                dense = dense_value(tensor, self.make, self.storages)
            return dense or leaf_of(self.make, dtype_name(tensor.dtype), shape_of(tensor))
        if found is None:
            # One float from outside may be the state of an earlier step, such as a scale of FP8.
            if self.of_step or not (tensor.is_floating_point() or tensor.is_complex()):
                found = constant_of(tensor, self.make, most=1)
            if found is None:
                found = leaf_of(self.make, dtype_name(tensor.dtype), shape_of(tensor))
                one = tensor.numel() == 1 and not tensor.is_complex()
                if one and not isinstance(tensor, FakeTensor):
                    with self.resting():
                        self.graph.numbers[found.id] = tensor.detach().clone()
            self.storages.add_part(tensor, found)
        return self._shown(tensor, found)

    def _shown(self, tensor: torch.Tensor, value: Value) -> Value:
        """The value that a tensor shows of the one in its memory: a lazy conjugate stores the
        unconjugated one."""
        return conjugate(self.make, value) if tensor.is_conj() else value

    def given(self, tensor: torch.Tensor) -> Value:
        """The value of a parameter: a leaf, whatever its elements are."""
        tensor = storage_of(tensor)
        found = self.storages.read(tensor)
        if found is None:
            found = leaf_of(self.make, dtype_name(tensor.dtype), shape_of(tensor))
            self.storages.add_part(tensor, found)
        return found

    def set_apart(self, tensor: torch.Tensor) -> tuple[Value, Value]:
        """Treats the elements of `tensor` as given from now on.

        Returns the new leaf, and the value that it stands for.
        """
        tensor = storage_of(tensor)
        value = self.value(tensor)
        leaf = self.graph.leaf(value.dtype, value.shape)
        self.storages.write(tensor, leaf)
        return leaf, value

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Does not record inside."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.paused:
            return func(*args, **kwargs)
        signature = self._signatures.get(func)
        if signature is None:
            signature = self._signatures[func] = Signature(func)
            self.sizes_depend_on_data |= signature.makes_sizes
        if signature.without_tensors:
            out = func(*args, **kwargs)
            if signature.name == _READS_NUMBER and self.inside_model():
                self._note_number(args[0], out)
            return out
        try:
            given = {name: local(x) for name, x in signature.bound(args, kwargs).items()}
            self.chooses = self.chooses or signature.chooses(given)
            if signature.name == "aten::lift_fresh":
                self._lift(given["x"])
            for name in signature.written:
                self._know_zeros(given[name])
            # Before it runs: an operation in place changes what its arguments hold.
            values = {name: self._valued(argument) for name, argument in given.items()}
        except Exception as error:  # noqa: BLE001
            out = func(*args, **kwargs)
            self._give_up(signature, [args, kwargs, out], error)
            return out
        out = func(*args, **kwargs)
        try:
            results = [storage_of(x) for x in listed(out) if isinstance(x, torch.Tensor)]
            self._record(signature, given, values, results)
        except Exception as error:  # noqa: BLE001
            self._give_up(signature, [args, kwargs, out], error)
        return out

    def _note_number(self, tensor: torch.Tensor, number: Any) -> None:
        try:
            self.numbers_read.append((self.value(tensor), float(number)))
        except Exception as error:  # noqa: BLE001
            self.mistakes[f"{_READS_NUMBER}: {error!r}"] += 1

    def _give_up(self, signature: Signature, tensors: Any, error: Exception) -> None:
        """Gives up the values of all tensors that an operation read or wrote: one that cannot be
        followed must neither end a training job nor leave an old value for a written tensor."""
        self.mistakes[f"{signature.operation}: {error!r}"] += 1
        for tensor in tensors_in(tensors):
            self.storages.forget(tensor)
            self._lose(storage_of(tensor), MISTAKE)

    def _lift(self, tensor: torch.Tensor) -> None:
        """Takes over the elements of a tensor that the model makes of Python numbers."""
        if (self.of_step or self.inside_model()) and self.storages.read(tensor) is None:
            value = constant_of(tensor, self.make)
            if value is not None:
                self.storages.adopt(tensor, value)

    def _know_zeros(self, target: Any) -> None:
        """Notes that a tensor holds zeros which is written first, as a buffer of gradients is."""
        for tensor in tensors_in(target):
            try:
                if self.storages.read(tensor) is None and is_zero(tensor):
                    zeros = self.make.full(0.0, dtype_name(tensor.dtype), shape_of(tensor))
                    self.storages.add_part(tensor, zeros)
            except (NotImplementedError, RuntimeError):
                continue

    def _valued(self, argument: Any) -> Any:
        if isinstance(argument, torch.Tensor):
            return self.value(argument)
        if isinstance(argument, (list, tuple)):
            return [self._valued(x) for x in argument]
        if isinstance(argument, (torch.SymInt, torch.SymFloat)):
            return number_of(argument)
        return argument

    def _record(
        self,
        signature: Signature,
        given: Mapping[str, Any],
        values: Mapping[str, Any],
        results: Sequence[torch.Tensor],
    ) -> None:
        written = [x for name in signature.written for x in tensors_in(given.get(name))]
        if signature.collective is not None:
            self._record_collective(signature, given)
            return
        targets = written or results
        if not targets or targets[0].layout != torch.strided:  # a sparse one has no storage
            return
        if signature.shows_otherwise and self._is_known_cut(targets[0], targets[0]):
            return
        try:
            if signature.view is not None and isinstance(given["x"], torch.Tensor):
                self._record_view(signature, given, values, results)
                return
            found = self._translated(signature, values, targets)
        except Inexpressible:
            found = [None] * len(targets)
        except Exception as error:  # noqa: BLE001
            self.mistakes[f"{signature.operation}: {error!r}"] += 1
            found = [None] * len(targets)
        if all(value is None for value in found) and not written:
            norm = channels_last.group_norm(self.make, signature.operation, given, values)
            norm = norm or mixed_layouts.batch_norm_backward(
                self.make, signature.operation, given, values
            )
            found = norm or self._decomposed(signature, given, results) or found
        self._settle(signature, given, values, targets, found)

    def _record_collective(self, signature: Signature, given: Mapping[str, Any]) -> None:
        effect = effect_of(str(signature.collective), given)
        for target, value in [(one, self.value(other)) for one, other in effect.copies]:
            cast = self.make.cast(value, dtype_name(target.dtype))
            self.storages.write(target, self.make.reshape(cast, shape_of(target)))
        for tensor in effect.unknown:
            self._lose(tensor, signature.operation)

    def _lose(self, tensor: torch.Tensor, why: str) -> None:
        """Notes that the values of a tensor cannot be followed."""
        dtype, shape = dtype_name(tensor.dtype), shape_of(tensor)
        try:
            self.storages.write(tensor, self.graph.opaque(why, [], dtype, shape))
        except (NotImplementedError, RuntimeError):
            return  # it has no storage: the next reader makes it a leaf

    def _settle(
        self,
        signature: Signature,
        given: Mapping[str, Any],
        values: Mapping[str, Any],
        targets: Sequence[torch.Tensor],
        found: Sequence[Value | None],
    ) -> None:
        """Gives the tensors that an operation made or wrote their values."""
        for turn, tensor in enumerate(targets):
            value = found[turn] if turn < len(found) else None
            dtype, shape = dtype_name(tensor.dtype), shape_of(tensor)
            if value is not None and value.shape != shape:
                self.mistakes[f"{signature.operation} has another shape"] += 1
                value = None
            if value is None:
                value = self.graph.opaque(signature.operation, signature.read(values), dtype, shape)
            value = self._shown(tensor, self.make.cast(value, dtype))
            source = given.get(signature.copied) if signature.copied else None
            token = None
            try:
                if isinstance(source, torch.Tensor) and self.storages.read(source) == value:
                    token = self.storages.token(source)
                if signature.written:
                    self.storages.write(tensor, value, token)
                elif any(
                    isinstance(x, torch.Tensor) and self.storages.same_storage(tensor, x)
                    for x in given.values()
                ):
                    self.storages.note(tensor, value)
                else:
                    self.storages.adopt(tensor, value, token)
            except (NotImplementedError, RuntimeError):
                continue  # without a storage: the next reader makes it a leaf

    def _record_view(
        self,
        signature: Signature,
        given: Mapping[str, Any],
        values: Mapping[str, Any],
        results: Sequence[torch.Tensor],
    ) -> None:
        source = given["x"]
        if signature.name == "aten::as_strided":
            if self._is_known_cut(results[0], source):
                return
            # The strides count elements of the storage, and only contiguous sources show how these
            # lie.
            if not source.is_contiguous() or source.storage_offset() != 0:
                raise Inexpressible("strides of a tensor that is not contiguous")
        call = self._call(signature, results)
        used = {name: x for name, x in values.items() if name not in signature.unused}
        translation: Any = signature.view
        steps = translation(call, **used)
        for tensor, chain in zip(results, steps):
            if self.storages.same_storage(tensor, source):
                self.storages.add_view(tensor, source, chain)
            else:
                self.storages.adopt(tensor, apply(self.make, chain, values["x"]))

    def _is_known_cut(self, tensor: torch.Tensor, source: torch.Tensor) -> bool:
        """Whether a view by strides, whose numbers are of the storage, is cut from known memory."""
        return self.storages.same_storage(tensor, source) and self.storages.read(tensor) is not None

    def _translated(
        self, signature: Signature, values: Mapping[str, Any], targets: Sequence[torch.Tensor]
    ) -> list[Value | None]:
        if signature.for_each is not None:
            return self._translated_each(signature, values, targets)
        if signature.alone:
            if values.get("group_size", 1) != 1:
                raise Inexpressible("a group of several processes")
            handed_on = values[signature.names[0]]
            return list(handed_on) if isinstance(handed_on, list) else [handed_on]
        if signature.translation is None:
            raise Inexpressible(signature.operation)
        used = {name: x for name, x in values.items() if name not in signature.unused}
        found = signature.translation(self._call(signature, targets), **used)
        several = isinstance(found, (list, tuple)) and not isinstance(found, Value)
        return list(found) if several else [found]

    def _translated_each(
        self, signature: Signature, values: Mapping[str, Any], targets: Sequence[torch.Tensor]
    ) -> list[Value | None]:
        """Translates an operation on lists of tensors as the operation on each."""
        translation: Any = signature.for_each
        count = len(targets)
        found: list[Value | None] = []
        for turn, target in enumerate(targets):
            mine = {
                _SINGULAR.get(name, name): value[turn]
                if isinstance(value, list) and len(value) == count
                else value
                for name, value in values.items()
                if name not in signature.unused
            }
            found.append(translation(self._call(signature, [target]), **mine))
        return found

    def _call(self, signature: Signature, targets: Sequence[torch.Tensor]) -> Call:
        return Call(
            self.make,
            [dtype_name(tensor.dtype) for tensor in targets],
            [shape_of(tensor) for tensor in targets],
            signature.overload,
        )

    def _decomposed(
        self, signature: Signature, given: Mapping[str, Any], results: Sequence[torch.Tensor]
    ) -> list[Value | None] | None:
        """The values by PyTorch's own decomposition of the operation, run on meta tensors."""
        decomposition = signature.decomposition
        if decomposition is None or any(-1 in shape_of(x) for x in results):
            return None
        made: list[tuple[torch.Tensor, torch.Tensor, Value]] = []
        images = channels_last.shape_of_rows(signature.operation, given)

        def stand_in(argument: Any) -> Any:
            if isinstance(argument, torch.Tensor):
                sizes, strides = argument.size(), argument.stride()
                value = self.value(argument)
                if images is not None and images == shape_of(argument):
                    sizes, strides = torch.Size(channels_last.rows_of(images)), (images[1], 1)
                    value = channels_last.to_rows(self.make, value)
                meta = torch.empty_strided(sizes, strides, dtype=argument.dtype, device="meta")
                self.storages.adopt(meta, value)
                made.append((argument, meta, value))
                return meta
            if isinstance(argument, (list, tuple)):
                return [stand_in(x) for x in argument]
            if isinstance(argument, torch.device):
                return torch.device("meta")
            return argument

        from torch._subclasses.fake_tensor import unset_fake_temporarily

        try:
            with unset_fake_temporarily(), torch.no_grad(), torch._C._DisableAutocast():
                positional, named = signature.split(
                    {name: stand_in(argument) for name, argument in given.items()}
                )
                with self:
                    out = decomposition(*positional, **named)
                found = asked(listed(out), given.get("output_mask"))
        except Exception:  # noqa: BLE001
            # Many decompositions need the elements, or take no meta tensors.
            return None
        if len(found) != len(results):
            return None
        for argument, meta, before in made:
            # A kernel may write what its signature does not say, as a batch norm its statistics.
            if (after := self.value(meta)) != before and self.storages.read(argument) == before:
                self.storages.write(argument, after)
        values = [self.value(tensor) for tensor in found]
        for turn, tensor in enumerate(results):
            if images is not None and images == shape_of(tensor):
                values[turn] = channels_last.from_rows(self.make, values[turn], images)
            if values[turn].shape != shape_of(tensor):
                return None
        return list(values)
