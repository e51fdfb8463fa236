"""Trainings that a public framework runs from a configuration: what its description says about the facts."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from analyzers.source.idioms.commands import command_configuration
from analyzers.source.idioms.rules import UndecidedError, first_that_holds
from analyzers.source.knowledge.frameworks import Framework, KnownCall, Rules, frameworks
from analyzers.source.library.configs import as_value
from analyzers.source.program.events import Call
from analyzers.source.program.values import Const, Map, Obj, Origin
from analyzers.source.reading import Reading, as_number
from analyzers.types import FACT_NAMES, JsonValue

#: Rules that say what the idioms then work with, under their name for it.
_SETTINGS = {
    "batch_size_per_gpu": "batch_per_device", "global_batch_size": "global_batch", "grad_accum": "grad_accum",
}  # fmt: skip
_BY_THE_WAY = 0.7
#: Launchers that start one process for each GPU themselves.
_STARTERS = frozenset({"torchrun", "deepspeed", "accelerate", "mpirun", "horovodrun", "srun"})
_SAME_BATCH = "batch_for_learning_rate"


def offer_known(reading: Reading) -> None:
    """Offer what the framework's description says about this run; nothing where no framework is recognised."""
    command = command_configuration(reading)
    if command is not None:
        framework, program, config = command
        reading.offer("framework", framework.family, 0.9, Origin("launch", 1))
        _run(reading, program.runs, Origin("launch", 1))
        _apply(reading, program.rules, config, None, Origin("launch", 1))
        return
    found = list(_known_calls(reading))
    runs = [kind for _, known, _ in found if (kind := known.runs)]
    stages = [(framework, known, call) for framework, known, call in found if known.stages]
    for framework, known, call in found:
        if (known.runs and known.runs != runs[-1]) or not (runs or known.always):
            continue
        if known.runs:
            reading.offer("framework", framework.family, 0.96, call.origin)
            _run(reading, known.runs, call.origin)
            reading.run = call if known.runs == "training" else None
        rules = dict(known.rules)
        if known.stages and (len(stages) > 1 or call.loops):
            rules.update(_over_stages(stages))
        _apply(reading, rules, _call_configuration(framework, known, call), call, call.origin)


def _over_stages(stages: list[tuple[Framework, KnownCall, Call]]) -> Rules:
    """What the calls that train one after the other say together; open where one can not be known."""
    found: Rules = {}
    for name, together in (("epochs", sum), ("max_steps", sum), ("learning_rate", max)):
        if not any(name in known.rules for _, known, _ in stages):
            continue
        numbers: list[int | float] = []
        for framework, known, call in stages:
            # A loop runs it who knows how often; one under a condition may not run at all.
            certain = not call.guards and (not call.loops or name == "learning_rate")
            config = _call_configuration(framework, known, call)
            try:
                said = first_that_holds(known.rules.get(name, []), config, call, call.origin) if certain else None
            except UndecidedError:
                said = None
            if said is not None and isinstance(said[0], int | float):
                numbers.append(said[0])
        complete = len(numbers) == len(stages)
        found[name] = [{"value": together(numbers)} if complete else {"open": True}]
    return found


def _run(reading: Reading, kind: str, origin: Origin) -> None:
    reading.set("known", Const(kind, origin), 0.9, origin)
    # Names that the program reads by the way: the framework goes by its configuration.
    for name in [n for n, setting in reading.settings.items() if setting.confidence < _BY_THE_WAY]:
        del reading.settings[name]


def _known_calls(reading: Reading) -> Iterator[tuple[Framework, KnownCall, Call]]:
    for call in reading.calls:
        top = call.path.partition(".")[0].partition("<")[0]
        for framework in frameworks():
            if top in framework.packages:
                plain = re.sub(r"<[^>]*>", "", call.path)
                for name in framework.chained:
                    plain = plain.replace(f".{name}()", "")
                for known in framework.calls:
                    if any(plain == e or plain.endswith("." + e) for e in known.endings):
                        yield framework, known, call


def _constructor(framework: Framework, call: Call) -> Call | None:
    """The call that made what this one is a method of, through methods that give back their own instance."""
    receiver = call.receiver
    made = receiver.call if isinstance(receiver, Obj) else None
    return _constructor(framework, made) if made is not None and made.name in framework.chained else made


