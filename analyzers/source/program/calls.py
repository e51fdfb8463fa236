"""Calls: functions and classes of the tree are walked with their arguments; library calls are modelled or recorded."""

from __future__ import annotations

import ast

from analyzers.source.limits import BudgetExceededError
from analyzers.source.program.attributes import bind, class_attribute, library_base, lineage
from analyzers.source.program.events import Call
from analyzers.source.program.expressions import evaluate, origin_of
from analyzers.source.program.giving_up import WHY, forget_targets, forget_writes, share_of
from analyzers.source.program.machine import DEPTH_MAX, STEPS_MAX, Machine
from analyzers.source.program.native import Arguments
from analyzers.source.program.statements import execute
from analyzers.source.program.values import (
    NONE,
    UNSEEN,
    Bound,
    ClassVal,
    Const,
    Ext,
    Frame,
    Func,
    Map,
    Native,
    Obj,
    Origin,
    Partial,
    Seq,
    Unknown,
    Val,
    merged,
)

#: Base classes of networks, whose constructors add layer after layer.
_NETWORKS = (".Module", ".ModuleList", ".Sequential", ".Model", ".Layer", ".LightningModule")
#: Methods that give back the object they are called on.
_FLUENT = frozenset(
    ["to", "cuda", "cpu", "half", "float", "double", "bfloat16", "train", "eval", "requires_grad_", "requires_grad",
     "share_memory", "xpu", "npu", "mps", "apply", "compile", "contiguous", "type"]
)  # fmt: skip


def invoke(machine: Machine, callee: Val, args: list[Val], kwargs: dict[str, Val], origin: Origin) -> Val:
    """Call any value."""
    machine.tick()
    if isinstance(callee, Func):
        return call_function(machine, callee, args, kwargs, origin)
    if isinstance(callee, ClassVal):
        return instantiate(machine, callee, args, kwargs, origin)
    if UNSEEN in kwargs and not isinstance(callee, Partial | Unknown | Ext | Bound):
        kwargs = {k: v for k, v in kwargs.items() if k != UNSEEN}
    if isinstance(callee, Native):
        return callee.handler(Arguments(machine, args, kwargs, origin, callee.name)) or NONE
    if isinstance(callee, Partial):
        return invoke(machine, callee.func, [*callee.args, *args], {**callee.kwargs, **kwargs}, origin)
    if isinstance(callee, Ext):
        return library_call(machine, callee.path, args, kwargs, origin, None)
    if isinstance(callee, Bound):
        return method_call(machine, callee, args, kwargs, origin)
    if isinstance(callee, Obj):
        return object_call(machine, callee, args, kwargs, origin)
    if isinstance(callee, Unknown) and callee.options:
        results = [invoke(machine, o, args, kwargs, origin) for o in callee.options[:3] if not isinstance(o, Const)]
        return merged(results, origin) if results else Unknown("call", origin)
    _record(machine, "?", args, kwargs, origin, None)
    return Unknown("call", origin)


def _record(
    machine: Machine, path: str, args: list[Val], kwargs: dict[str, Val], origin: Origin, receiver: Val | None
) -> Call:
    function = machine.stack[-1] if machine.stack else None
    call = Call(path, args, kwargs, origin, receiver=receiver, function=getattr(function, "name", ""))
    if UNSEEN in kwargs:
        call.kwargs, call.open = {k: v for k, v in kwargs.items() if k != UNSEEN}, True
    machine.met(call)
    return call


