"""Trains cases with megatron-fsdp, as `launching.py` says. A case is what
`train_megatron_fsdp.main` reads.

A case that says `twice` trains without a tracer first, and must train the same with one.
"""

from __future__ import annotations

import launching
import megatron_fsdp_on_cpu


def train(case, out):
    import train_megatron_fsdp

    if case.get("twice"):
        assert train_megatron_fsdp.main(case, None) == train_megatron_fsdp.main(case, out)
    else:
        train_megatron_fsdp.main(case, out)
    launching.end_groups()


if __name__ == "__main__":
    megatron_fsdp_on_cpu.install()
    launching.launch(launching.begin_gloo, train)