def _call_configuration(framework: Framework, known: KnownCall, call: Call) -> Map:
    """A call's configuration: the argument that holds it, beside ``call`` and ``new``, all arguments by place or name.

    ``new`` are those of the constructor where the call is a method.
    """
    made = _constructor(framework, call)
    config = Map({}, call.origin)
    for source in (call, made):
        if source is not None and known.config:
            position = next((c for c in known.config if isinstance(c, int)), None)
            value = source.argument(position, *(c for c in known.config if isinstance(c, str)))
            if isinstance(value, Map):
                config.items.update(value.items)
                config.open = config.open or value.open
                break
    else:
        if known.config == ("arguments",):
            given = _arguments(known.defaults.get("call", {}), call)
            config.items.update(given.items)
            config.open = given.open
        else:
            config.open = bool(known.config) and not (known.config == ("result",) and _from_result(call, config))
    for name, source in (("call", call), ("new", made)):
        if source is not None:
            config.items[name] = _arguments(known.defaults.get(name, {}), source)
    return config


def _arguments(defaults: dict[str, Any], call: Call) -> Map:
    """A call's arguments by place or name over the usual ones, which are not known where more is given."""
    usual = as_value({} if call.open else defaults, Origin("", 0, "default"))
    items = dict(usual.items) if isinstance(usual, Map) else {}
    items.update({str(i): v for i, v in enumerate(call.args)})
    return Map({**items, **call.kwargs}, call.origin, open=call.open)


def _from_result(call: Call, config: Map) -> bool:
    """Take the configuration from what the call gave back; whether it has one."""
    held = call.result.attrs.get("config") if isinstance(call.result, Obj) else None
    if isinstance(held, Map):
        config.items.update(held.items)
        config.open = held.open
    return isinstance(held, Map) and not held.open


# --- rules --------------------------------------------------------------------------------------------------------


def _apply(reading: Reading, rules: Rules, config: Map, call: Call | None, origin: Origin) -> None:
    values: dict[str, tuple[JsonValue, Origin, float]] = {}
    undecided: set[str] = set()
    for name, alternatives in rules.items():
        try:
            found = first_that_holds(alternatives, config, call, origin)
        except UndecidedError:
            undecided.add(name)
            continue
        if found is not None:
            values[name] = found
    if _SAME_BATCH in undecided:
        values.pop("learning_rate", None)
        undecided.add("learning_rate")
    if "gpus" in undecided:
        undecided |= {"num_gpus", "parallelism"}
        reading.processes = None
    _world(reading, values)
    for name, (value, place, sure) in values.items():
        if name in _SETTINGS:
            if isinstance(value, int | float) and value > 0:
                reading.set(_SETTINGS[name], Const(value, place), sure, place)
        elif name == _SAME_BATCH:
            reading.set(name, Const(value if isinstance(value, int | float) else None, place), sure, place)
        elif name in FACT_NAMES:
            reading.offer(name, _typed(name, value), sure, place)
    said = {*reading.facts, *(name for name, setting in _SETTINGS.items() if setting in reading.settings)}
    reading.open_facts |= undecided - said


def _typed(name: str, value: JsonValue) -> JsonValue:
    if name in ("epochs", "max_steps", "seq_len", "image_size", "model_params_approx"):
        return int(value) if isinstance(value, int | float) and 0 < value < math.inf else None
    if name == "model":
        return re.sub(r"\(\s*\)", "", str(value)).replace(" )", ")").strip()
    if name == "learning_rate":
        return float(value) if isinstance(value, int | float) and value > 0 else None
    return value


def _world(reading: Reading, values: dict[str, tuple[JsonValue, Origin, float]]) -> None:
    """``gpus``: a number, ``process`` (one for each process of the launcher) or ``visible`` (all there are)."""
    gpus = values.pop("gpus", None)
    nodes = values.pop("nodes", None)
    if nodes is not None and isinstance(nodes[0], int | float) and nodes[0] >= 1:
        reading.offer("num_nodes", int(nodes[0]), nodes[2], nodes[1])
    if gpus is None:
        return
    value, origin, sure = gpus
    count: int | None = None
    if value == "process":
        count = reading.processes
    elif value == "visible":
        started = bool(set(reading.launch.launchers) & _STARTERS)
        count = reading.processes if started else reading.devices
    elif isinstance(value, int | float):
        count = int(value)
    reading.processes = max(count, 1) if count is not None else None
    if count is None:
        return
    reading.offer("num_gpus", count, sure, origin)
    if "parallelism" not in values:
        reading.offer("parallelism", ["ddp"] if count > 1 else ["none"], sure, origin)


def scale_learning_rate(reading: Reading) -> None:
    """Once batches are known: a rate that the framework scales by them; it is written for another batch."""
    setting = reading.settings.get(_SAME_BATCH)
    rate = reading.facts.get("learning_rate")
    if setting is None or rate is None:
        return
    base, total = as_number(setting.value), reading.value("global_batch_size")
    del reading.facts["learning_rate"]
    if base and isinstance(total, int | float) and isinstance(rate.value, int | float):
        reading.offer("learning_rate", rate.value * total / base, 0.85, setting.origin, "computed")
