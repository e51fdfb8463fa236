"""Templates as files: what is said to a model, with declared variables, a version and an answer schema."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Template as Placeholders
from typing import Any, Literal

import yaml

from prompts.errors import UserError
from prompts.outgoing import encodable, outgoing
from prompts.redaction import redact

Trust = Literal["ours", "untrusted"]
_CUT = "\n[... cut ...]\n"


@dataclass(frozen=True, slots=True)
class Variable:
    """A placeholder. ``untrusted`` text (logs, code, names) is fenced; longer text is cut in the middle."""

    trust: Trust
    max_chars: int


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template file."""

    name: str
    version: int
    answer: str
    variables: Mapping[str, Variable]
    system: str
    user: str

    @property
    def title(self) -> str:
        """Name and version, for records."""
        return f"{self.name}@{self.version}"

    def render(self, values: Mapping[str, str]) -> list[Message]:
        """The messages, with every value redacted, cut to its bound and, where untrusted, fenced.

        Raises `UserError` for a missing or undeclared variable.
        """
        missing, extra = set(self.variables) - set(values), set(values) - set(self.variables)
        if missing or extra:
            raise UserError(
                f"template {self.title}: " + "; ".join(
                    f"{what} {', '.join(sorted(names))}"
                    for what, names in (("missing", missing), ("undeclared", extra))
                    if names
                ),
                "hand over exactly the declared variables",
            )  # fmt: skip
        shown = {name: _shown(values[name], variable) for name, variable in self.variables.items()}
        return [
            Message("system", Placeholders(self.system).substitute(shown)),
            Message("user", Placeholders(self.user).substitute(shown)),
        ]


@cache
def load_template(name: str) -> Template:
    """The template ``name``.yaml of this folder, checked: every placeholder declared and every declared one used."""
    path = Path(__file__).with_name(f"{name}.yaml")
    try:
        raw = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"no prompt template named {name!r}", f"add {path.name} beside the others") from None
    template = _parsed(raw, path)
    used = {
        found
        for text in (template.system, template.user)
        for found in Placeholders(text).get_identifiers()
    }  # fmt: skip
    if used != set(template.variables):
        raise UserError(f"{path.name}: placeholders {sorted(used)} differ from variables {sorted(template.variables)}")
    return template


def _parsed(raw: Any, path: Path) -> Template:
    try:
        variables = {key: Variable(v["trust"], int(v["max_chars"])) for key, v in raw["variables"].items()}
        template = Template(
            path.stem, int(raw["version"]), str(raw["answer"]), variables, str(raw["system"]), str(raw["user"])
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path.name}: not a template ({type(error).__name__}: {error})") from None
    if any(v.trust not in ("ours", "untrusted") for v in variables.values()):
        raise UserError(f"{path.name}: trust must be ours or untrusted")
    return template


def _shown(text: str, variable: Variable) -> str:
    text = outgoing(text) if variable.trust == "untrusted" else redact(encodable(text))
    if len(text) > variable.max_chars:
        half = (variable.max_chars - len(_CUT)) // 2
        text = text[:half] + _CUT + text[-half:]
    return fence(text) if variable.trust == "untrusted" else text


def fence(text: str) -> str:
    """Untrusted text between two marks that it can not contain: they carry a digest of the text itself."""
    mark = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
    return f"<<<DATA {mark}\n{text}\nDATA {mark}>>>"
