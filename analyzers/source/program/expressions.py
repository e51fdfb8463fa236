"""Evaluating expressions to abstract values."""

from __future__ import annotations

import ast
from collections.abc import Callable

from analyzers.source.program.attributes import attribute
from analyzers.source.program.events import Guard
from analyzers.source.program.machine import Machine
from analyzers.source.program.operators import NUMBER_BITS_MAX, binary, compare, negate, unary
from analyzers.source.program.values import (
    NONE,
    SEQUENCE_MAX,
    UNSEEN,
    Bound,
    ClassVal,
    Const,
    Ext,
    File,
    Frame,
    Func,
    Map,
    Module,
    Native,
    Obj,
    Origin,
    Range,
    Seq,
    Unknown,
    Val,
    merged,
    string,
    truth,
)

ITEMS_MAX = 256


def origin_of(node: ast.AST, frame: Frame) -> Origin:
    """Where a node stands."""
    line = getattr(node, "lineno", 0)
    lines = frame.module.lines
    if lines is not None and 0 < line <= len(lines):
        line = lines[line - 1]
    return Origin(frame.module.path, line)


def evaluate(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    """The value of an expression."""
    machine.tick()
    handler = _EVALUATORS.get(type(node))
    if handler is None:
        return Unknown(type(node).__name__, origin_of(node, frame))
    return handler(machine, node, frame)


def lookup(machine: Machine, name: str, frame: Frame) -> Val | None:
    """A name's value through frames, module, star imports and builtins."""
    scope: Frame | None = frame
    while scope is not None:
        if name in scope.names and not (name in scope.global_names and scope.names is not scope.module.names):
            return scope.names[name]
        scope = scope.parent
    if name in frame.module.names:
        return frame.module.names[name]
    usual = machine.library_values.get(f"builtins.{name}")
    if usual is None and frame.module.stars and f"builtins.{name}" not in machine.handlers:
        return Ext(f"{frame.module.stars[-1]}.{name}")
    return usual


def _constant(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Constant)
    value = node.value
    if isinstance(value, int) and value.bit_length() > NUMBER_BITS_MAX:
        return Unknown("too large", origin_of(node, frame))
    if isinstance(value, str | int | float | bool | bytes) or value is None:
        return Const(value, origin_of(node, frame))
    return Unknown("literal", origin_of(node, frame))


def _name(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Name)
    found = lookup(machine, node.id, frame)
    if found is not None:
        machine.read_name(node.id, found)
        if isinstance(found, Const) and not found.origin.file:
            return Const(found.value, origin_of(node, frame), found.assumed)
        return found
    return Unknown(f"name {node.id}", origin_of(node, frame))


def _attribute(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Attribute)
    return attribute(machine, evaluate(machine, node.value, frame), node.attr, origin_of(node, frame))


def _sequence(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.List | ast.Tuple | ast.Set)
    kind = type(node).__name__.lower()
    items: list[Val] = []
    is_open = len(node.elts) > ITEMS_MAX * 8
    for element in node.elts[: ITEMS_MAX * 8]:
        if isinstance(element, ast.Starred):
            inner = evaluate(machine, element.value, frame)
            known = known_items(inner)
            items.extend(known or [])
            is_open = is_open or known is None
        else:
            items.append(evaluate(machine, element, frame))
        if len(items) > SEQUENCE_MAX:
            del items[SEQUENCE_MAX:]
            is_open = True
            break
    return machine.made(Seq(items, kind, origin_of(node, frame), is_open))


def _dict(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Dict)
    result = Map({}, origin_of(node, frame))
    for key_node, value_node in list(zip(node.keys, node.values, strict=True))[: ITEMS_MAX * 8]:
        value = evaluate(machine, value_node, frame)
        if key_node is None:
            if isinstance(value, Map):
                machine.made(value)
                result.items.update(value.items)
                result.open = result.open or value.open
            else:
                result.open = True
            continue
        key = evaluate(machine, key_node, frame)
        if isinstance(key, Const):
            result.items[key.value] = value
        elif isinstance(key, Ext):
            result.items[key.path] = value
        else:
            result.open = True
    return result


def known_items(value: Val) -> list[Val] | None:
    """The items of a value that can be gone through one by one, or None."""
    if isinstance(value, Seq) and not value.open:
        return list(value.items)
    if isinstance(value, Obj) and isinstance(value.cls, Ext) and value.cls.path == "generator":
        return known_items(value.attrs.get("yields", NONE))
    if isinstance(value, Map) and not value.open:
        return [Const(key, value.origin) for key in value.items if isinstance(key, str | int | float | bool | None)]
    if isinstance(value, Const) and isinstance(value.value, str) and len(value.value) <= ITEMS_MAX:
        return [Const(c, value.origin) for c in value.value]
    if isinstance(value, Range):
        bounds = [b.value for b in (value.start, value.stop, value.step) if isinstance(b, Const)]
        numbers = [b for b in bounds if isinstance(b, int) and abs(b) < 10**12]
        if len(numbers) == 3 and numbers[2] != 0 and len(range(*numbers)) <= ITEMS_MAX:
            return [Const(i, value.origin) for i in range(*numbers)]
    return None


def _binary(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.BinOp)
    # A long chain (a + b + c + ...) is a deep tree on its left side: walk it without recursing.
    chain: list[ast.BinOp] = []
    left_node: ast.expr = node
    while isinstance(left_node, ast.BinOp):
        chain.append(left_node)
        left_node = left_node.left
    value = evaluate(machine, left_node, frame)
    for link in reversed(chain):
        right = evaluate(machine, link.right, frame)
        value = machine.made(binary(link.op, value, right, origin_of(link, frame)))
    return value


def _unary(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.UnaryOp)
    operand = evaluate(machine, node.operand, frame)
    if isinstance(node.op, ast.Not):
        return negate(operand, origin_of(node, frame))
    return unary(node.op, operand, origin_of(node, frame))


def _boolean(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.BoolOp)
    is_or = isinstance(node.op, ast.Or)
    undecided: list[Val] = []
    value: Val = NONE
    for operand in node.values:
        value = evaluate(machine, operand, frame)
        known = truth(value)
        if known is None:
            undecided.append(value)
        elif known is is_or:
            if not undecided:
                return value
            if is_or and not (isinstance(value, Const) and value.value is True):
                break
            # `unknown or True` is true, `unknown and False` is false, whatever the unknown part.
            return Const(is_or, origin_of(node, frame))
    if not undecided:
        return value
    options: tuple[Val, ...] = (*undecided, value) if is_or else ()
    return Unknown("condition", origin_of(node, frame), options if is_or else (), ("bool", tuple(undecided)))


def _compare(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Compare)
    left = evaluate(machine, node.left, frame)
    result: Val = Const(True, origin_of(node, frame))
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        right = evaluate(machine, right_node, frame)
        result = compare(op, left, right, origin_of(node, frame))
        if truth(result) is not True:
            return result
        left = right
    return result


def _conditional(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.IfExp)
    test = evaluate(machine, node.test, frame)
    known = truth(test)
    if known is not None:
        value = evaluate(machine, node.body if known else node.orelse, frame)
        if isinstance(test, Const) and test.assumed and isinstance(value, Const):
            return Const(value.value, value.origin, assumed=True)
        return value
    guard = test if isinstance(test, Unknown) else Unknown("condition", origin_of(node, frame))
    machine.guards.append(Guard(guard, node.test))
    a = evaluate(machine, node.body, frame)
    machine.guards[-1] = Guard(guard, node.test, negated=True)
    b = evaluate(machine, node.orelse, frame)
    machine.guards.pop()
    return merged([a, b], origin_of(node, frame))


def _call(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Call)
    origin = origin_of(node, frame)
    if isinstance(node.func, ast.Name) and node.func.id == "super":
        owner = frame.owner.bases[0] if frame.owner is not None and frame.owner.bases else Ext("object")
        return Obj(Ext("super"), {"of": owner, "self": frame.self_ or NONE}, origin)
    if isinstance(node.func, ast.Name) and node.func.id in ("globals", "locals", "vars") and not node.args:
        names = frame.module.names if node.func.id == "globals" else frame.names
        return Map(names, origin, label="globals")
    callee = evaluate(machine, node.func, frame)
    args: list[Val] = []
    more = False  # arguments that can not be known
    for argument in node.args[:ITEMS_MAX]:
        if isinstance(argument, ast.Starred):
            items = known_items(evaluate(machine, argument.value, frame))
            more = more or items is None
            args.extend((items or [])[: ITEMS_MAX * 4 + 1])
        else:
            args.append(evaluate(machine, argument, frame))
    if len(args) > ITEMS_MAX * 4:
        del args[ITEMS_MAX * 4 :]
        machine.record.complete = False
        machine.tree.warn(f"{frame.module.path}:{origin.line}: more arguments than are followed")
    kwargs: dict[str, Val] = {}
    for keyword in node.keywords[:ITEMS_MAX]:
        value = evaluate(machine, keyword.value, frame)
        if keyword.arg is not None:
            kwargs[keyword.arg] = value
        elif isinstance(value, Map):
            value.reads.update(value.items)
            kwargs.update({k: v for k, v in value.items.items() if isinstance(k, str)})
            if value.open:
                kwargs[UNSEEN] = value
        else:
            kwargs[UNSEEN] = value
    if isinstance(callee, Native) and callee.name == "exec":
        return exec_text(machine, args, frame, origin)
    if isinstance(callee, Ext) and callee.path == "eval" and len(args) == 1:
        named = _named_by(args[0])
        if named is not None:
            return evaluate(machine, named, frame)
    if more:
        kwargs.setdefault(UNSEEN, Unknown("arguments", origin))
    return machine.call(callee, args, kwargs, origin)


def _named_by(text: Val) -> ast.expr | None:
    """What ``eval("args.batch_size")`` names; other expressions are left alone."""
    written = string(text)
    if written is None or len(written) > 200:
        return None
    try:
        node = ast.parse(written.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    inner = node
    while isinstance(inner, ast.Attribute):
        inner = inner.value
    return node if isinstance(inner, ast.Name) else None


def exec_text(machine: Machine, args: list[Val], frame: Frame, origin: Origin) -> Val:
    """``exec(text)``: walk a file's text or a literal one in this frame; after one not known, no constant of it is."""
    source = args[0] if args else NONE
    written = string(source)
    if written is not None:
        source = File(frame.module.path, written, origin)
    if not isinstance(source, File) or source.text is None:
        for name, value in list(frame.names.items()):
            if len(args) == 1 and isinstance(value, Const) and not name.startswith("__"):
                machine.store(frame.names, name, Unknown("exec", origin))
    if isinstance(source, File) and source.text is not None and len(machine.stack) < 20:
        from analyzers.source.program.statements import execute

        parsed = machine.parse(source.text, source.path)
        if parsed is not None:
            outer = frame.module
            lines = [origin.line] * source.text.count("\n", 0, 10_000) + [origin.line] if written is not None else None
            inner = Frame(Module(outer.name, source.path, outer.names, outer.stars, lines), frame.names, frame.parent,
                          frame.function, frame.global_names)  # fmt: skip
            execute(machine, parsed.body, inner)
    return NONE


def _subscript(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Subscript)
    owner = evaluate(machine, node.value, frame)
    origin = origin_of(node, frame)
    if isinstance(node.slice, ast.Slice):
        bounds = [evaluate(machine, b, frame) if b is not None else NONE
                  for b in (node.slice.lower, node.slice.upper, node.slice.step)]  # fmt: skip
        return machine.made(sliced(owner, bounds, origin))
    key = evaluate(machine, node.slice, frame)
    value = item(owner, key, origin)
    if isinstance(owner, Map) and isinstance(key, Const) and isinstance(key.value, str) and owner.label != "globals":
        machine.read_name(key.value, value)
    return value


def sliced(owner: Val, bounds: list[Val], origin: Origin) -> Val:
    """``owner[a:b:c]`` where all is known."""
    numbers = [b.value for b in bounds if isinstance(b, Const) and (b.value is None or isinstance(b.value, int))]
    if len(numbers) == 3 and numbers[2] != 0:
        cut = slice(*numbers)
        if isinstance(owner, Seq) and not owner.open:
            return Seq(owner.items[cut], owner.kind, origin)
        if isinstance(owner, Const) and isinstance(owner.value, str):
            return Const(owner.value[cut], owner.origin)
    return Unknown("slice", origin)


def item(owner: Val, key: Val, origin: Origin) -> Val:
    """``owner[key]``."""
    if isinstance(owner, Map):
        name: object = key.value if isinstance(key, Const) else key.path if isinstance(key, Ext) else None
        if isinstance(key, Const | Ext) and name in owner.items:
            owner.reads.add(name)
            return owner.items[name]
        if isinstance(key, Unknown) and owner.items and len(owner.items) <= 8:
            options = [owner.items[o.value] for o in key.options if isinstance(o, Const) and o.value in owner.items]
            return merged(options, origin) if options else Unknown("item", origin, tuple(owner.items.values()))
        return Unknown("item", origin)
    if isinstance(owner, Seq) and isinstance(key, Const) and isinstance(key.value, int):
        if -len(owner.items) <= key.value < len(owner.items) and (not owner.open or key.value >= 0):
            return owner.items[key.value]
        return Unknown("item", origin)
    if isinstance(owner, Ext) and isinstance(key, Const) and isinstance(key.value, str):
        if owner.path.endswith(".__dict__"):
            return Ext(f"{owner.path.removesuffix('.__dict__')}.{key.value}", origin)
        return Unknown("item", origin)
    if isinstance(owner, Ext | ClassVal):
        return owner  # a generic alias: Sequence[int], nnx.State[...]
    if (
        isinstance(owner, Const)
        and isinstance(owner.value, str)
        and isinstance(key, Const)
        and isinstance(key.value, int)
    ):
        return (
            Const(owner.value[key.value], owner.origin)
            if abs(key.value) < len(owner.value)
            else Unknown("item", origin)
        )
    if isinstance(owner, Obj) and isinstance(owner.cls, Ext):
        return Obj(Ext(f"{owner.cls.path}[]"), {}, origin, owner.call)
    if isinstance(owner, Bound) and owner.name == "__dict__":
        text = string(key)
        return Bound(owner.owner, text, origin) if text else Unknown("item", origin)
    return Unknown("item", origin)


def _joined(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.JoinedStr)
    parts: list[str] = []
    assumed = False
    for value in node.values:
        part = evaluate(machine, value.value if isinstance(value, ast.FormattedValue) else value, frame)
        if not isinstance(part, Const) or (isinstance(value, ast.FormattedValue) and value.format_spec is not None):
            return Unknown("text", origin_of(node, frame), detail=("text", "".join(parts)))
        parts.append(str(part.value))
        assumed = assumed or part.assumed
    return machine.made(Const("".join(parts)[:10_000], origin_of(node, frame), assumed))


def _lambda(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Lambda)
    return Func(node, frame, "<lambda>", origin=origin_of(node, frame))


def _comprehension(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp)
    from analyzers.source.program.assignment import assign

    origin = origin_of(node, frame)
    inner = Frame(frame.module, {}, frame, frame.function, self_=frame.self_, owner=frame.owner)
    generator = node.generators[0]
    iterable = evaluate(machine, generator.iter, frame)
    items = known_items(iterable)
    is_dict = isinstance(node, ast.DictComp)
    sequence = Seq([], "list", origin, open=items is None)
    mapping = Map({}, origin, open=items is None)
    simple = len(node.generators) == 1
    for value in items[:ITEMS_MAX] if items is not None and simple else [Unknown("element", origin)]:
        assign(machine, generator.target, value, inner)
        tests = [truth(evaluate(machine, test, inner)) for test in generator.ifs]
        if False in tests:
            continue
        for other in node.generators[1:]:
            evaluate(machine, other.iter, inner)
            assign(machine, other.target, Unknown("element", origin), inner)
        unsure = None in tests or items is None or not simple
        if isinstance(node, ast.DictComp):
            key = evaluate(machine, node.key, inner)
            result = evaluate(machine, node.value, inner)
            if isinstance(key, Const):
                mapping.items[key.value] = result
            mapping.open = mapping.open or unsure
        else:
            sequence.items.append(evaluate(machine, node.elt, inner))
            sequence.open = sequence.open or unsure
    return mapping if is_dict else sequence


def _starred(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Starred | ast.Await)
    return evaluate(machine, node.value, frame)


def _yield(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.Yield | ast.YieldFrom)
    value = evaluate(machine, node.value, frame) if node.value is not None else NONE
    inner = known_items(value) if isinstance(node, ast.YieldFrom) else [value]
    frame.yielded.extend((inner or [])[: ITEMS_MAX - len(frame.yielded)])
    here = (len(machine.loops), len(machine.guards))
    frame.yields_more = frame.yields_more or inner is None or here != frame.depth
    return Unknown("yield", origin_of(node, frame))


def _named(machine: Machine, node: ast.expr, frame: Frame) -> Val:
    assert isinstance(node, ast.NamedExpr)
    value = evaluate(machine, node.value, frame)
    machine.store(frame.names, node.target.id, value)
    return value


_EVALUATORS: dict[type[ast.expr], Callable[[Machine, ast.expr, Frame], Val]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.List: _sequence, ast.Tuple: _sequence,
    ast.Set: _sequence, ast.Dict: _dict, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.BoolOp: _boolean,
    ast.Compare: _compare, ast.IfExp: _conditional, ast.Call: _call, ast.Subscript: _subscript,
    ast.JoinedStr: _joined, ast.Lambda: _lambda, ast.ListComp: _comprehension, ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension, ast.DictComp: _comprehension, ast.Starred: _starred, ast.Await: _starred,
    ast.YieldFrom: _yield, ast.Yield: _yield, ast.NamedExpr: _named,
}  # fmt: skip
