"""Walking statements: assignments, branches (both sides where undecided), loops (their body once), definitions."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from analyzers.source.limits import BudgetExceededError
from analyzers.source.program.assignment import assign
from analyzers.source.program.definitions import decorated, decorator_path, register, tell_bases
from analyzers.source.program.events import Guard, Loop
from analyzers.source.program.expressions import evaluate, known_items, origin_of
from analyzers.source.program.imports import import_from, import_plain
from analyzers.source.program.loops import limits_of, trip_count, widen
from analyzers.source.program.machine import Machine, Write, frame_of
from analyzers.source.program.operators import binary
from analyzers.source.program.values import (
    NONE,
    ClassVal,
    Const,
    Ext,
    File,
    Frame,
    Func,
    Map,
    Module,
    Obj,
    Origin,
    Range,
    Seq,
    Unknown,
    Val,
    merged,
    truth,
)

Changes = dict[tuple[int, object], Write]
#: How a block ended.
NEXT, BREAK, CONTINUE, RETURN, RAISE = "next", "break", "continue", "return", "raise"
UNROLL_MAX = 64


def run_module(machine: Machine, module: Module, parsed: ast.Module) -> None:
    """Walk a module's body."""
    execute(machine, parsed.body, frame_of(module))


def execute(machine: Machine, body: Sequence[ast.stmt], frame: Frame) -> str:
    """Walk statements until one of them leaves the block."""
    depths = machine.depths()
    journal = machine.journal
    for statement in body:
        machine.tick()
        handler = _STATEMENTS.get(type(statement))
        if handler is None:
            continue
        try:
            status = handler(machine, statement, frame)
        except RecursionError:
            machine.come_back(depths, journal)
            machine.tree.warn(f"{frame.module.path}: too deeply nested in places; those were left out")
            machine.record.complete = False
            continue
        if status != NEXT:
            return status
    return NEXT


# --- assignment ---------------------------------------------------------------------------------------------------


def _assign(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Assign)
    value = evaluate(machine, node.value, frame)
    if isinstance(value, Unknown) and value.why == "raises here":
        return RAISE
    for target in node.targets:
        assign(machine, target, value, frame)
    return NEXT


def _annotated(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.AnnAssign)
    if node.value is not None:
        assign(machine, node.target, evaluate(machine, node.value, frame), frame)
    return NEXT


def _augmented(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.AugAssign)
    old = evaluate(machine, node.target, frame)
    value = binary(node.op, old, evaluate(machine, node.value, frame), origin_of(node, frame))
    if isinstance(old, Seq) and isinstance(value, Seq):
        machine.change_items(old, value.items)
        old.open = value.open
        return NEXT
    assign(machine, node.target, value, frame)
    return NEXT


def _expression(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Expr)
    value = evaluate(machine, node.value, frame)
    if isinstance(value, Unknown) and value.why == "exits":
        return RAISE
    return NEXT


# --- branches -----------------------------------------------------------------------------------------------------


def _if(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.If)
    test = evaluate(machine, node.test, frame)
    known = truth(test)
    # A chain of elifs is a deep tree on its else side: what is known to be passed over needs no recursion.
    while known is False and len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        test = evaluate(machine, node.test, frame)
        known = truth(test)
    if known is not None:
        return execute(machine, node.body if known else node.orelse, frame)
    guard_value = test if isinstance(test, Unknown) else Unknown("condition", origin_of(node, frame))
    return _both(machine, guard_value, node, frame)


