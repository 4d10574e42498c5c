"""ZeRO-1: main gradients, main parameters and optimizer state are cut over dp, in buckets.

The parameters lie one after the other in buckets, and each rank has one range of every bucket;
so of a parameter it may have all, a part, or nothing.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from gallery import bugs
from gallery.collectives import all_reduce, gather_parts, reduce_scatter_parts, sum_of_ends
from gallery.parallel import Axis, ProcessMesh
from gallery.parameters import is_tied

CAPACITY = 2048  # elements of a bucket; a larger parameter has one of its own

Range = tuple[int, int]


class Buckets:
    """The parameters of a rank, dealt out over dp.

    packed: the two copies of a tied parameter share buckets with others, so that they are cut in
        different places. Their main gradients are made whole again, for a trace has one layout of
        both.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], mesh: ProcessMesh, packed: bool = False
    ) -> None:
        self._dp, self._pp = mesh["dp"], mesh["pp"]
        self._packed = packed
        self._buckets = [_Bucket(bucket, self._dp) for bucket in _filled(parameters, packed)]
        large = (_is_full(bucket.parameters[0]) for bucket in self._buckets)
        if bugs.active("G16") and not any(large):
            raise bugs.BugError(f"--bug G16 cannot show: no parameter has {CAPACITY} elements")
        self._ranges = {
            parameter: ranges for bucket in self._buckets for parameter, ranges in bucket.ranges
        }

    def ranges(self, parameter: nn.Parameter) -> list[Range]:
        """Which elements of the flattened parameter each coordinate of dp has."""
        return self._ranges[parameter]

    def own(self, parameter: nn.Parameter, whole: Tensor) -> Tensor:
        """This rank's range of a tensor of the parameter's shape."""
        start, stop = self._ranges[parameter][self._dp.index]
        return whole.reshape(-1)[start:stop]

    def has_whole_gradient(self, parameter: nn.Parameter) -> bool:
        return self._packed and is_tied(parameter)

    def reduce_gradients(self) -> None:
        """Makes of every whole main gradient this rank's range of the mean over dp."""
        buffers = {}
        for bucket in self._buckets:
            if bugs.active("G16") and _is_full(bucket.parameters[0]):
                parts = [self.own(p, p.main_grad) for p in bucket.parameters]
            else:
                parts = bucket.reduce_scatter([p.main_grad for p in bucket.parameters])
            for parameter, part in zip(bucket.parameters, parts, strict=True):
                if self.has_whole_gradient(parameter):
                    buffers[parameter] = parameter.main_grad
                parameter.main_grad = part / self._dp.size
        for parameter, buffer in buffers.items():
            if bugs.active("P5"):
                # Each stage's buffer has the mean in this rank's range, and elsewhere this rank's
                # own gradient; the ranges of the two stages differ.
                self.own(parameter, buffer).copy_(parameter.main_grad)
                parameter.main_grad = self.own(parameter, sum_of_ends(buffer, self._pp))
            parameter.main_grad = self._whole(parameter, parameter.main_grad)

    def _whole(self, parameter: nn.Parameter, own: Tensor) -> Tensor:
        """A tensor of the parameter's shape, of all ranks' ranges."""
        whole = torch.zeros_like(parameter, dtype=own.dtype)
        self.own(parameter, whole).copy_(own)
        return all_reduce(whole, self._dp)

    @torch.no_grad()
    def gather_parameters(self) -> None:
        """Makes whole parameters of the ranks' main parameters."""
        for number, bucket in enumerate(self._buckets):
            for parameter in bucket.parameters:
                self.own(parameter, parameter).copy_(parameter.main_param)
            if not (bugs.active("P9") and number == 1):
                bucket.gather([self.own(p, p) for p in bucket.parameters])


class _Bucket:
    """Parameters one after the other, cut into equal parts, the last one padded."""

    def __init__(self, parameters: list[nn.Parameter], dp: Axis) -> None:
        self.parameters = parameters
        self.elements = sum(parameter.numel() for parameter in parameters)
        self.ranges: list[tuple[nn.Parameter, list[Range]]] = []
        self._dp = dp
        self._part = -(-self.elements // dp.size)
        offset = 0
        for parameter in parameters:
            count = parameter.numel()
            cuts = [min(max(i * self._part - offset, 0), count) for i in range(dp.size + 1)]
            self.ranges.append((parameter, list(zip(cuts[:-1], cuts[1:], strict=True))))
            offset += count

    def reduce_scatter(self, whole: list[Tensor]) -> list[Tensor]:
        """The sums over dp of whole tensors, this rank's range of each."""
        own = reduce_scatter_parts(_padded(whole, self._part * self._dp.size), self._dp)
        lengths = [stop - start for start, stop in self._own_ranges()]
        return list(own[: sum(lengths)].split(lengths))

    def gather(self, own: list[Tensor]) -> None:
        """Fills the parameters with all ranks' ranges."""
        whole = gather_parts(_padded(own, self._part), self._dp)
        counts = [parameter.numel() for parameter in self.parameters]
        values = whole[: self.elements].split(counts)
        for parameter, value in zip(self.parameters, values, strict=True):
            parameter.copy_(value.view_as(parameter))

    def _own_ranges(self) -> list[Range]:
        return [ranges[self._dp.index] for _, ranges in self.ranges]


def _is_full(parameter: nn.Parameter) -> bool:
    """Whether the parameter is exactly as large as a bucket."""
    return parameter.numel() == CAPACITY


def _padded(tensors: list[Tensor], size: int) -> Tensor:
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    return torch.cat([flat, flat.new_zeros(size - flat.numel())])


def _filled(parameters: Iterable[nn.Parameter], packed: bool) -> list[list[nn.Parameter]]:
    """Unless packed, a tied parameter has a bucket to itself: its two copies must be cut alike."""
    buckets: list[list[nn.Parameter]] = []
    room = 0
    for parameter in parameters:
        alone = is_tied(parameter) and not packed
        if alone or parameter.numel() > room:
            buckets.append([])
            room = CAPACITY
        buckets[-1].append(parameter)
        room = 0 if alone else room - parameter.numel()
    return buckets