def library_call(
    machine: Machine, path: str, args: list[Val], kwargs: dict[str, Val], origin: Origin, owner: Val | None
) -> Val:
    """A call of something that is not in the tree: modelled if we know it, in any case remembered."""
    call = _record(machine, path, args, kwargs, origin, owner)
    kwargs = call.kwargs
    handler = machine.handlers.get(path)
    if handler is None and "()." in path:
        handler = machine.handlers.get("()." + path.rpartition(".")[2])
    if handler is not None:
        result = handler(Arguments(machine, args, kwargs, origin, path, owner))
        if result is not None:
            call.result = machine.made(result)
            return result
    result = Obj(Ext(path, origin), {}, origin, call)
    for value in [*args, *kwargs.values()]:
        # An argument parser handed to a library comes back with options that we do not see.
        if isinstance(value, Obj) and isinstance(value.cls, Ext) and value.cls.path == "argparse.ArgumentParser":
            return value
    call.result = result
    return result


def method_call(machine: Machine, callee: Bound, args: list[Val], kwargs: dict[str, Val], origin: Origin) -> Val:
    """A method of a library object, a plain value or something unknown."""
    owner, name = callee.owner, callee.name
    path = f"{type_path(owner)}().{name}"
    handler = machine.handlers.get(path)
    if handler is not None:
        seen = {k: v for k, v in kwargs.items() if k != UNSEEN}
        result = handler(Arguments(machine, args, seen, origin, path, owner))
        if result is not None:
            _record(machine, path, args, kwargs, origin, owner).result = machine.made(result)
            return result
    if name == "step" and args and isinstance(args[0], Func):
        invoke(machine, args[0], [], {}, origin)  # an optimizer that evaluates its closure
    if name in _FLUENT and isinstance(owner, Obj):
        _record(machine, path, args, kwargs, origin, owner).result = owner
        return owner
    if isinstance(owner, Map) and not owner.label:
        return Unknown(name, origin)
    return library_call(machine, path, args, kwargs, origin, owner)


def type_path(value: Val) -> str:
    """What a value is, for the path of a method call."""
    if isinstance(value, Obj):
        if isinstance(value.cls, Ext):
            return value.cls.path
        return library_base(value.cls) or value.cls.name
    if isinstance(value, Map):
        return "dict"
    if isinstance(value, Seq):
        return value.kind
    if isinstance(value, Const):
        return type(value.value).__name__
    if isinstance(value, ClassVal):
        return library_base(value) or value.name
    return "?"


def object_call(machine: Machine, callee: Obj, args: list[Val], kwargs: dict[str, Val], origin: Origin) -> Val:
    """Calling an instance: a model runs its forward once, a wrapper passes the call on."""
    for name in ("__call__", "forward", "call"):
        method = class_attribute(callee.cls, name) if isinstance(callee.cls, ClassVal) else None
        if isinstance(method, Func):
            if id(method.node) in machine.forwarded:
                return Obj(Ext("tensor"), {}, origin)
            machine.forwarded.add(id(method.node))
            call_function(machine, bind(method, callee), args, kwargs, origin)
            return Obj(Ext("tensor"), {}, origin)
    wrapped = callee.attrs.get("module")
    if wrapped is not None and isinstance(wrapped, Obj | Func) and wrapped is not callee:
        return invoke(machine, wrapped, args, kwargs, origin)
    path = type_path(callee)
    handler = machine.handlers.get(f"{path}()()")
    if handler is not None:
        result = handler(Arguments(machine, args, kwargs, origin, path, callee))
        if result is not None:
            return result
    call = _record(machine, f"{path}()", args, kwargs, origin, callee)
    call.result = Obj(Ext(f"{path}()"), {}, origin, call)
    return call.result