def _both(machine: Machine, value: Unknown, node: ast.If, frame: Frame) -> str:
    """Walk both sides of an undecided test and merge what they leave."""
    ends: list[tuple[str, Changes]] = []
    outer_journal = machine.journal
    for body, negated in ((node.body, False), (node.orelse, True)):
        machine.guards.append(Guard(value, node.test, negated))
        machine.journal = []
        try:
            status = execute(machine, body, frame)
        except BudgetExceededError:
            machine.continue_with(outer_journal)  # a call around this one may go on without it
            raise
        if machine.loops and (status == BREAK or (status == RETURN and machine.loops[-1].function == frame.function)):
            _note_break(machine)
        machine.guards.pop()
        ends.append((status, machine.take_back(machine.journal)))
    machine.journal = outer_journal
    alive = [changes for status, changes in ends if status == NEXT]
    if alive:
        _merge(machine, alive, origin_of(node, frame))
        return NEXT
    # Both sides leave; a side that raises is taken not to be the way the job goes.
    status, changes = next((end for end in ends if end[0] != RAISE), ends[0])
    _apply(machine, changes)
    return status


def _apply(machine: Machine, changes: Changes) -> None:
    for container, key, value in changes.values():
        if isinstance(container, Seq) and isinstance(value, Seq):
            machine.change_items(container, value.items)
        elif value is not None:
            machine.store(container, key, value)


def _merge(machine: Machine, alive: list[Changes], origin: Origin) -> None:
    if len(alive) == 1:
        _apply(machine, alive[0])
        return
    first, second = alive
    for slot in {**first, **second}:
        container, key, _ = first.get(slot) or second[slot]
        values = [side[slot][2] for side in (first, second) if slot in side]
        if isinstance(container, Seq):
            longest = max((v for v in values if isinstance(v, Seq)), key=lambda s: len(s.items))
            machine.change_items(container, longest.items)
            container.open = True
            continue
        if len(values) == 1:
            values.append(container.get(key))
        known = [v for v in values if v is not None]
        if known:
            machine.store(container, key, merged(known, origin))


def _note_break(machine: Machine) -> None:
    loop = machine.loops[-1]
    loop.breaks.append(tuple(machine.guards[loop.guard_depth :]))


# --- loops --------------------------------------------------------------------------------------------------------


def _for(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.For | ast.AsyncFor)
    iterable = evaluate(machine, node.iter, frame)
    items = known_items(iterable)
    origin = origin_of(node, frame)
    # A count is a loop to remember, but for the layers that a network's constructor adds one by one.
    if items is not None and len(items) <= UNROLL_MAX and (machine.building or not isinstance(iterable, Range)):
        return _unrolled(machine, node, items, frame, open_=isinstance(iterable, Seq) and iterable.open)
    target = node.target.id if isinstance(node.target, ast.Name) else ""
    loop = Loop(origin, "for", iterable, trip_count(iterable), function=frame.function, target=target)
    first: Val = Unknown("loop variable", origin, detail=("loop", loop))
    if isinstance(iterable, Obj) and isinstance(iterable.cls, Ext) and iterable.cls.path == "enumerate":
        first = Seq([first, Unknown("element", origin)], "tuple", origin)
    widen(machine, node.body, frame, origin)
    assign(machine, node.target, first, frame)
    status = _body(machine, loop, node.body, frame)
    if status == BREAK:
        loop.trip = Const(1, origin)
    elif status == RETURN:
        return status
    return NEXT  # a job that people run does not go over what it refuses: there is nothing of it


def _unrolled(machine: Machine, node: ast.For | ast.AsyncFor, items: list[Val], frame: Frame, *, open_: bool) -> str:
    for value in items:
        assign(machine, node.target, value, frame)
        status = execute(machine, node.body, frame)
        if status == BREAK:
            return NEXT
        if status == RETURN or (status == RAISE and not open_):
            return status
    return execute(machine, node.orelse, frame)


def _body(machine: Machine, loop: Loop, body: Sequence[ast.stmt], frame: Frame) -> str:
    machine.record.loops.append(loop)
    machine.loops.append(loop)
    loop.guard_depth = len(machine.guards)
    depth = len(machine.loops)
    try:
        return execute(machine, body, frame)
    finally:
        del machine.loops[depth - 1 :]


