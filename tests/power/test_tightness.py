"""What is taken from the report of an audit."""

from power.tightness import ratios, sort_of


def result(kind: str, **check: object) -> dict:
    return {"key": {"kind": kind}, "checks": [{"operation": "expression", **check}]}


def test_ratios_are_of_expressions_that_are_off() -> None:
    report = {
        "results": [
            result("output", expected="matmul of a", error=2.0, bound=6.0, by_probes=True),
            result("param_grad", expected="matmul of a", error=1.0, bound=4.0, by_probes=True),
            result("grad_output", expected="matmul, multiply of a", error=1.0, bound=5.0),
            result("output", expected="silu of matmul", error=1.0, bound=2.0),
            result("output", expected="add of a", error=0.0, bound=1.0),
            {"key": {"kind": "param"}},
        ]
    }
    assert list(ratios(report)) == [
        ("products, forward", 3.0),
        ("products, to weights", 4.0),
        ("products inside", 5.0),
        ("others", 2.0),
    ]


def test_a_product_of_another_kind_is_one_too() -> None:
    assert sort_of("input", "matmul", True) == "products, other"
