"""Failure signatures: data files (one family each) read, checked and put in order.

A signature is a pattern for one line with what it means. Patterns keep to what both Python's `re` and a multi-pattern
automaton understand (no look-around, no back-references), and nested or many unbounded repeats are refused, so that
no line can make them run away.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from analyzers.failures.matcher import compiled_pattern
from analyzers.ports import SignatureStore
from analyzers.types import Action, Category
from prompts.errors import UserError

#: Python's own parser of patterns; it has no public name any more.
_sre_parse: Any = importlib.import_module("re._parser")
_sre_constants: Any = importlib.import_module("re._constants")

Role = Literal["root", "echo", "symptom", "ambiguous", "confirmation", "informational"]
Origin = Literal["any", "platform", "scheduler", "kubernetes"]
#: Whom a signature points at: the rank that prints it, the node of the line, nobody (the whole job), the pod named,
#: the peer that most hosts name, or a node that another line must name.
Scope = Literal["rank", "node", "job", "pod", "peer", "lost-node"]

_PRIORITY: dict[Role, int] = {
    "root": 50, "confirmation": 50, "ambiguous": 40, "symptom": 30, "echo": 20, "informational": 10,
}  # fmt: skip
_WEIGHT: dict[Role, float] = {
    "root": 1.0, "confirmation": 1.0, "ambiguous": 0.6, "symptom": 0.4, "echo": 0.0, "informational": 0.0,
}  # fmt: skip
_FOLLOWS_GPU_FAULT = frozenset(
    {
        "illegal-access", "gpu-unknown", "cuda-lib", "native-crash", "nccl-cuda", "nccl-system", "runtime-error",
        "no-gpu", "driver-mismatch", "killed", "exit-code", "xid-echo", "collective-timeout", "nccl",
    }
)  # fmt: skip
#: From this weight on a line decides by itself.
STRONG = 0.75
#: Signatures up to this priority know an exception only by its type.
GENERIC_PRIORITY = 15
_MOST_WIDE_REPEATS = 2
_FOLDER = Path(__file__).with_name("signatures")
_XID_FILE = "xids"
#: Ten times as fast where the C library is there; both are safe.
_YAML_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a line that fits ``pattern`` means.

    ``priority`` decides between signatures on one line, ``weight`` (0..1) how far it carries a verdict. ``explains``
    names the subcategories that follow from it (also those printed before it where it ``looks_back``), ``origin``
    who must have written the line for it to count. ``says`` completes a sentence, ``why`` is the reason when it is
    dismissed as an echo. ``starting``: it keeps a job from starting, so it is over once the job has made a step.
    ``raised_weight``: the weight where the line ends a traceback, when that says more.
    """

    id: str
    pattern: str
    role: Role
    category: Category
    subcategory: str
    action: Action
    retryable: bool | None
    says: str
    clue: str = ""
    why: str = ""
    source: str = ""
    priority: int = 50
    weight: float = 1.0
    scope: Scope = "rank"
    origin: Origin = "any"
    explains: frozenset[str] = frozenset()
    looks_back: bool = False
    starting: bool = False
    raised_weight: float = 0.0
    match: tuple[str, ...] = ()
    reject: tuple[str, ...] = ()
    family: str = ""

    def __deepcopy__(self, _: dict[int, object]) -> Signature:
        return self

    @property
    def regex(self) -> re.Pattern[str]:
        """The pattern, compiled when it is first needed. Raises `re.error`."""
        return compiled_pattern(self.pattern)


_NEEDED = ("id", "role", "category", "subcategory", "action", "retryable", "says")
_FIELDS = frozenset({"literal", *(each.name for each in fields(Signature) if each.name != "family")})


class FileSignatureStore:
    """The signatures that come with the program, or those of another folder of YAML files."""

    def __init__(self, folder: Path = _FOLDER) -> None:
        self.folder = folder

    def families(self) -> Iterator[tuple[str, str]]:
        """Pairs of (family name, YAML text), by name."""
        for path in sorted(self.folder.glob("*.yaml")):
            yield path.stem, path.read_text(encoding="utf-8")


def load_signatures(store: SignatureStore) -> tuple[Signature, ...]:
    """All signatures of a store. Raises `UserError` naming family and signature of the first fault.

    Patterns that come with the program were checked when it was tested, and are not checked at each start.
    """
    shipped = isinstance(store, FileSignatureStore) and store.folder == _FOLDER
    found: dict[str, Signature] = {}
    for family, text in store.families():
        if family == _XID_FILE:
            continue
        for signature in parse_family(family, text, checked=shipped):
            if signature.id in found:
                raise UserError(
                    f"signature {signature.id}: defined twice ({found[signature.id].family}, {family})", "rename one"
                )
            found[signature.id] = signature
    return tuple(found.values())


def parse_family(family: str, text: str, *, checked: bool = False) -> list[Signature]:
    """The signatures of one YAML text; defaults of the family apply where a signature says nothing. ``checked``: its
    patterns are known to be allowed. Raises `UserError`."""
    tree = _tree(family, text)
    defaults = tree.get("defaults") or {}
    rows = tree.get("signatures")
    if not isinstance(rows, list) or not isinstance(defaults, dict):
        raise UserError(f"signatures/{family}: has no list under 'signatures'", "see docs/adding-a-signature.md")
    return [_signature(family, {**defaults, **row}, checked) for row in rows if isinstance(row, dict)]