def call_function(machine: Machine, func: Func, args: list[Val], kwargs: dict[str, Val], origin: Origin) -> Val:
    """Walk a function's body with these arguments."""
    if len(machine.stack) >= DEPTH_MAX or sum(f is func.node for f in map(_node_of, machine.stack)) >= 2:
        return Unknown("recursion", origin)
    if id(func.node) in machine.given_up:
        return Unknown(WHY, origin)
    if func.self_ is not None:
        args = [func.self_, *args]
    names = bind_arguments(machine, func, args, kwargs)
    frame = Frame(func.frame.module, names, func.frame, func.name, self_=func.self_, owner=func.owner)
    frame.depth = (len(machine.loops), len(machine.guards))
    machine.walked.setdefault(id(func.node), (func.node, func.frame.module.path))
    ended = _walk_body(machine, func, frame, origin)
    if not isinstance(ended, str):
        return ended
    status = ended
    if status == "raise" and not frame.returned:
        return Unknown("exits" if _only_exits(func.node) else "raises", origin)
    if machine.yields(func.node):
        return Obj(Ext("generator"), {"yields": Seq(frame.yielded, "list", origin, frame.yields_more)}, origin)
    returned = frame.returned if status == "return" else [*frame.returned, NONE]
    if len(returned) > 1 and status != "return" and isinstance(returned[-1], Const) and returned[-1].value is None:
        returned = returned[:-1] if len(returned) == 2 and func.name == "main" else returned
    return merged(returned, origin)


def _walk_body(machine: Machine, func: Func, frame: Frame, origin: Origin) -> Val | str:
    """How a function's body ends; its value where it is a lambda, or an unknown one where it takes too long."""
    outer_end, journal, depths = machine.steps_end, machine.journal, machine.depths()
    written, building, in_configuration = len(journal), machine.building, machine.in_configuration
    end = machine.steps + share_of(len(machine.stack), STEPS_MAX)
    machine.steps_end = min(outer_end, end)
    machine.stack.append(func)
    try:
        if isinstance(func.node, ast.Lambda):
            return evaluate(machine, func.node.body, frame)
        return execute(machine, func.node.body, frame)
    except BudgetExceededError:
        if machine.steps > STEPS_MAX or machine.tree.deadline.passed():
            raise
        forget_targets(machine, func, frame, origin)
        if not end < machine.steps <= outer_end:
            raise  # a call around this one has used up its own share
        machine.come_back(depths, journal)
        machine.building, machine.in_configuration = building, in_configuration
        forget_writes(machine, journal[written:], origin)
        machine.given_up.add(id(func.node))
        machine.record.complete = False
        place = f"{func.frame.module.path}:{getattr(func.node, 'lineno', 0)}"
        machine.tree.warn(f"{place}: {func.name}() takes too many steps; the call was given up, facts may be missing")
        return Unknown(WHY, origin)
    finally:
        machine.steps_end = outer_end
        machine.stack[depths[3] :] = []
        del machine.loops[depths[1] :]
        del machine.guards[depths[0] :]


def _only_exits(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    return not isinstance(node, ast.Lambda) and not any(isinstance(n, ast.Return) for n in ast.walk(node))


def _node_of(frame: object) -> object:
    return getattr(frame, "node", None)


def bind_arguments(machine: Machine, func: Func, args: list[Val], kwargs: dict[str, Val]) -> dict[str, Val]:
    """Parameter names with the values they get, defaults included."""
    spec = func.node.args
    names: dict[str, Val] = {}
    positional = [*spec.posonlyargs, *spec.args]
    rest = dict(kwargs)
    unseen = rest.pop(UNSEEN, None)
    for parameter, value in zip(positional, args, strict=False):
        names[parameter.arg] = value
    if spec.vararg is not None:
        names[spec.vararg.arg] = Seq(args[len(positional) :], "tuple", open=unseen is not None)
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(spec.defaults)) + list(spec.defaults)
    for parameter, default in [
        *zip(positional, defaults, strict=True),
        *zip(spec.kwonlyargs, spec.kw_defaults, strict=True),
    ]:
        name = parameter.arg
        if name in rest:
            names[name] = rest.pop(name)
        elif name not in names:
            if default is None or unseen is not None:
                names[name] = Unknown(f"parameter {name}", origin_of(func.node, func.frame))
            else:
                value = evaluate(machine, default, func.frame)
                names[name] = _as_default(value)
    if spec.kwarg is not None:
        names[spec.kwarg.arg] = Map({**rest}, func.origin, open=unseen is not None)
    return names