def _while(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.While)
    origin = origin_of(node, frame)
    test = evaluate(machine, node.test, frame)
    if truth(test) is False:
        return execute(machine, node.orelse, frame)
    if _over_items(machine, node.test, frame):
        counted = _counted(machine, node, frame)
        if counted is not None:
            return counted
    # The first time round with the values as they are: a run that leaves at once is known only so.
    calls_before, loops_before = len(machine.record.calls), len(machine.record.loops)
    outer, machine.journal = machine.journal, []
    first = Loop(origin, "while", None, None, function=frame.function)
    status = _body(machine, first, node.body, frame)
    if status == BREAK:
        first.trip = Const(1, origin)
        machine.continue_with(outer)
        return NEXT
    if status in (RETURN, RAISE):
        machine.continue_with(outer)
        return status
    machine.take_back(machine.journal)
    machine.journal = outer
    del machine.record.calls[calls_before:]
    del machine.record.loops[loops_before:]
    # Then with everything that the body changes made unknown.
    widen(machine, node.body, frame, origin)
    test = evaluate(machine, node.test, frame)
    loop = Loop(origin, "while", None, None, function=frame.function)
    if isinstance(test, Unknown):
        loop.limits.extend(limits_of(test, node.test))
        loop.breaks.append((Guard(test, node.test, negated=True),))
    status = _body(machine, loop, node.body, frame)
    return NEXT if status in (BREAK, NEXT, CONTINUE) else status


def _over_items(machine: Machine, test: ast.expr, frame: Frame) -> bool:
    """Whether a loop goes through a short list that is known (``while i < len(words)``, ``while words``)."""
    lists = [n.args[0] for n in ast.walk(test) if isinstance(n, ast.Call) and _is_len(n)]
    lists += [test] if isinstance(test, ast.Name) else []
    values = [frame_value(machine, each, frame) for each in lists]
    return any(isinstance(v, Seq) and not v.open and len(v.items) <= UNROLL_MAX for v in values)


