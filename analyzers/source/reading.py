"""What the idioms share: the walk's record, the launch, the sizes they fix, and the facts offered so far."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from analyzers.source.launch.model import Launch
from analyzers.source.program.events import Call, Record
from analyzers.source.program.machine import Machine, own_nodes
from analyzers.source.program.values import (
    DIGITS_MAX,
    ClassVal,
    Const,
    Ext,
    Func,
    Module,
    Obj,
    Origin,
    Scaled,
    Seq,
    Unknown,
    Val,
)
from analyzers.types import Fact, How, JsonValue, SourceEvidence

#: No fact is a longer text or a larger number (the parameters of a model, the steps of a run).
TEXT_MAX = 200
NUMBER_MAX = 1e16
#: Larger ones (an integer of hundreds of digits is no float) count nothing that a job does.
NUMBER_READ_MAX = 1e30


@dataclass(frozen=True, slots=True)
class Setting:
    """A value under its common name (``epochs``, ``lr``), however the program's framework calls it."""

    value: Val
    origin: Origin
    confidence: float


@dataclass(slots=True)
class Reading:
    """One job while its facts are put together.

    ``processes`` is the world size where the launch command fixes it; ``devices`` the GPUs that one process sees;
    ``run`` the call by which a framework that is described runs the training; ``open_facts`` what it decides by
    something that can not be known, so that nothing else may say it.
    """

    launch: Launch
    machine: Machine
    facts: dict[str, Fact] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    processes: int | None = None
    devices: int | None = None
    run: Call | None = None
    open_facts: set[str] = field(default_factory=set)
    warnings: list[str] = field(default_factory=list)

    @property
    def record(self) -> Record:
        """What the walk met."""
        return self.machine.record

    @property
    def calls(self) -> list[Call]:
        """Library calls in the order they were met."""
        return self.machine.record.calls

    @property
    def complete(self) -> bool:
        """Whether the whole program was read, so that what was not met is not there."""
        return self.launch.entry is not None and self.machine.record.complete and not self.machine.record.unresolved

    @property
    def followed(self) -> bool:
        """Whether what was not met can be taken for absent: the entry was read to its end and kept its own."""
        read = self.machine.record.complete or self.launch.inexact
        return self.launch.entry is not None and read and self.keeps_its_own

    @property
    def words_read_unseen(self) -> bool:
        """Whether code outside the tree reads the launch's words: the program itself, or a library it hands over to."""
        return self.launch.entry is None or self.handed_over is not None

    @property
    def handed_over(self) -> Call | None:
        """The call by which a program leaves arguments, loop and all to a training library."""
        return self.first("megatron.training.pretrain", "megatron.training.initialize_megatron")

    def offer(
        self,
        name: str,
        value: JsonValue,
        confidence: float,
        origin: Origin | Iterable[Origin] | None = None,
        how: How | None = None,
    ) -> None:
        """Offer a fact; the surer offer stays, the first among equals."""
        value = presentable(value)
        if value is None or name in self.open_facts:
            return
        known = self.facts.get(name)
        if known is not None and known.confidence >= confidence:
            return
        origins = [origin] if isinstance(origin, Origin) else list(origin or [])
        evidence = tuple(dict.fromkeys(SourceEvidence(o.file, o.line) for o in origins if o.file))
        found_by = how or (origins[0].how if origins else "computed")
        self.facts[name] = Fact(value, round(confidence, 3), evidence, found_by)

    def value(self, name: str, minimum: float = 0.5) -> JsonValue:
        """A fact's value so far."""
        fact = self.facts.get(name)
        return fact.value if fact is not None and fact.confidence >= minimum else None

    def set(self, name: str, value: Val | None, confidence: float, origin: Origin | None = None) -> None:
        """Remember a setting; the surer one stays."""
        if value is None or (isinstance(value, Const) and value.value is None):
            return
        known = self.settings.get(name)
        if known is None or known.confidence < confidence:
            own = getattr(value, "origin", None)
            place = own if isinstance(own, Origin) and own.file else origin or Origin()
            self.settings[name] = Setting(value, place, confidence)

    def number(self, name: str) -> tuple[int | float, Setting] | None:
        """A numeric setting with where it comes from."""
        setting = self.settings.get(name)
        if setting is None:
            return None
        value = as_number(setting.value)
        return None if value is None else (value, setting)

    def reached(self) -> Iterator[tuple[str, ast.AST]]:
        """What stands in code that runs: in the modules' own lines and in the functions that were entered."""
        for path, tree in self.machine.parsed.items():
            for node in own_nodes(tree):
                yield path, node
        for function, path in self.machine.walked.values():
            for node in own_nodes(function):
                yield path, node

    @property
    def keeps_its_own(self) -> bool:
        """Whether what the program does stays in code that was read or is known.

        False where a package that is not known was given a function, class or object of the program: what was not
        met may then be done there.
        """
        unknown = self.record.unresolved
        return not any(
            call.path.split(".")[0].partition("<")[0] in unknown
            and ("<" in call.path or any(map(_is_own, [*call.args, *call.kwargs.values()])))
            for call in self.calls
        )

    def told_by_flag(self, names: Iterable[str]) -> tuple[bool | None, str, Origin] | None:
        """A switch that the program reads under one of these names: its value (None: not known), name and place."""
        undecided: tuple[bool | None, str, Origin] | None = None
        for name in names:
            value = self.machine.reads.get(name)
            if value is None or isinstance(value, Func | Ext | Module | ClassVal):
                continue
            place = value.origin if isinstance(value.origin, Origin) else Origin()
            flag = as_flag(value)
            if flag is True:
                return True, name, place
            if flag is None or undecided is None:
                undecided = (flag, name, place)
        return undecided

    def first(self, *paths: str) -> Call | None:
        """The first call whose path is, or ends with, one of these."""
        return next((c for c in self.calls if matches(c.path, paths)), None)

    def all(self, *paths: str) -> list[Call]:
        """All calls whose path is, or ends with, one of these."""
        return [c for c in self.calls if matches(c.path, paths)]