def _as_default(value: Val) -> Val:
    if isinstance(value, Const) and value.origin.how == "literal":
        return Const(value.value, Origin(value.origin.file, value.origin.line, "default"), value.assumed)
    return value


def instantiate(machine: Machine, cls: ClassVal, args: list[Val], kwargs: dict[str, Val], origin: Origin) -> Val:
    """An instance of a class of the tree."""
    base = library_base(cls)
    instance = Obj(cls, {}, origin)
    init = class_attribute(cls, "__init__")
    call = _record(machine, f"{base}<{cls.name}>" if base else f"<{cls.name}>", args, kwargs, origin, None)
    call.result = instance
    instance.call = call
    call.callers = tuple(str(getattr(f, "name", "")) for f in machine.stack[:-4:-1])
    builds = base is not None and base.endswith(_NETWORKS)
    machine.building += builds
    if isinstance(init, Func):
        call_function(machine, bind(init, instance), args, kwargs, origin)
    elif cls.dataclass or fields_of(cls):
        fields = fields_of(cls)
        for name, value in zip(fields, args, strict=False):
            instance.attrs[name] = value
        for name, default in fields.items():
            if name in kwargs:
                instance.attrs[name] = kwargs[name]
            elif name not in instance.attrs and call.open:
                instance.attrs[name] = Unknown(f"field {name}", origin)
            elif name not in instance.attrs and default is not None:
                instance.attrs[name] = default_of(machine, default, origin)
        for name, value in call.kwargs.items():
            instance.attrs.setdefault(name, value)
        after = class_attribute(cls, "__post_init__")
        if isinstance(after, Func):
            call_function(machine, bind(after, instance), [], {}, origin)
    elif base is not None:
        instance.attrs.update(call.kwargs)
    made = machine.handlers.get(f"{base}<>") if base is not None else None
    if made is not None:
        made(Arguments(machine, args, call.kwargs, origin, f"{base}<>", instance))
    machine.building -= builds
    setup = class_attribute(cls, "setup")
    if isinstance(setup, Func) and base is not None and base.startswith("flax"):
        call_function(machine, bind(setup, instance), [], {}, origin)
    return instance


def fields_of(cls: ClassVal) -> dict[str, Val | None]:
    """Annotated fields of a class and its bases in order, with their defaults."""
    fields: dict[str, Val | None] = {}
    for each in reversed(lineage(cls)):
        if isinstance(each, ClassVal):
            for name, annotation in each.annotations.items():
                if not _of_the_class(annotation):
                    fields[name] = each.attrs.get(name)
    return fields


def _of_the_class(annotation: ast.expr) -> bool:
    """Whether an annotation says that the name is the class's own (``ClassVar[...]``), no field of its instances."""
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return (outer.attr if isinstance(outer, ast.Attribute) else getattr(outer, "id", "")) == "ClassVar"


def default_of(machine: Machine, default: Val, origin: Origin) -> Val:
    """The value of a dataclass field's default, ``field(default=..., default_factory=...)`` included."""
    if isinstance(default, Obj) and default.call is not None and default.call.name in ("field", "Field", "ib"):
        value = default.call.argument(None, "default")
        if value is not None:
            return _as_default(value)
        factory = default.call.argument(None, "default_factory", "factory")
        if factory is not None:
            return invoke(machine, factory, [], {}, origin)
        if default.call.args and default.call.name == "Field":
            return _as_default(default.call.args[0])
        return Unknown("field", default.origin)
    return _as_default(default)


def call_method(machine: Machine, owner: Val, name: str, args: list[Val], origin: Origin) -> Val | None:
    """Call a method of an instance of the tree where it has one; None where it has not."""
    if isinstance(owner, Obj) and isinstance(owner.cls, ClassVal):
        method = class_attribute(owner.cls, name)
        if isinstance(method, Func):
            return call_function(machine, bind(method, owner), args, {}, origin)
    return None
