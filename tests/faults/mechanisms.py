"""The ways of lying to `ttrace audit`, each with variants. audit_lies.py tries them."""

from __future__ import annotations

import lies_of_updates
import numpy as np
from faults_of_step import (
    ALL_FLIPPED,
    BACKWARD_LOST,
    BIAS_FLIPPED,
    EVERY_FAULT,
    FLIPPED,
    GRADIENT,
    LOSS,
    LOSS_DOUBLED,
    MAIN_DOUBLED,
    NORM_HALVED,
    SCALED,
    SPOT,
    ZEROED,
    Fault,
    alternating,
    unused,
    with_values,
    wrong_score,
    wrong_scores,
)
from lies_of_specification import (
    after_backward,
    answer_in_buffer,
    behind,
    behind_all,
    changed_node,
    doubled_and_back,
    everything,
    follows_from_next,
    full,
    is_key,
    kinds,
    make_opaque,
    multiplied_and_divided,
    nan_formula,
    output_with_nan,
    remove_entries,
    remove_formulas,
    summed_and_back,
    there_and_back,
    through_a_type,
    tied,
    unused_is_trained,
    write_answer,
)
from lies_of_trace import computed_in, drop, optimizer, renamed, several_microbatches
from small_step import WORDS
from variants import Variant, amounts, at_spots, both, each, nothing

RECORDED_NAN = (
    (with_values("a loss is NaN", LOSS, np.nan), LOSS),
    (
        with_values("an output is all NaN", ("output", "layers.4.act"), np.nan),
        ("output", "layers.4.act"),
    ),
    (
        with_values("an output is infinite", ("output", "layers.4.act"), np.inf),
        ("output", "layers.4.act"),
    ),
    (
        with_values("all but one are NaN", ("output", "layers.4.act"), np.nan, -1),
        ("output", "layers.4.act"),
    ),
)