def presentable(value: JsonValue) -> JsonValue:
    """A value as people and programs can take it: text in one printable line, numbers that count something."""
    if isinstance(value, str):
        return "".join(c for c in value if c.isprintable()).strip()[:TEXT_MAX] or None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if 0 <= value <= NUMBER_MAX else None
    return value


def _is_own(value: Val, depth: int = 0) -> bool:
    """Whether a value is, or holds, a function, class or instance of the program."""
    if isinstance(value, Func | ClassVal):
        return True
    if isinstance(value, Obj):
        return isinstance(value.cls, ClassVal) or any(
            isinstance(v, Obj) and isinstance(v.cls, ClassVal) for v in value.attrs.values()
        )
    if isinstance(value, Seq) and depth < 2:
        return any(_is_own(item, depth + 1) for item in value.items[:20])
    return False


def matches(path: str, endings: Iterable[str]) -> bool:
    """Whether a dotted path is one of ``endings`` or ends with one after a dot."""
    return any(path == ending or path.endswith("." + ending) for ending in endings)


def as_number(value: Val | None) -> int | float | None:
    """A setting as a number, text such as ``"3e-4"`` and ``"220_000_000"`` included."""
    if isinstance(value, Const) and not isinstance(value.value, bool):
        if isinstance(value.value, int | float):
            return value.value if abs(value.value) <= NUMBER_READ_MAX else None
        if isinstance(value.value, str) and len(value.value) <= DIGITS_MAX:
            for kind in (int, float):
                try:
                    number = kind(value.value)
                except ValueError:
                    continue
                return number if abs(number) < 1e30 else None
    if isinstance(value, Unknown) and value.options and all(isinstance(o, Const) for o in value.options):
        numbers = {as_number(o) for o in value.options}
        return numbers.pop() if len(numbers) == 1 else None
    return None


def as_flag(value: Val | None) -> bool | None:
    """A setting as a switch."""
    if isinstance(value, Const):
        if isinstance(value.value, str):
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False, "none": False}.get(
                value.value.lower()
            )
        return bool(value.value) if isinstance(value.value, bool | int) or value.value is None else None
    return None


def as_text(value: Val | None) -> str | None:
    """A setting as text."""
    return value.value if isinstance(value, Const) and isinstance(value.value, str) else None


def scaled(value: Val | None) -> Scaled | None:
    """A value that depends on the number of devices, or None."""
    return value if isinstance(value, Scaled) else None


def whole(value: float | int) -> int | float:
    """A number without a needless fraction."""
    return int(value) if float(value).is_integer() else value


def class_name(value: Val | None) -> str | None:
    """The plain name of an object's class."""
    if isinstance(value, Obj):
        name = getattr(value.cls, "name", None) or getattr(value.cls, "path", "")
        return str(name).rpartition(".")[2] or None
    return None
