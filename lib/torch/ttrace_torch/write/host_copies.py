"""Copies tensors to the host without waiting for the device.

The next operation may change the tensor in place, so it is copied at this point of its stream. The
copy on the device is fast; a side stream moves it to pinned memory while the job goes on. If the
device has no memory for the copy, the job's own stream makes the transfer: then the device waits
for it, and the host does not.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

import torch

# Number of bytes of copies on one device at a time.
_ON_DEVICE = 512 << 20


class HostCopies:
    """Makes copies. One instance for each process."""

    def __init__(self, on_device: int = _ON_DEVICE) -> None:
        """on_device: bound on the bytes of copies on one device."""
        self._on_device = on_device
        self._streams: dict[torch.device, Any] = {}
        self._under_way: dict[torch.device, deque[tuple[Any, int]]] = {}

    def start(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Starts a copy of `tensor`. The result waits for the copy, in any thread, and returns
        it: contiguous, on the CPU, sharing no memory with `tensor`."""
        tensor = tensor.detach()
        if tensor.layout != torch.strided:
            tensor = tensor.to_dense()
        if tensor.device.type == "cuda":
            return self._from_cuda(tensor)
        if tensor.device.type != "cpu":
            copy = tensor.to("cpu").contiguous().resolve_neg()
        else:
            copy = tensor.clone(memory_format=torch.contiguous_format).resolve_neg()
        return lambda: copy

    def _from_cuda(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        with torch.cuda.device(tensor.device):
            try:
                # Torch reuses pinned memory once the copy is finished.
                target = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            except RuntimeError:
                # The host can pin no more memory, so this copy is synchronous.
                late = tensor.to("cpu").contiguous().resolve_neg()
                return lambda: late
            own = torch.cuda.current_stream()
            source = self._on_device_copy(tensor)
            if source is None:
                source, stream = tensor.resolve_neg(), own
            else:
                stream = self._side_stream(tensor.device)
                stream.wait_stream(own)
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            with torch.cuda.stream(stream):
                target.copy_(source, non_blocking=True)
                event.record(stream)
            if stream is not own:
                source.record_stream(stream)
                size = source.numel() * source.element_size()
                self._under_way.setdefault(tensor.device, deque()).append((event, size))

        def result() -> torch.Tensor:
            event.synchronize()
            return target

        return result

    def _on_device_copy(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """A contiguous copy on the device; None if it has no memory."""
        under_way = self._under_way.get(tensor.device, deque())
        while under_way and under_way[0][0].query():
            under_way.popleft()
        size = tensor.numel() * tensor.element_size()
        if sum(size for _, size in under_way) + size > self._on_device:
            return None
        try:
            return tensor.clone(memory_format=torch.contiguous_format).resolve_neg()
        except torch.cuda.OutOfMemoryError:
            return None

    def _side_stream(self, device: torch.device) -> Any:
        if device not in self._streams:
            stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
            self._streams[device] = stream
        return self._streams[device]
