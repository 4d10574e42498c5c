"""Lists of numbers that a model takes from a tensor, such as how many tokens each expert gets."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from ttrace_torch.capture.replaced_functions import Function, replaced_functions
from ttrace_torch.specification.recorder import OperationRecorder

# Of a list, so many are noted.
_MOST_NUMBERS = 4096


def noting_lists(recorder: OperationRecorder) -> AbstractContextManager[None]:
    """Notes the numbers of Tensor.tolist() inside as those that are read one by one: it reads the
    memory of a tensor, and no operation shows that it does."""

    def around(tolist: Function) -> Function:
        def noted(tensor: torch.Tensor) -> Any:
            if not recorder.paused and recorder.inside_model():
                try:
                    for number in tensor.detach().reshape(-1)[:_MOST_NUMBERS].unbind():
                        number.item()
                except Exception as error:  # noqa: BLE001
                    recorder.mistakes[f"tolist: {error!r}"] += 1
            return tolist(tensor)

        return noted

    return replaced_functions([(torch.Tensor, ("tolist",))], around)
