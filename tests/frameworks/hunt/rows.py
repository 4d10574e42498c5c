"""All rows of the hunt. A row says:

row: its name. launcher, world: who trains `case`, on how many processes. reference: the case of one
process. older: the version of a package that trains both, as `scripts/frameworks_venv.sh` names it;
without it the pinned one. newest: whether the newest releases train both. exit: the exit code that
is expected; "fails" if the package or `trace` refuses. first: a part of the first tensor that is
blamed. cause: why it does not match.
"""

from __future__ import annotations

from hunt import (
    deepspeed_rows,
    megatron_rows,
    newest_megatron_fsdp_rows,
    newest_megatron_rows,
    newest_rows,
    other_models_rows,
    pipeline_rows,
    torch_rows,
    transformers_rows,
)

ROWS = [
    *torch_rows.ROWS,
    *pipeline_rows.ROWS,
    *transformers_rows.ROWS,
    *other_models_rows.ROWS,
    *deepspeed_rows.ROWS,
    *megatron_rows.ROWS,
    *newest_megatron_rows.ROWS,
    *newest_megatron_fsdp_rows.ROWS,
    *newest_rows.ROWS,
]
