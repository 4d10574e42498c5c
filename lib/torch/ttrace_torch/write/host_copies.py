"""Copies of tensors on the host, made without waiting for the device.

The tensor may be changed in place by the next operation, so it has to be copied at this point of
its stream. A copy on the device takes next to no time there; a side stream brings that to pinned
memory while the job goes on. Where the device has no room for it, the job's own stream does, which
makes the device wait for the transfer and the host for nothing.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Callable

import torch

# How many bytes of copies may lie on one device at a time.
_ON_DEVICE = 512 << 20


class HostCopies:
    """Makes copies; one for each process."""

    def __init__(self, on_device: int = _ON_DEVICE) -> None:
        """on_device: bound on the bytes of the copies on one device."""
        self._on_device = on_device
        self._streams: dict[torch.device, Any] = {}
        self._under_way: dict[torch.device, deque[tuple[Any, int]]] = {}

    def start(self, tensor: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Copies `tensor` as it is now; the result waits for the copy, in any thread, and gives it:
        contiguous, on the CPU, sharing no memory with `tensor`."""
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
                # Torch keeps pinned memory and hands it out again, once the copy has been made.
                target = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            except RuntimeError:
                # The host pins no more; this copy is waited for.
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
        """A contiguous copy on the device; None where it has no room."""
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
