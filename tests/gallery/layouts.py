"""How the healthy model's tensors lie over the mesh, in the collector's words.

This states what is intended. It does not ask which bugs are on: a run that departs from it is
what the comparison has to find.
"""

from gallery.config import Config
from ttrace_torch import Layout, Partial, Shard

ROWS = {"tp": Shard(0)}
COLUMNS = {"tp": Shard(1)}
LAST = {"tp": Shard(2)}  # features, heads or vocabulary of [s, b, ...]


def layouts(config: Config) -> list[Layout]:
    """What is not listed is whole and equal on all ranks."""
    hidden = {"tp": Shard(0)} if config.sp else {}
    # Raw gradients of parameters that meet this rank's tokens only.
    partial = {"tp": Partial("sum")} if config.sp else {}

    def block(name: str) -> Layout:
        return Layout(name, input=hidden, output=hidden)

    def norm(name: str) -> Layout:
        grads = {"weight": partial, "bias": partial}
        return Layout(name, input=hidden, output=hidden, param_grads=grads)

    def column_parallel(name: str) -> Layout:
        params = {"weight": ROWS, "bias": ROWS}
        return Layout(name, input=hidden, output=LAST, params=params)

    def row_parallel(name: str) -> Layout:
        params, grads = {"weight": COLUMNS}, {"bias": partial}
        return Layout(name, input=LAST, output=hidden, params=params, param_grads=grads)

    positions = Layout(
        "embedding.position", input=hidden, output=hidden, param_grads={"weight": partial}
    )
    return [
        Layout("embedding", output=hidden),
        Layout("embedding.word", output=hidden, params={"weight": ROWS}),
        positions,
        # A star crosses dots too: this first, for the lines below override it.
        block("layers.*"),
        norm("layers.*.norm1"),
        block("layers.*.attn"),
        column_parallel("layers.*.attn.qkv"),
        Layout("layers.*.attn.core", input=LAST, output=LAST),
        row_parallel("layers.*.attn.proj"),
        norm("layers.*.norm2"),
        block("layers.*.mlp"),
        column_parallel("layers.*.mlp.fc1"),
        row_parallel("layers.*.mlp.fc2"),
        norm("final_norm"),
        Layout("head", input=hidden, output=LAST),
        Layout("criterion", input=[LAST, {}]),
    ]