def mechanisms() -> dict[str, list[Variant]]:
    masks = (-1e4, -1e9, -1e30, float(np.finfo("float32").min))
    half_masks = (-1e4, -3e4, float(np.finfo("float16").min))
    return {
        "a large number added and taken away": amounts(there_and_back),
        "a product and one less of it": amounts(multiplied_and_divided),
        "a large number through a maximum": amounts(summed_and_back),
        "terms added to themselves": each(
            {f"{times} times": behind_all(doubled_and_back(times)) for times in (30, 50, 200)},
            *EVERY_FAULT,
        ),
        "a bound that is not finite": each(
            {
                "overflow": behind_all(there_and_back(1e300)),
                "overflow of a product": behind_all(multiplied_and_divided(1e290)),
            },
            *EVERY_FAULT,
        ),
        "a bound of one loss": list(
            at_spots("1e10", lambda key: behind(there_and_back(1e10), key), LOSS_DOUBLED)
        ),
        "all formulas removed": each({"all": remove_formulas(everything)}, *EVERY_FAULT),
        "formulas of one kind removed": [
            *each({"outputs": remove_formulas(kinds("output"))}, ZEROED, SCALED),
            *each(
                {
                    "inputs": remove_formulas(kinds("input")),
                    "output gradients": remove_formulas(kinds("grad_output")),
                },
                BACKWARD_LOST,
            ),
            *each({"raw gradients": remove_formulas(kinds("param_grad"))}, FLIPPED, ALL_FLIPPED),
            *each({"the loss": remove_formulas(kinds("loss"))}, LOSS_DOUBLED),
        ],
        "one formula removed": list(at_spots("that one", lambda key: remove_formulas(is_key(key)))),
        "a module's formulas removed": each(
            {"of it": remove_formulas(lambda _, name: name.startswith("layers.2."))},
            ZEROED,
            SCALED,
            FLIPPED,
        ),
        "entries of a kind removed": [
            *each({"outputs": remove_entries(kinds("output"))}, ZEROED),
            *each({"raw gradients": remove_entries(kinds("param_grad"))}, FLIPPED, ALL_FLIPPED),
            *each({"the loss": remove_entries(kinds("loss"))}, LOSS_DOUBLED),
            *each({"output gradients": remove_entries(kinds("grad_output"))}, BACKWARD_LOST),
        ],
        "the loss's entry removed, and the loss": each(
            {
                "both": both(
                    remove_entries(kinds("loss")),
                    drop(kinds("loss")),
                    remove_formulas(is_key(SPOT)),
                )
            },
            ZEROED,
        ),
        "an output that follows from what is given to the next": each(
            {"it": follows_from_next}, ZEROED, SCALED
        ),
        "what a module is given has no formula": each(
            {
                "one": remove_formulas(is_key(("input", "layers.3.fc"))),
                "all": remove_formulas(
                    lambda kind, name: (
                        kind == "input" and name != "(model)" and name != "(model)[labels]"
                    )
                ),
            },
            Fault("a module is given zeros", {("input", "layers.3.fc"): np.zeros_like}),
        ),
        "everything is opaque": each(
            {"all": make_opaque(everything), "without operands": make_opaque(everything, False)},
            *EVERY_FAULT,
        ),
        "a kind is opaque": [
            *each(
                {"raw gradients": make_opaque(kinds("param_grad"))},
                FLIPPED,
                BIAS_FLIPPED,
                ALL_FLIPPED,
            ),
            *each({"the loss": make_opaque(kinds("loss"))}, LOSS_DOUBLED),
            *each(
                {"gradients": make_opaque(kinds("param_grad", "grad_output"))},
                FLIPPED,
                BACKWARD_LOST,
            ),
        ],
        "gradients of two layers are opaque": each(
            {
                "both": make_opaque(
                    lambda kind, name: (
                        kind == "param_grad" and name.startswith(("layers.2.", "layers.3."))
                    )
                )
            },
            FLIPPED,
            BIAS_FLIPPED,
        ),
        "an output opaque, without operands": each(
            {"it": make_opaque(is_key(SPOT), False)}, ZEROED, SCALED
        ),
        "the recorded value as the formula": [
            *each({"of it": write_answer(SPOT)}, ZEROED, SCALED),
            *each({"of it": write_answer(LOSS)}, LOSS_DOUBLED),
        ],
        "the recorded value as a buffer": [
            *each({"of it": answer_in_buffer(SPOT)}, ZEROED, SCALED),
            *each({"of it": answer_in_buffer(LOSS)}, LOSS_DOUBLED),
        ],
        "a trace without the loss": each({"without": drop(kinds("loss"))}, LOSS_DOUBLED),
        "a trace without main gradients": each(
            {
                "all": drop(kinds("main_grad", "grad_norm")),
                "one": drop(is_key(("main_grad", "layers.2.fc.weight"))),
            },
            MAIN_DOUBLED,
        ),
        "a trace without raw gradients": each(
            {
                "all": drop(kinds("param_grad")),
                "with main gradients gone": drop(kinds("param_grad", "main_grad", "grad_norm")),
            },
            FLIPPED,
            ALL_FLIPPED,
        ),
        "a trace without the gradient norm": each(
            {"clipped": both(after_backward(clip_norm=1e9), drop(kinds("grad_norm")))}, NORM_HALVED
        ),
        "a trace of parameters and a norm": each(
            {"alone": drop(lambda kind, _: kind not in ("param", "grad_norm"))},
            ZEROED,
            FLIPPED,
            LOSS_DOUBLED,
        ),
        "a trace of outputs alone": each(
            {"alone": drop(lambda kind, _: kind not in ("param", "output", "input"))},
            FLIPPED,
            LOSS_DOUBLED,
        ),
        "a trace of updates alone": each(
            {
                "alone": drop(
                    lambda kind, _: (
                        kind not in ("param", "main_grad", "grad_norm", "param_after_step")
                    )
                )
            },
            ZEROED,
            FLIPPED,
        ),
        "no rule for main gradients": each({"none": after_backward(main_grad=None)}, MAIN_DOUBLED),
        "names that are tied by the specification alone": [
            *each(
                {
                    "hides a main gradient": both(
                        tied("layers.2.fc.weight", "layers.3.fc.weight"),
                        drop(is_key(("main_grad", "layers.2.fc.weight"))),
                    )
                },
                MAIN_DOUBLED,
            ),
            *each(
                {"adds another's": tied("layers.2.fc.weight", "layers.3.fc.weight")}, MAIN_DOUBLED
            ),
        ],
        "tensors of several micro-batches": [
            *each(
                {"raw gradients": several_microbatches(kinds("param_grad"))}, FLIPPED, ALL_FLIPPED
            ),
            *each({"the loss": several_microbatches(kinds("loss"))}, LOSS_DOUBLED),
            *each(
                {
                    "all values": several_microbatches(
                        kinds("input", "output", "grad_output", "param_grad", "loss")
                    )
                },
                ZEROED,
                BACKWARD_LOST,
            ),
        ],
        "tensors under another name": [
            *each({"all raw gradients": renamed(kinds("param_grad"))}, FLIPPED),
            *each({"the loss": renamed(kinds("loss"))}, LOSS_DOUBLED),
            *each({"main gradients": renamed(kinds("main_grad"))}, MAIN_DOUBLED),
        ],
        "a coarser type that the run claims": [
            Variant(
                f"{dtype}, {factor:g} times",
                Fault(
                    f"a main gradient is {factor:g} times itself",
                    {("main_grad", "layers.2.fc.weight"): lambda v, f=factor: v * f},
                ),
                computed_in(
                    dtype, ("main_grad", "layers.2.fc.weight"), ("param_grad", "layers.2.fc.weight")
                ),
            )
            for dtype in ("bfloat16", "float16")
            for factor in (1.0002, 1.001)
        ],
        "a parameter that nothing uses": [
            Variant(name, unused(name, change), lie)
            for name, change in (
                ("doubles", lambda v: v * 2),
                ("moves by a thousandth", lambda v: v + 1e-3),
                ("changes its sign", np.negative),
                (
                    "has one other element",
                    lambda v: np.concatenate([v.reshape(-1)[:-1], [1.0]]).reshape(v.shape),
                ),
            )
            for lie in (nothing,)
        ],
        "one that nothing uses, out of the optimizer": each(
            {"not listed": optimizer(lambda group: group["params"].remove("unused.weight"))},
            unused("doubles", lambda v: v * 2),
            unused("moves", lambda v: v + 1e-3),
        ),
        "one that nothing uses, with decay": each(
            {"decayed": optimizer(lambda group: group.update(weight_decay=0.1))},
            unused("doubles", lambda v: v * 2),
            unused("grows by its decay", lambda v: v * np.float32(1.0125)),
        ),
        "one that nothing uses, by Adam": each(
            {
                "adamw": optimizer(
                    lambda group: group.update(
                        type="adamw", betas=[0.9, 0.999], eps=1e-8, amsgrad=False
                    )
                )
            },
            unused("doubles", lambda v: v * 2),
            unused("takes a step of lr", lambda v: v - 0.125),
        ),
        "one that nothing uses, claimed to have a gradient": each(
            {
                "without formula": unused_is_trained(),
                "opaque": unused_is_trained(opaque="aten.special"),
            },
            unused("doubles", lambda v: v * 2),
        ),
        "a mask beside wrong scores": [
            Variant(fault.name, fault, nothing)
            for make in (wrong_scores, wrong_score)
            for fault in [make(mask) for mask in masks]
            + [make(mask, "float16") for mask in half_masks]
        ],
        "a mask, and a bound for what is beside it": [
            Variant(fault.name, fault, behind(there_and_back(1e7), ("output", "mask")))
            for fault in [wrong_scores(mask) for mask in masks[1:]]
        ],
        "a column of large numbers beside wrong ones": [
            Variant(
                f"{factor:g} times",
                Fault(
                    "scores are off by 0.5·k",
                    {("output", "mask"): lambda v: v + 0.5 * np.arange(WORDS)},
                    mask=factor,
                ),
                nothing,
            )
            for factor in (1e7, 1e12)
        ],
        "values that are not finite, as the formula says": [
            Variant(
                fault.name, fault, nan_formula("inf" if "infinite" in fault.name else "nan", key)
            )
            for fault, key in RECORDED_NAN
        ],
        "the coarsest type of a formula, and more": each(
            {
                "8 bits and 1e10": both(
                    behind_all(through_a_type("float8_e5m2")), behind_all(there_and_back(1e10))
                )
            },
            *EVERY_FAULT,
        ),
        "another model's constants": [
            *each(
                {"a slope": behind(lambda x, n: [full(1.5), ["multiply", [x, n], {}]], SPOT)},
                ZEROED,
            ),
            *each(
                {
                    "a reduction": changed_node(
                        "nll_loss", lambda node: node[2].update(reduction="sum"), LOSS
                    )
                },
                LOSS_DOUBLED,
            ),
        ],
        "another model's parameters": [
            Variant(name, Fault("an output is of other weights", {}), lie)
            for name, lie in (
                (
                    "in the trace",
                    lambda run: run.values.update(
                        {("param", "layers.2.fc.weight"): run.values["param", "layers.3.fc.weight"]}
                    ),
                ),
                (
                    "with opaque outputs",
                    both(
                        lambda run: run.values.update(
                            {
                                ("param", "layers.2.fc.weight"): run.values[
                                    "param", "layers.3.fc.weight"
                                ]
                            }
                        ),
                        make_opaque(kinds("output")),
                    ),
                ),
            )
        ],
    } | lies_of_updates.mechanisms()