def _signature(family: str, row: Mapping[str, Any], checked: bool) -> Signature:
    where = f"signatures/{family}: {row.get('id', 'a signature without id')}"
    try:
        _check_names(row)
        role: Role = row["role"]
        values = dict(row)
        literal = values.pop("literal", None)
        values["pattern"] = re.escape(literal) if literal else str(row["pattern"])
        _check_words(values)
        values.setdefault("priority", _PRIORITY[role])
        values.setdefault("weight", _WEIGHT[role])
        values["explains"] = frozenset(values.get("explains", ()))
        values["match"] = tuple(map(str, values.get("match", ())))
        values["reject"] = tuple(map(str, values.get("reject", ())))
        if not checked:
            check_pattern(values["pattern"])
        return Signature(family=family, **values)
    except re.error as error:
        raise UserError(f"{where}: the pattern is none ({error})", "see docs/adding-a-signature.md") from None
    except (KeyError, TypeError, ValueError, RecursionError, OverflowError) as error:
        raise UserError(f"{where}: {error}", "see docs/adding-a-signature.md") from None


def _check_names(row: Mapping[str, Any]) -> None:
    """Raises ValueError, in words, for what is missing and for what there is no such field."""
    missing = [name for name in _NEEDED if row.get(name) is None and not (name == "retryable" and name in row)]
    if not row.get("pattern") and not row.get("literal"):
        missing.append("pattern (or literal)")
    if missing:
        raise ValueError(f"it needs {_listed(missing)}")
    unknown = sorted(str(name) for name in row if name not in _FIELDS)
    if unknown:
        raise ValueError(f"there is no field {_listed(unknown)}")
    for name in ("explains", "match", "reject"):
        if not isinstance(row.get(name, []), list | tuple | set | frozenset):
            raise ValueError(f"{name} must be a list")
    for name in ("weight", "priority", "raised_weight"):
        if isinstance(row.get(name, 0), bool) or not isinstance(row.get(name, 0), int | float):
            raise ValueError(f"{name} must be a number")


def _listed(names: list[str]) -> str:
    return ", ".join(names[:-1]) + (" and " if len(names) > 1 else "") + names[-1]


def _check_words(values: Mapping[str, Any]) -> None:
    for name, allowed in (
        ("category", Category),
        ("action", Action),
        ("role", Role),
        ("scope", Scope),
        ("origin", Origin),
    ):
        if name in values and values[name] not in get_args(allowed):
            raise ValueError(f"{name} {values[name]!r} is not one of {', '.join(get_args(allowed))}")


def check_pattern(pattern: str) -> None:
    """Refuse what an automaton can not do or what could backtrack without end. Raises ValueError."""
    wide = _inspect(_sre_parse.parse(pattern), inside_repeat=False)
    if wide > _MOST_WIDE_REPEATS:
        raise ValueError(f"{wide} unbounded repeats in one alternative; at most {_MOST_WIDE_REPEATS}")


def _inspect(tree: Any, inside_repeat: bool) -> int:
    """The number of unbounded repeats on the widest way through; ValueError for what is refused."""
    constants = _sre_constants
    wide = 0
    for operation, argument in tree:
        if operation in (constants.ASSERT, constants.ASSERT_NOT, constants.GROUPREF, constants.GROUPREF_EXISTS):
            raise ValueError("look-around and back-references are not allowed")
        if operation in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            _, most, body = argument
            unbounded = most is constants.MAXREPEAT
            if unbounded and inside_repeat:
                raise ValueError("an unbounded repeat inside a repeat")
            wide += int(unbounded) + _inspect(body, inside_repeat or unbounded)
        elif operation is constants.BRANCH:
            wide += max(_inspect(branch, inside_repeat) for branch in argument[1])
        elif operation is constants.SUBPATTERN:
            wide += _inspect(argument[3], inside_repeat)
    return wide


def _tree(family: str, text: str) -> dict[str, Any]:
    try:
        tree = yaml.load(text, Loader=_YAML_LOADER)
    except yaml.YAMLError as error:
        raise UserError(f"signatures/{family}: not valid YAML ({error})", "correct the file") from None
    if not isinstance(tree, dict):
        raise UserError(f"signatures/{family}: not a mapping", "see docs/adding-a-signature.md")
    return tree


@lru_cache(maxsize=1)
def xid_signatures() -> dict[int, Signature]:
    """What each known Xid number means (signatures/xids.yaml)."""
    tree = _tree(_XID_FILE, (_FOLDER / f"{_XID_FILE}.yaml").read_text(encoding="utf-8"))
    return {number: _xid(number, row) for row in tree["xids"] for number in row["numbers"]}


def xid_signature(number: int) -> Signature:
    """The meaning of an Xid; one that is not in the table is only a hint."""
    known = xid_signatures().get(number)
    return known or _xid(number, {"role": "informational", "subcategory": "xid-note", "action": "none",
                                  "says": "The driver reports an Xid that is not in the table"})  # fmt: skip


def _xid(number: int, row: Mapping[str, Any]) -> Signature:
    role: Role = row["role"]
    subcategory = str(row["subcategory"])
    return Signature(
        id=f"xid-{number}",
        pattern=rf"Xid \(PCI:[^)]+\): {number},",
        role=role,
        category=row.get("category", "infrastructure-hardware"),
        subcategory=subcategory,
        action=row["action"],
        retryable=row.get("retryable", True),
        says=f"{row['says']} (Xid {number})",
        why=str(row.get("why", "")),
        clue="the host of the kernel line; process id and PCI address name the rank",
        source="https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html",
        priority=62 if role == "root" else 45,
        weight={"root": 1.0, "ambiguous": 0.55}.get(role, 0.0),
        scope="node",
        origin="platform",
        explains=_FOLLOWS_GPU_FAULT if role == "root" else frozenset({"xid-echo"}),
        family="xids",
    )
