"""Conditions on `__name__`: what importing a script runs, and what running it does."""

from __future__ import annotations

import ast

# The __name__ of the script while it is looked at.
IMPORTED_AS = "ttrace_doctor"


def guards(node: ast.If) -> bool:
    """Whether importing leaves out a branch that the main program may take."""
    imported, main = value_of(node.test, IMPORTED_AS), value_of(node.test, "__main__")
    return imported is not None and imported is not main and (not imported or bool(node.orelse))


def value_of(node: ast.expr, name: str) -> bool | None:
    """What a condition is in a module of that name; None if that depends on anything else."""
    if isinstance(node, ast.BoolOp):
        values = [value_of(value, name) for value in node.values]
        deciding = isinstance(node.op, ast.Or)
        if deciding in values:
            return deciding
        return None if None in values else not deciding
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = value_of(node.operand, name)
        return None if value is None else not value
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        sides = [_text(side, name) for side in (node.left, *node.comparators)]
        if len(sides) == 2 and None not in sides:
            return (sides[0] == sides[1]) is isinstance(node.ops[0], ast.Eq)
    return bool(node.value) if isinstance(node, ast.Constant) else None


def _text(node: ast.expr, name: str) -> str | None:
    """The text that an expression is in a module of that name, if it is `__name__` or a literal."""
    if isinstance(node, ast.Name) and node.id == "__name__":
        return name
    known = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(ast.literal_eval(node)) if known else None