def said() -> dict[str, list[Variant]]:
    """Exit code 0 is right, and the first line tells: mechanism -> variants. The name of a variant
    begins with what the line must have."""
    return {
        "one gradient is opaque": each(
            {"the gradients of 1 of 12 parameters were not judged": make_opaque(is_key(GRADIENT))},
            FLIPPED,
        ),
        "a bound of one tensor": [
            *at_spots(
                "1 could not be judged",
                lambda key: behind(there_and_back(1e10), key),
                SCALED,
                BACKWARD_LOST,
            ),
            *at_spots(
                "1 could not be judged", lambda key: behind(there_and_back(1e30), key), ZEROED
            ),
            *at_spots(
                "the gradients of 1 of 12 parameters",
                lambda key: behind(there_and_back(1e30), key),
                FLIPPED,
                BIAS_FLIPPED,
            ),
        ],
        "one output is opaque": each({"1 could not be judged": make_opaque(is_key(SPOT))}, ZEROED),
        "a type that is coarser than all that is stored": each(
            {"coarser than anything stored": behind(through_a_type("float8_e5m2"), SPOT)},
            Fault("every other element is a tenth off", {SPOT: lambda v: v * alternating(v, 0.1)}),
        ),
        "a bound of most of the value": each(
            {"a bound of more than half of its value": behind(there_and_back(8e6), SPOT)},
            Fault("every other element is a fifth off", {SPOT: lambda v: v * alternating(v, 0.2)}),
        ),
        "values that are not finite, as the formula says": each(
            {"1 tensor has NaN or infinities, as expected": output_with_nan},
            Fault("some values are NaN", {}),
        ),
    } | lies_of_updates.said()