def _is_len(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1


def frame_value(machine: Machine, node: ast.expr, frame: Frame) -> Val | None:
    """The value of a plain name; None for anything else, which may do something when it is looked at."""
    return evaluate(machine, node, frame) if isinstance(node, ast.Name) else None


def _counted(machine: Machine, node: ast.While, frame: Frame) -> str | None:
    """Walk every round of a loop whose test stays known; None, with nothing changed, where it does not."""
    calls, loops, settings = len(machine.record.calls), len(machine.record.loops), len(machine.record.settings)
    outer, machine.journal = machine.journal, []
    status: str | None = None
    for _ in range(UNROLL_MAX):
        known = truth(evaluate(machine, node.test, frame))
        if known is None:
            break
        if not known:
            status = NEXT
            break
        ended = execute(machine, node.body, frame)
        if ended == BREAK:
            status = NEXT
            break
        if ended in (RETURN, RAISE):
            status = ended
            break
    if status is None:
        machine.take_back(machine.journal)
        machine.journal = outer
        del machine.record.calls[calls:], machine.record.loops[loops:], machine.record.settings[settings:]
        return None
    machine.continue_with(outer)
    return status


# --- the rest -----------------------------------------------------------------------------------------------------


def _with(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.With | ast.AsyncWith)
    entered = 0
    for part in node.items:
        value = evaluate(machine, part.context_expr, frame)
        machine.contexts.append(_context_name(value))
        entered += 1
        if part.optional_vars is not None:
            assign(machine, part.optional_vars, value, frame)
    status = execute(machine, node.body, frame)
    del machine.contexts[len(machine.contexts) - entered :]
    return status


def _context_name(value: Val) -> str:
    if isinstance(value, Obj):
        return value.call.path if value.call is not None else getattr(value.cls, "path", getattr(value.cls, "name", ""))
    return "open" if isinstance(value, File) else value.path if isinstance(value, Ext) else ""


def _try(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Try | ast.TryStar)
    status = execute(machine, node.body, frame)
    if status == RAISE and node.handlers:
        status = execute(machine, node.handlers[0].body, frame)
    elif status == NEXT:
        status = execute(machine, node.orelse, frame)
    final = execute(machine, node.finalbody, frame)
    return final if final != NEXT else status


def _return(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Return)
    frame.returned.append(evaluate(machine, node.value, frame) if node.value is not None else NONE)
    return RETURN


def _break(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    return BREAK


def _continue(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    return CONTINUE


def _raise(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    return RAISE


def _function(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    machine.store(frame.names, node.name, decorated(machine, node, frame, None))
    return NEXT


def _class(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.ClassDef)
    origin = origin_of(node, frame)
    bases = [evaluate(machine, b, frame) for b in node.bases]
    cls = ClassVal(node.name, bases, {}, {}, origin)
    body_frame = Frame(frame.module, cls.attrs, frame, f"{frame.function}.{node.name}", owner=cls)
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            cls.attrs[statement.name] = decorated(machine, statement, body_frame, cls)
        else:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                cls.annotations[statement.target.id] = statement.annotation
            execute(machine, [statement], body_frame)
    for decorator in node.decorator_list:
        value = evaluate(machine, decorator, frame)
        path = value.path if isinstance(value, Ext) else decorator_path(value)
        cls.dataclass = cls.dataclass or path.rpartition(".")[2] in ("dataclass", "define", "attrs", "s", "frozen")
        if isinstance(value, Func):
            register(machine, value, cls, origin)
    cls.dataclass = (
        cls.dataclass
        or any(isinstance(b, ClassVal) and b.dataclass for b in bases)
        or any(
            isinstance(b, Ext)
            and b.path.rpartition(".")[2] in ("BaseModel", "NamedTuple", "BaseSettings", "TrainingArguments")
            for b in bases
        )
    )
    machine.store(frame.names, node.name, cls)
    tell_bases(machine, cls, node, frame, origin)
    return NEXT


def _import(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Import)
    import_plain(machine, node, frame, origin_of(node, frame))
    return NEXT


def _import_from(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.ImportFrom)
    import_from(machine, node, frame, origin_of(node, frame))
    return NEXT


def _global(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Global)
    frame.global_names.update(node.names)
    return NEXT


def _delete(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Delete)
    for target in node.targets:
        if isinstance(target, ast.Attribute | ast.Subscript) and not machine.guards and not machine.loops:
            owner = evaluate(machine, target.value, frame)
            key = Const(target.attr) if isinstance(target, ast.Attribute) else evaluate(machine, target.slice, frame)
            if isinstance(owner, Map) and isinstance(key, Const):
                owner.items.pop(key.value, None)
    return NEXT


def _match(machine: Machine, node: ast.stmt, frame: Frame) -> str:
    assert isinstance(node, ast.Match)
    subject = evaluate(machine, node.subject, frame)
    for case in node.cases:
        pattern = case.pattern
        if isinstance(pattern, ast.MatchValue):
            value = evaluate(machine, pattern.value, frame)
            if isinstance(subject, Const) and isinstance(value, Const) and subject.value == value.value:
                return execute(machine, case.body, frame)
        elif isinstance(pattern, ast.MatchAs) and pattern.pattern is None and isinstance(subject, Const):
            return execute(machine, case.body, frame)
    return NEXT


_STATEMENTS: dict[type[ast.stmt], Callable[[Machine, ast.stmt, Frame], str]] = {
    ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Expr: _expression, ast.If: _if,
    ast.For: _for, ast.AsyncFor: _for, ast.While: _while, ast.With: _with, ast.AsyncWith: _with, ast.Try: _try,
    ast.TryStar: _try, ast.Return: _return, ast.Break: _break, ast.Continue: _continue, ast.Raise: _raise,
    ast.FunctionDef: _function, ast.AsyncFunctionDef: _function, ast.ClassDef: _class, ast.Import: _import,
    ast.ImportFrom: _import_from, ast.Global: _global, ast.Delete: _delete, ast.Match: _match,
}  # fmt: skip
