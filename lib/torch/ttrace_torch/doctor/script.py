"""What a training script does, as far as its text tells, and the lines that the collector needs.

Nothing of the script runs. Facts that its text does not tell, such as a loop inside a library, are
reported as unknown and never guessed.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ttrace_torch.doctor.guards import IMPORTED_AS, guards, value_of

_WRAPPERS = {"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP"}
_IMPORT = "import ttrace_torch as tt"
_PARAMETERS = {"parameters", "named_parameters"}
# The packages whose classes called ...Trainer are transformers' Trainer, or Lightning's.
_TRANSFORMERS = {"transformers", "trl"}
_LIGHTNING = {"lightning", "pytorch_lightning"}


class UnclearScript(Exception):
    """The lines to add do not follow from the text; the message says why."""


@dataclass
class Edits:
    """Lines to insert before a line (numbered from 1), lines to replace, and lines to indent."""

    before: dict[int, list[str]] = field(default_factory=dict)
    replaced: dict[int, str] = field(default_factory=dict)
    indented: range = range(0)
    unit: str = "    "

    def insert(self, line: int, text: str) -> None:
        """Inserts a line before `line`, after those inserted there already."""
        self.before.setdefault(line, []).append(text)

    def applied(self, lines: list[str]) -> list[str]:
        """The lines of the edited script."""
        result = []
        for number, line in enumerate(lines, start=1):
            result.extend(self.before.get(number, []))
            line = self.replaced.get(number, line)
            result.append(
                f"{self.unit}{line}" if number in self.indented and line.strip() else line
            )
        result.extend(self.before.get(len(lines) + 1, []))
        return result


class Script:
    """The text of a training script. Throws SyntaxError for one that is no Python."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self._lines = text.splitlines()
        self._tree = ast.parse(text, name)
        self._parents = {
            child: node for node in ast.walk(self._tree) for child in ast.iter_child_nodes(node)
        }

    def is_traced(self) -> bool:
        """Whether it makes a tracer."""
        made = ("trace", "trainer_callback", "Callback")
        return any(
            _called(call) in made and self._package(_called(call, whole=True)) == "ttrace_torch"
            for call in self._calls()
        )

    def imports(self) -> set[str]:
        """The packages that it imports."""
        found: set[str] = set()
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Import):
                found.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
        return found

    def has_guard(self) -> bool:
        """Whether it trains only as the main program, so that importing it trains nothing."""
        guarded = any(isinstance(node, ast.If) and guards(node) for node in self._tree.body)
        at_once = [call for call in self._calls() if not self._is_held_back(call)]
        return guarded and not any(
            _called(call) in ("backward", "train", "init_process_group") for call in at_once
        )

    def patch(self) -> str:
        """The lines that the collector needs, as a unified diff. Throws UnclearScript."""
        edits = self._edits()
        edited = edits.applied(self._lines)
        difference = difflib.unified_diff(
            self._lines, edited, self.name, self.name, lineterm="", n=1
        )
        return "\n".join(difference)

    def _edits(self) -> Edits:
        edits = Edits()
        trainer = self._assigned_from(lambda called: called.endswith("Trainer"))
        backwards = [call for call in self._calls() if _called(call) == "backward"]
        if trainer is not None:
            name, statement, called = trainer
            package = self._package(called)
            line = f"{name}.add_callback(tt.trainer_callback({name}))"
            if package in _LIGHTNING:
                line = f"{name}.callbacks.append(ttrace_torch.lightning.Callback())"
                edits.insert(self._behind_imports(), "import ttrace_torch.lightning")
            elif package in _TRANSFORMERS:
                edits.insert(self._behind_imports(), _IMPORT)
            elif not backwards:
                raise UnclearScript(
                    f"line {statement.lineno}: whether {called} is a Trainer of transformers does "
                    f"not follow from this file; if it is, say {line}"
                )
            if edits.before:
                edits.insert(_end(statement) + 1, f"{self._indent(statement)}{line}")
                return edits
        edits.insert(self._behind_imports(), _IMPORT)
        backward = self._only(backwards, "backward()")
        step = self._step_of(backward)
        loop = self._loop_around(step, backward)
        outer: ast.stmt = loop
        while isinstance(parent := self._parents.get(outer), (ast.For, ast.While)):
            outer = parent
        indent = self._indent(outer)
        edits.insert(outer.lineno, f"{indent}tracer = tt.trace({self._arguments(step)})")
        inside = self._indent(loop.body[0])
        edits.unit = inside.removeprefix(self._indent(loop))
        self._check_body(loop)
        edits.insert(loop.body[0].lineno, f"{inside}with tracer.step():")
        edits.indented = range(loop.body[0].lineno, _end(loop.body[-1]) + 1)
        edits.insert(_end(outer) + 1, f"{indent}tracer.close()")
        self._record_loss(backward, edits)
        return edits

    def _record_loss(self, backward: ast.Call, edits: Edits) -> None:
        """Wraps the expression that is assigned to the loss, if it is one line."""
        name = _loss_of(backward)
        for node in ast.walk(self._tree):
            if (
                isinstance(node, ast.Assign)
                and node.lineno in edits.indented
                and node.lineno == _end(node)
                and [ast.unparse(target) for target in node.targets] == [name]
            ):
                line = self._lines[node.lineno - 1]
                # Columns of the syntax tree count bytes.
                begin, end = node.value.col_offset, node.value.end_col_offset or 0
                raw = line.encode()
                value = raw[begin:end].decode()
                head, tail = raw[:begin].decode(), raw[end:].decode()
                edits.replaced[node.lineno] = f"{head}tracer.loss({value}){tail}"
                return
        where = self._statement(backward)
        edits.insert(where.lineno, f"{edits.unit}{self._indent(where)}tracer.loss({name})")

    def _check_body(self, loop: ast.For | ast.While) -> None:
        """Throws UnclearScript for a body that cannot be indented line by line."""
        if loop.body[0].lineno == loop.lineno:
            raise UnclearScript(f"line {loop.lineno}: the loop stands on one line")
        for node in ast.walk(loop):
            lines = (getattr(node, "lineno", 0), getattr(node, "end_lineno", 0))
            if isinstance(node, (ast.Constant, ast.JoinedStr)) and lines[0] != lines[1]:
                raise UnclearScript(
                    f"line {lines[0]}: a text of several lines, which indenting would change; put "
                    "`with tracer.step():` around the body of the loop by hand"
                )

    def _step_of(self, backward: ast.Call) -> ast.Call:
        """The call of the optimizer's step, or of an engine's."""
        owner = ast.unparse(backward.func.value) if isinstance(backward.func, ast.Attribute) else ""
        names = {name for name, _ in self._optimizers()} | {owner}
        names |= {f"{of}{name}" for of in ("", "self.") for name in ("optimizer", "scaler")}
        steps = [
            call
            for call in self._calls()
            if _called(call) == "step"
            and isinstance(call.func, ast.Attribute)
            and ast.unparse(call.func.value) in names
        ]
        return self._only(steps, "step() of an optimizer")

    def _loop_around(self, step: ast.Call, backward: ast.Call) -> ast.For | ast.While:
        node: ast.AST = step
        while not isinstance(node, (ast.For, ast.While)):
            if isinstance(node, ast.If):
                raise UnclearScript(
                    f"line {step.lineno}: the optimizer steps under a condition, so a step begins "
                    "somewhere else; put `with tracer.step():` around all micro-batches of one step"
                )
            parent = self._parents.get(node)
            if parent is None or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                raise UnclearScript(
                    f"line {step.lineno}: the loop around this step stands elsewhere; put `with "
                    "tracer.step():` around what makes one step"
                )
            node = parent
        if not any(inner is backward for inner in ast.walk(node)):
            raise UnclearScript(
                f"line {backward.lineno}: backward() runs outside of the loop of line {node.lineno}"
            )
        return node

    def _arguments(self, step: ast.Call) -> str:
        """The arguments of trace(): the model and the optimizer, or the engine."""
        engine = self._assigned_from(lambda called: called == "deepspeed.initialize")
        if engine is not None:
            return engine[0].strip("()").split(",")[0]
        # Those that the step sees; one that a method makes and returns has a name of its own there.
        scopes = self._scopes(step)
        optimizers = [
            (name, call)
            for name, call in self._optimizers()
            if self._scopes(call)[0] in scopes or name.startswith("self.")
        ]
        if not optimizers:
            raise UnclearScript(
                "no optimizer of torch.optim is made where this file trains; say tt.trace(model, "
                "optimizer) when both are complete"
            )
        name, call = optimizers[-1]
        model = self._trained_by(call)
        if model is None:
            raise UnclearScript(
                f"line {call.lineno}: which model {name} trains is not said here; say "
                f"tt.trace(model, {name}) when the model is complete"
            )
        wrapped = self._assigned_from(lambda called: called.split(".")[-1] in _WRAPPERS)
        return f"{model if wrapped is None else wrapped[0]}, {name}"

    def _optimizers(self) -> Iterator[tuple[str, ast.Call]]:
        for name, _, call in self._assignments():
            called = _called(call, whole=True)
            if (
                "optim." in called
                or called in ("SGD", "Adam", "AdamW", "Muon", "LBFGS")
                or called.endswith(".configure_optimizers")
            ):
                yield name, call

    def _trained_by(self, call: ast.Call) -> str | None:
        """The model whose parameters the optimizer gets that `call` makes: in its first argument,
        or in what the names in that were made from. None where that is not said."""
        if _called(call) == "configure_optimizers" and isinstance(call.func, ast.Attribute):
            return ast.unparse(call.func.value)
        scopes = self._scopes(call)
        named = (keyword.value for keyword in call.keywords if keyword.arg == "params")
        makers: list[ast.AST] = [*call.args[:1], *named]
        for maker in makers:
            for node in ast.walk(maker):
                owner = getattr(node, "func", None)
                if isinstance(owner, ast.Attribute) and owner.attr in _PARAMETERS:
                    return ast.unparse(owner.value)
            names = {node.id for node in ast.walk(maker) if isinstance(node, ast.Name)}
            for node in ast.walk(self._tree):
                made = isinstance(node, ast.stmt) and bool(_made_by(node) & names)
                if made and node not in makers and self._scopes(node)[0] in scopes:
                    makers.append(node)
        return None

    def _scopes(self, node: ast.AST) -> list[ast.AST | None]:
        """The functions around a node, the nearest first, and None for the file."""
        found: list[ast.AST | None] = []
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                found.append(parent)
            node = parent
        return [*found, None]

    def _assignments(self) -> Iterator[tuple[str, ast.stmt, ast.Call]]:
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                yield ast.unparse(node.targets[-1]), node, node.value

    def _assigned_from(self, takes: Callable[[str], bool]) -> tuple[str, ast.stmt, str] | None:
        """The last name assigned from a call whose whole name `takes` accepts, and that name."""
        found = None
        for name, statement, call in self._assignments():
            if takes(called := _called(call, whole=True)):
                found = name, statement, called
        return found

    def _package(self, name: str, seen: frozenset[str] = frozenset()) -> str:
        """The package that a class or function is from, or that a class of this file derives from;
        "" where this file does not say it."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ClassDef) and node.name == name and name not in seen:
                bases = (self._package(ast.unparse(base), seen | {name}) for base in node.bases)
                return next(filter(None, bases), "")
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                continue
            if isinstance(node, ast.ImportFrom) and node.level:  # of the script's own package
                continue
            for alias in node.names:
                if (alias.asname or alias.name).partition(".")[0] == name.partition(".")[0]:
                    whole = alias.name if isinstance(node, ast.Import) else node.module
                    return str(whole).partition(".")[0]
        return ""

    def _only(self, calls: list[ast.Call], what: str) -> ast.Call:
        if len(calls) == 1:
            return calls[0]
        if not calls:
            raise UnclearScript(f"this file has no {what}: the loop that trains stands elsewhere")
        lines = ", ".join(str(call.lineno) for call in calls)
        raise UnclearScript(f"several of {what}, on lines {lines}: which of them trains is open")

    def _calls(self) -> Iterator[ast.Call]:
        return (node for node in ast.walk(self._tree) if isinstance(node, ast.Call))

    def _is_held_back(self, node: ast.AST) -> bool:
        """Whether importing does not run it: it is in a function, or guarded."""
        while (parent := self._parents.get(node)) is not None:
            if isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                return True
            if (
                isinstance(parent, ast.If)
                and node is not parent.test
                and value_of(parent.test, IMPORTED_AS) is (node not in parent.body)
            ):
                return True
            node = parent
        return False

    def _statement(self, node: ast.AST) -> ast.stmt:
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def _behind_imports(self) -> int:
        last = 0
        for node in self._tree.body:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                last = _end(node)
        if last == 0 and self._tree.body and ast.get_docstring(self._tree) is not None:
            last = _end(self._tree.body[0])
        return last + 1

    def _indent(self, statement: ast.stmt) -> str:
        line = self._lines[statement.lineno - 1]
        return line[: len(line) - len(line.lstrip())]


def _called(call: ast.Call, whole: bool = False) -> str:
    """The name of the called function: "trace", or whole, "tt.trace"."""
    name = ast.unparse(call.func) if isinstance(call.func, (ast.Name, ast.Attribute)) else ""
    return name if whole else name.rpartition(".")[2]


def _made_by(node: ast.stmt) -> set[str]:
    """The names that a statement gives a value, or fills as a list in a loop."""
    if isinstance(node, ast.Assign):
        return {ast.unparse(target) for target in node.targets}
    if not isinstance(node, ast.For):
        return set()
    return {
        name.id
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and _called(call) in ("append", "extend")
        for name in ast.walk(call.func)
        if isinstance(name, ast.Name)
    }


def _loss_of(backward: ast.Call) -> str:
    """The name in loss.backward(), (loss / 2).backward(), scaler.scale(loss).backward() and
    accelerator.backward(loss). Throws UnclearScript where the loss has none."""
    at: ast.expr = backward.func
    if backward.args:
        at = backward.args[0]
    elif isinstance(at, ast.Attribute):
        at = at.value
    while not isinstance(at, ast.Name):
        if isinstance(at, ast.BinOp):
            at = at.left
        elif isinstance(at, ast.Call) and _called(at) == "scale" and at.args:
            at = at.args[0]
        else:
            raise UnclearScript(
                f"line {backward.lineno}: the loss has no name here; say loss = "
                "tracer.loss(...) before its backward()"
            )
    return at.id


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno
