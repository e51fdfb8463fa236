"""The state of one walk: budget, modules, the journal that undoes a branch, and the record of what was met."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyzers.source.files import Tree, normal
from analyzers.source.launch.model import Launch
from analyzers.source.limits import BudgetExceededError
from analyzers.source.program.events import Call, Guard, Loop, Record
from analyzers.source.program.notebook import notebook_source
from analyzers.source.program.parsing import JOB_MARKS_MAX, MARKS_MAX, marks, parse_python
from analyzers.source.program.values import (
    SEQUENCE_MAX,
    Bound,
    ClassVal,
    Const,
    Frame,
    Func,
    Map,
    Module,
    Obj,
    Origin,
    Seq,
    Unknown,
    Val,
)

if TYPE_CHECKING:
    from analyzers.source.program.native import Handler

STEPS_MAX = 100_000
CALLS_MAX = 20_000
DEPTH_MAX = 28


#: Reasons of values that only drift away from what they were set to.
_DRIFTS = ("arithmetic", "changes in a loop", "depends on a condition")
#: One write: where, under which key, and the value before (None: there was none).
Write = tuple[Any, object, "Val | None"]


@dataclass(slots=True)
class Machine:
    """Everything the walk over one program needs to know.

    ``reads`` holds the last value read under each plain name, attribute or key: what is set but never read is not
    in it. ``told`` holds the first value of the launch that was read under a
    name. ``walked`` holds the functions that were entered, by the identity of their node, with their file.
    ``in_configuration``: a configuration that is written in Python is walked. ``steps_end``: the count of steps at
    which a call has used up its share and is given up; ``given_up`` holds such functions, by their node's identity.
    """

    tree: Tree
    launch: Launch
    record: Record = field(default_factory=Record)
    handlers: dict[str, Handler] = field(default_factory=dict)
    library_values: dict[str, Val] = field(default_factory=dict)
    modules: dict[str, Module] = field(default_factory=dict)
    search_paths: list[str] = field(default_factory=list)
    guards: list[Guard] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    stack: list[object] = field(default_factory=list)
    journal: list[Write] = field(default_factory=list)
    forwarded: set[int] = field(default_factory=set)
    reads: dict[str, Val] = field(default_factory=dict)
    told: dict[str, Const] = field(default_factory=dict)
    parsed: dict[str, ast.Module] = field(default_factory=dict)
    generators: dict[int, bool] = field(default_factory=dict)
    walked: dict[int, tuple[ast.AST, str]] = field(default_factory=dict)
    invoke: Callable[[Machine, Val, list[Val], dict[str, Val], Origin], Val] | None = None
    run_module: Callable[[Machine, Module, ast.Module], None] | None = None
    devices_per_process: int | None = None
    processes: int | None = None
    building: int = 0
    in_configuration: bool = False
    steps: int = 0
    steps_end: int = STEPS_MAX
    given_up: set[int] = field(default_factory=set)
    marks: int = 0

    def read_name(self, name: str, value: Val) -> None:
        """Remember what was read under a name; a number that a loop then changes keeps its first value.

        What a setting made (``args.model`` is a name, ``self.model`` the network) does not stand for the setting.
        """
        if isinstance(value, Obj | Func | ClassVal | Module | Bound) and isinstance(self.reads.get(name), Const):
            return
        if isinstance(value, Const) and value.origin.how == "override":
            self.told.setdefault(name, value)
        if isinstance(value, Unknown) and value.why.startswith(_DRIFTS) and name in self.reads:
            return
        known = self.reads.get(name)
        if isinstance(known, Const) and known.origin.how in ("override", "default") and not isinstance(value, Const):
            return  # an option that was read stays told, whatever else goes by its name
        self.reads[name] = value

    def tick(self) -> None:
        """Count one step; raise when the budget is spent."""
        self.steps += 1
        if self.steps > self.steps_end:
            raise BudgetExceededError
        if self.steps & 255 == 0:
            self.tree.deadline.check()

    def made(self, value: Val) -> Val:
        """Count a value that was put together: a large one costs more steps, so that steps bound memory as well."""
        if isinstance(value, Seq | Map):
            self.steps += len(value.items) >> 6
        elif isinstance(value, Const) and isinstance(value.value, str):
            self.steps += len(value.value) >> 9
        return value

    # --- writes that can be undone -------------------------------------------------------------------------------

    def store(self, names: MutableMapping[Any, Val], key: object, value: Val) -> None:
        """Set ``names[key]``, remembering how to undo it."""
        self.journal.append((names, key, names.get(key)))
        names[key] = value

    def change_items(self, seq: Seq, items: list[Val]) -> None:
        """Replace a sequence's items, remembering how to undo it; more than are followed are left open."""
        self.journal.append((seq, None, Seq(seq.items)))
        seq.items = items[:SEQUENCE_MAX]
        seq.open = seq.open or len(items) > SEQUENCE_MAX
        self.made(seq)

    def take_back(self, journal: list[Write]) -> dict[tuple[int, object], Write]:
        """Undo the writes of a branch, newest first; return what it had left, to be set again or merged."""
        left: dict[tuple[int, object], Write] = {}
        for container, key, _ in journal:
            if isinstance(container, Seq):
                left[id(container), key] = (container, key, Seq(container.items, open=container.open))
            else:
                left[id(container), key] = (container, key, container.get(key))
        while journal:
            container, key, old = journal.pop()
            if isinstance(container, Seq):
                container.items = old.items if isinstance(old, Seq) else []
            elif old is None:
                container.pop(key, None)
            else:
                container[key] = old
        return left

    def depths(self) -> tuple[int, int, int, int]:
        """How deep the walk is in conditions, loops, ``with`` blocks and calls."""
        return len(self.guards), len(self.loops), len(self.contexts), len(self.stack)

    def continue_with(self, journal: list[Write]) -> None:
        """Put a branch's writes behind those of the journal around it, and go on with that."""
        if self.journal is not journal:
            journal.extend(self.journal)
            self.journal = journal

    def come_back(self, depths: tuple[int, int, int, int], journal: list[Write]) -> None:
        """Leave everything entered since `depths`: a statement was given up halfway. What it wrote stays."""
        self.continue_with(journal)
        entered: tuple[list[Any], ...] = (self.guards, self.loops, self.contexts, self.stack)
        for each, depth in zip(entered, depths, strict=True):
            del each[depth:]

    # --- what is met ---------------------------------------------------------------------------------------------

    def met(self, call: Call) -> None:
        """Remember a call."""
        if len(self.record.calls) < CALLS_MAX:
            call.guards = tuple(self.guards)
            call.loops = tuple(self.loops)
            call.contexts = tuple(self.contexts)
            self.record.calls.append(call)

    def call(self, callee: Val, args: list[Val], kwargs: dict[str, Val], origin: Origin) -> Val:
        """Call any value."""
        assert self.invoke is not None
        return self.invoke(self, callee, args, kwargs, origin)

    # --- modules -------------------------------------------------------------------------------------------------

    def load(self, path: str, name: str) -> Module | None:
        """The module of a file, its body walked once; None where it can not be parsed."""
        if path in self.modules:
            return self.modules[path]
        module = Module(name, path, is_package=path.endswith("__init__.py"))
        source = self.tree.read(path)
        if source is None:
            return None
        module.names["__name__"] = Const("__main__" if path == self.launch.entry and not self.launch.function else name)
        module.names["__file__"] = Const(path if path.startswith("..") else "./" + path)
        self.modules[path] = module
        parsed = self.parse(source, path, module)
        if parsed is None:
            return module
        self.parsed[path] = parsed
        assert self.run_module is not None
        saved = self.guards, self.loops, self.contexts
        self.guards, self.loops, self.contexts = [], [], []
        try:
            self.run_module(self, module, parsed)
        finally:
            self.guards, self.loops, self.contexts = saved
        return module

    def parse(self, source: str, path: str, module: Module | None = None) -> ast.Module | None:
        """Source text as a tree, with a second try for Python 2 leftovers."""
        if path.endswith(".ipynb"):
            source, lines = notebook_source(source)
            if module is not None:
                module.lines = lines
        size = marks(source)
        self.marks += size if size <= MARKS_MAX else 0
        parsed = parse_python(source) if self.marks <= JOB_MARKS_MAX else "left out, there is too much source before it"
        if isinstance(parsed, ast.Module):
            return parsed
        self.tree.warn(f"{path}: {parsed}")
        self.record.complete = False
        return None

    def yields(self, node: ast.AST) -> bool:
        """Whether a function is a generator."""
        known = self.generators.get(id(node))
        if known is None:
            known = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in own_nodes(node))
            self.generators[id(node)] = known
        return known

    def resolve(self, dotted: str, importer: Module, level: int) -> str | None:
        """The file of a module by its dotted name, or None where it is not in the tree."""
        stem = dotted.replace(".", "/")
        if level:
            folder = posixpath.dirname(importer.path)
            for _ in range(level - 1):
                folder = posixpath.dirname(folder)
            folders = [folder]
        else:
            folders = self.search_paths
        for folder in folders:
            for candidate in (f"{stem}.py", f"{stem}/__init__.py") if stem else ("__init__.py",):
                path = normal(posixpath.join(folder, candidate))
                if self.tree.is_file(path):
                    return path
            if stem and self.tree.is_dir(normal(posixpath.join(folder, stem))) and not self._shadowed(dotted):
                return normal(posixpath.join(folder, stem)) + "/"
        return None

    @staticmethod
    def _shadowed(dotted: str) -> bool:
        # A plain folder (no __init__.py) called like a library, such as datasets/ or wandb/, is rarely a package.
        return dotted.split(".")[0] in {
            "datasets",
            "wandb",
            "torch",
            "data",
            "logs",
            "lightning",
            "evaluate",
            "accelerate",
        }


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module or function that run with it: functions defined inside are met, not entered."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))


def frame_of(module: Module) -> Frame:
    """The frame of a module's body."""
    return Frame(module, module.names, None, "<module>")
