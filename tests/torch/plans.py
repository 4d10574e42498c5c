"""Plan files for tests, and the values they ask for by the definition."""

from __future__ import annotations

import json

import numpy as np

from ttrace_torch.init.normal import normal
from ttrace_torch.init.philox import plan_key, words_at

SEED = 5


def write_plan(path, *entries, seed=SEED):
    """A plan of (name, members) entries, written to `path`."""
    modules = [{"name": name, **members} for name, members in entries]
    path.write_text(json.dumps({"schema": "ttrace.plan/1", "seed": seed, "modules": modules}))
    return path


def planned(kind, name, shape, std=1.0, mean=0.0, step=0, batch=0, call=0):
    """The whole tensor by the definition, float32."""
    count = int(np.prod(shape, dtype=np.int64))
    blocks = np.arange(count // 4 + 1, dtype=np.uint64)
    key = plan_key(SEED, kind, step, batch, call, name)
    return normal(words_at(key, blocks).reshape(-1)[:count], mean, std).reshape(shape)
