"""How the healthy model's tensors lie over the mesh, in the collector's words.

This states what is intended. It does not ask which bugs are on: a run that departs from it is
what the comparison has to find.
"""

from collections.abc import Mapping

from gallery.config import Config
from gallery.model import Gpt
from gallery.stages import Stage
from gallery.zero import Buckets
from ttrace_torch import Flat, Layout, Only, OnMesh, Partial, Shard, Zigzag
from ttrace_torch.layout.placements import Placements, TensorPlacements

ROWS = {"tp": Shard(0)}
COLUMNS = {"tp": Shard(1)}


def layouts(config: Config, stage: Stage) -> list[Layout]:
    """What is not listed is whole and equal on all ranks. Names only what the stage has."""
    # Activations [s, b, ...]: of this rank's tokens; with their features, heads or vocabulary cut
    # too; and the hidden layout.
    tokens = {"cp": Zigzag(0)} if config.cp > 1 else {}
    features = {**tokens, "tp": Shard(2)}
    hidden = {**tokens, "tp": Shard(0)} if config.sp else tokens
    tied = {"pp": Partial("sum")} if config.pp > 1 else {}

    def layout(
        name: str,
        input: TensorPlacements = hidden,
        output: TensorPlacements = hidden,
        parameters: Mapping[str, Placements] | None = None,
        unreduced: Placements | None = None,
    ) -> Layout:
        params = parameters or {}
        grads = {leaf: {**_raw(config, params[leaf]), **(unreduced or {})} for leaf in params}
        return Layout(name, input=input, output=output, params=params, param_grads=grads)

    def norm(name: str) -> Layout:
        return layout(name, parameters={"weight": {}, "bias": {}})

    def column_parallel(name: str) -> list[Layout]:
        found = [layout(name, hidden, features, {"weight": ROWS, "bias": ROWS})]
        return found + fp8(f"{name}.fp8", tokens, ROWS, features)

    def row_parallel(name: str) -> list[Layout]:
        found = [layout(name, features, hidden, {"weight": COLUMNS, "bias": {}})]
        return found + fp8(f"{name}.fp8", features, COLUMNS, {**tokens, "tp": Partial("sum")})

    def fp8(name: str, x: Placements, weight: Placements, product: Placements) -> list[Layout]:
        if config.precision != "fp8":
            return []
        return [
            layout(name, [x, weight], product),
            layout(f"{name}.input_scale", x, {}),
            layout(f"{name}.weight_scale", weight, {}),
        ]

    found = [layout("(model)", tokens, {**tokens, "pp": Only(config.pp - 1)})]
    if stage.first:
        found += [
            layout("embedding", tokens),
            layout("embedding.word", tokens, hidden, {"weight": ROWS}, tied),
            layout("embedding.position", parameters={"weight": {}}),
        ]
    attention = column_parallel("layers.*.attn.qkv")
    if config.multi_query:
        attention = column_parallel("layers.*.attn.q")
        attention.append(layout("layers.*.attn.kv", parameters={"weight": {}, "bias": {}}))
    found += [
        # A star crosses dots too: this first, for the lines below override it.
        layout("layers.*"),
        norm("layers.*.norm1"),
        *attention,
        layout("layers.*.attn.core", features, features),
        *row_parallel("layers.*.attn.proj"),
        norm("layers.*.norm2"),
    ]
    if config.expert_tp:
        cut = {"fc1": ROWS, "fc2": COLUMNS}
        found += [
            layout("layers.*.mlp.router", parameters={"weight": {}}),
            layout("layers.*.mlp.experts.*", parameters=cut),
        ]
    elif config.experts:
        replicated = {"*": OnMesh("expert", {})}
        summed = {"*": OnMesh("expert", {"edp": Partial("sum")})}
        found += [
            layout("layers.*.mlp.router", parameters={"weight": {}}),
            Layout("layers.*.mlp.experts.*", params=replicated, param_grads=summed),
        ]
    else:
        found += column_parallel("layers.*.mlp.fc1") + row_parallel("layers.*.mlp.fc2")
    if stage.last:
        found += [
            norm("final_norm"),
            layout("head", hidden, features, {"weight": ROWS}, tied),
            layout("criterion", [features, tokens], tokens),
        ]
    return found


def main_gradients(model: Gpt, buckets: Buckets | None) -> list[Layout]:
    """With ZeRO, main gradients and optimizer state are ranges of the flattened shards."""
    found = []
    for name, parameter in model.named_parameters() if buckets is not None else ():
        if buckets.has_whole_gradient(parameter):
            continue
        module, leaf = name.rsplit(".", 1)
        cut = {axis: Shard(dimension) for axis, dimension in parameter.shards.items()}
        flat = Flat(buckets.ranges(parameter), parameter.shape)
        found.append(Layout(module, main_grads={leaf: {**cut, "dp": flat}}))
    return found


def _raw(config: Config, parameter: Placements) -> Placements:
    """How the raw gradient of a parameter lies that itself lies as told.

    Each rank's is a term of a sum over the axes that cut the tokens it met.
    """
    placements = dict(parameter)
    if config.cp > 1:
        placements["cp"] = Partial("sum")
    if config.sp and "tp" not in parameter:
        placements["tp"] = Partial("sum")
    return placements
