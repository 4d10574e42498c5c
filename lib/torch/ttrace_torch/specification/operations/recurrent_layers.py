"""A layer of an LSTM, which the CPU takes by one kernel of oneDNN, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ttrace_torch.specification.expressions import Inexpressible
from ttrace_torch.specification.graph import Value
from ttrace_torch.specification.operations.table import Call, operation

_LSTM = 2  # the mode of torch's schema


class _Step(NamedTuple):
    """A step in time: what came before it, its gates, and tanh of its cell, all [batch, width]."""

    hidden: Value
    cell: Value
    forget: Value
    enter: Value
    new: Value
    out: Value
    shown: Value


class _Layer:
    """The formula of torch.nn.LSTM (its documentation), of one layer in one direction.

    inputs: [time, batch, features].
    weights: those of the input [4·width, features] and of the hidden state [4·width, width], and
        their biases [4·width], if there are any; the gates are input, forget, cell and output.
    hidden, cell: [batch, width], before the first step.
    """

    def __init__(
        self,
        call: Call,
        inputs: Value,
        weights: Sequence[Value],
        hidden: Value,
        cell: Value,
        backwards: bool,
    ) -> None:
        self._make = call.make
        self.dtype = inputs.dtype
        self.inputs = inputs
        self.of_input, self.of_hidden, *biases = weights
        self._biased = bool(biases)
        self.times, self.batch, _ = inputs.shape
        self.width = self.of_hidden.shape[1]
        # The order in which times are read.
        self.order = range(self.times - 1, -1, -1) if backwards else range(self.times)
        gates = self._times(inputs, self._make.transpose(self.of_input))
        for bias in biases:
            gates = self._added(gates, bias)
        self.steps: dict[int, _Step] = {}
        self.hidden: dict[int, Value] = {}
        for time in self.order:
            self.steps[time] = self._step(self._at(gates, time), hidden, cell)
            self.hidden[time] = hidden = self._multiplied(
                self.steps[time].out, self.steps[time].shown
            )
            cell = self._cell(self.steps[time])
        self.last_hidden, self.last_cell = hidden, cell

    def stacked(self, by_time: dict[int, Value]) -> Value:
        """[time, batch, ...] of a value for each time."""
        rows = [by_time[time] for time in range(self.times)]
        return self._make.concat([self._make.reshape(x, (1, *x.shape)) for x in rows], 0)

    def gradients(
        self, of_outputs: Value | None, of_hidden: Value | None, of_cell: Value | None
    ) -> list[Value | None]:
        """Those of the inputs, the weights and biases, and the first hidden state and cell, from
        those of the outputs and of the last hidden state and cell."""
        make = self._make
        none = make.full(0.0, self.dtype, (self.batch, self.width))
        hidden, cell = of_hidden or none, of_cell or none
        of_gates: dict[int, Value] = {}
        for time in reversed(self.order):
            step = self.steps[time]
            if of_outputs is not None:
                hidden = self._added(hidden, self._at(of_outputs, time))
            shown = self._multiplied(hidden, step.out)
            cell = self._added(cell, make.binary("tanh_grad", shown, step.shown, self.dtype))
            parts = [
                self._through("sigmoid_grad", self._multiplied(cell, step.new), step.enter),
                self._through("sigmoid_grad", self._multiplied(cell, step.cell), step.forget),
                self._through("tanh_grad", self._multiplied(cell, step.enter), step.new),
                self._through("sigmoid_grad", self._multiplied(hidden, step.shown), step.out),
            ]
            of_gates[time] = make.concat(parts, 1)
            hidden = self._times(of_gates[time], self.of_hidden)
            cell = self._multiplied(cell, step.forget)
        whole = self.stacked(of_gates)
        before = self.stacked({time: step.hidden for time, step in self.steps.items()})
        rows = self._rows(whole)
        bias = make.reduce("sum", rows, 0) if self._biased else None
        return [
            self._times(whole, self.of_input),
            self._times(make.transpose(rows), self._rows(self.inputs)),
            self._times(make.transpose(rows), self._rows(before)),
            *(bias, bias),
            *(hidden, cell),
        ]

    def _step(self, gates: Value, hidden: Value, cell: Value) -> _Step:
        make = self._make
        product = self._times(hidden, make.transpose(self.of_hidden))
        gates = self._added(gates, product)
        parts = [make.slice(gates, 1, n * self.width, (n + 1) * self.width) for n in range(4)]
        enter, forget, out = (make.unary("sigmoid", parts[n]) for n in (0, 1, 3))
        step = _Step(hidden, cell, forget, enter, make.unary("tanh", parts[2]), out, cell)
        return step._replace(shown=make.unary("tanh", self._cell(step)))

    def _cell(self, step: _Step) -> Value:
        kept = self._multiplied(step.forget, step.cell)
        return self._added(kept, self._multiplied(step.enter, step.new))

    def _at(self, x: Value, time: int) -> Value:
        return self._make.reshape(self._make.slice(x, 0, time, time + 1), x.shape[1:])

    def _rows(self, x: Value) -> Value:
        return self._make.reshape(x, (self.times * self.batch, x.shape[-1]))

    def _through(self, primitive: str, gradient: Value, output: Value) -> Value:
        return self._make.binary(primitive, gradient, output, self.dtype)

    def _times(self, one: Value, other: Value) -> Value:
        return self._make.matmul(one, other, self.dtype)

    def _added(self, one: Value, other: Value) -> Value:
        return self._make.binary("add", one, other, self.dtype)

    def _multiplied(self, one: Value, other: Value) -> Value:
        return self._make.binary("multiply", one, other, self.dtype)


def _require_lstm(mode: int, batch_sizes: Sequence[int]) -> None:
    if mode != _LSTM:
        raise Inexpressible("another recurrent layer than an LSTM")
    if batch_sizes:
        raise Inexpressible("packed sequences of several lengths")


@operation("mkldnn_rnn_layer")
def _forward(
    call: Call,
    input: Value,
    weight0: Value,
    weight1: Value,
    weight2: Value,
    weight3: Value,
    hx_: Value,
    cx_: Value,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    has_biases: bool,
    **_: Any,
) -> list[Value | None]:
    _require_lstm(mode, batch_sizes)
    weights = weight0, weight1, *((weight2, weight3) if has_biases else ())
    layer = _Layer(call, input, weights, hx_, cx_, reverse)
    # The last result is the memory of the kernel.
    return [layer.stacked(layer.hidden), layer.last_hidden, layer.last_cell, None]


@operation("mkldnn_rnn_layer_backward")
def _backward(
    call: Call,
    input: Value,
    weight1: Value,
    weight2: Value,
    weight3: Value,
    weight4: Value,
    hx_: Value,
    cx_tmp: Value,
    grad_output: Value | None,
    grad_hy: Value | None,
    grad_cy: Value | None,
    reverse: bool,
    mode: int,
    has_biases: bool,
    batch_sizes: Sequence[int],
    **_: Any,
) -> list[Value | None]:
    _require_lstm(mode, batch_sizes)
    weights = weight1, weight2, *((weight3, weight4) if has_biases else ())
    layer = _Layer(call, input, weights, hx_, cx_tmp, reverse)
    return layer.gradients(grad_output, grad_hy, grad_cy)
