"""torch 2.13.0: log_softmax over the last dimension on the CPU with 16-bit logits.

log_softmax(x) = x - max - log(sum of exp(x - max)). The kernel keeps that sum in the type of the
logits. A model that is sure of its label has a sum of little more than 1: in bf16 a loss of 0.0025
is 0, and one of 0.018 is 15 % off. Over another dimension the same numbers are right.
Fails once it is mended.
"""

from __future__ import annotations

import torch

CLASSES = 128
# (type, logit of the second class, where the first has 0) -> what the loss is off by at least.
LEAST = {
    (torch.bfloat16, -6.0): 0.99,
    (torch.bfloat16, -4.0): 0.1,
    (torch.float16, -8.0): 0.99,
    (torch.float16, -6.5): 0.25,
}
ROUNDING = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}


if __name__ == "__main__":
    torch.set_num_threads(1)
    for (dtype, second), least in LEAST.items():
        logits = torch.full((4, CLASSES), -60.0, dtype=dtype)
        logits[:, 0], logits[:, 1] = 0, second
        right = torch.log_softmax(logits.double(), -1)[:, 0]
        last = torch.log_softmax(logits, -1)[:, 0].double()
        first = torch.log_softmax(logits.T.contiguous(), 0)[0].double()
        wrong = float(((last - right) / right).abs().max())
        other = float(((first - right) / right).abs().max())
        print(f"{dtype}, a loss of {-right[0]:.2g}: {wrong:.1%} off, over dimension 0 {other:.2%}")
        assert other < 2 * ROUNDING[dtype]
        assert wrong > least, "kept in a wider type: mended"
