"""The folder of an operator's own signatures: one file each, promoted ones in it, candidates in a folder below.

A candidate is only ever read by `schedmate signatures`; nothing but `promote` moves it up.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from analyzers.failures.signatures import FileSignatureStore, Signature, load_signatures, parse_family
from prompts.errors import UserError
from prompts.ownership import why_not_believed
from schedmate.files import read_small, write_whole
from schedmate.yaml_once import load_once

State = Literal["shipped", "candidate", "promoted"]
FAMILY = "local"
MOST_CANDIDATES = 1000
_ID = re.compile(r"[a-z0-9][a-z0-9-]{1,59}")
_HINT = "see docs/adding-a-signature.md"


@dataclass(frozen=True, slots=True)
class Entry:
    """A signature with where it stands. ``about``: who proposed it when, what was measured, why it was refused."""

    signature: Signature
    state: State
    row: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)


class SignatureFolder:
    """The folder, which need not exist. Files that hold no signature are skipped; ``warnings`` says which."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []

    def entries(self) -> list[Entry]:
        """All that is there, candidates first."""
        return [*self._read(self._candidates, "candidate"), *self._read(self.path, "promoted")]

    def promoted(self) -> list[Entry]:
        """Those that `diagnose` uses."""
        return list(self._read(self.path, "promoted"))

    def state(self) -> tuple[tuple[str, int, int], ...]:
        """What changes when a promoted signature comes, goes or is written anew."""
        found = []
        for file in self._files(self.path):
            with contextlib.suppress(OSError):
                status = file.stat()
                found.append((file.name, status.st_mtime_ns, status.st_size))
        return tuple(found)

    def find(self, name: str) -> Entry:
        """The candidate or promoted signature of that id. Raises `UserError` where there is none."""
        for entry in self.entries():
            if entry.signature.id == name:
                return entry
        raise UserError(
            f"{name}: no candidate and no promoted signature has that id", "see `schedmate signatures list`"
        )

    def add(self, row: Mapping[str, Any], about: Mapping[str, Any], shipped: tuple[Signature, ...]) -> Entry:
        """Keep a candidate. Raises `UserError` for what the loader refuses, and for an id that is taken."""
        signature = _parsed(row)
        known = {each.id for each in shipped} | {entry.signature.id for entry in self.entries()}
        if signature.id in known:
            raise UserError(f"signature {signature.id}: there is one with that id", "choose another id")
        if sum(1 for _ in self._files(self._candidates)) >= MOST_CANDIDATES:
            raise UserError(f"{self._candidates}: {MOST_CANDIDATES} candidates wait there", "review or remove some")
        entry = Entry(signature, "candidate", dict(row), dict(about))
        self._write(entry)
        return entry

    def note(self, entry: Entry, **about: Any) -> Entry:
        """Write down what was found out about a signature."""
        noted = Entry(entry.signature, entry.state, entry.row, {**entry.about, **about})
        self._write(noted)
        return noted

    def promote(self, entry: Entry, **about: Any) -> Entry:
        """From now on `diagnose` uses it."""
        kept = {name: value for name, value in entry.about.items() if name != "refused"}
        promoted = Entry(entry.signature, "promoted", entry.row, {**kept, **about})
        self._write(promoted)
        self._file(entry).unlink(missing_ok=True)
        return promoted

    def remove(self, entry: Entry) -> None:
        """Take a candidate or a promoted signature out."""
        self._file(entry).unlink(missing_ok=True)

    @property
    def _candidates(self) -> Path:
        return self.path / "candidates"

    def _file(self, entry: Entry) -> Path:
        folder = self._candidates if entry.state == "candidate" else self.path
        return folder / f"{entry.signature.id}.yaml"

    def _write(self, entry: Entry) -> None:
        file = self._file(entry)
        tree = {"family": FAMILY, "about": dict(entry.about), "signatures": [dict(entry.row)]}
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{file.parent}: cannot be made ({error.strerror or error})", "set signatures.dir"
            ) from None
        write_whole(file, yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=110), "set signatures.dir")

    def _files(self, folder: Path) -> Iterator[Path]:
        try:
            found = sorted(
                Path(each.path) for each in os.scandir(folder) if each.name.endswith(".yaml") and each.is_file()
            )
            for place in (self.path, folder) if found else ():
                if why := why_not_believed(place):
                    self._warn(f"{place}: your own signatures are not used: {why}")
                    return
            for file in found:
                if why := why_not_believed(file):
                    self._warn(f"{file}: not used: {why}")
                else:
                    yield file
        except FileNotFoundError:
            return
        except OSError as error:
            self.warnings.append(f"{folder}: your own signatures are not used: {error.strerror or error}")

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def _read(self, folder: Path, state: State) -> Iterator[Entry]:
        for file in self._files(folder):
            try:
                tree = load_once(read_small(file, _HINT))
                if not isinstance(tree, dict):
                    raise UserError(f"{file}: not a mapping", _HINT)
                about = tree.get("about") or {}
                for row in rows_of(tree, str(file)):
                    yield Entry(_parsed(row), state, row, about if isinstance(about, dict) else {})
            except (UserError, yaml.YAMLError, RecursionError) as error:
                what = error.what if isinstance(error, UserError) else "not valid YAML"
                self.warnings.append(f"{file}: not used: {what}")


def rows_of(tree: Any, where: str) -> list[dict[str, Any]]:
    """The rows of a family's tree with its defaults filled in. Raises `UserError`."""
    rows = tree.get("signatures") if isinstance(tree, dict) else None
    defaults = (tree.get("defaults") or {}) if isinstance(tree, dict) else {}
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"{where}: has no list under 'signatures'", _HINT)
    return [{**(defaults if isinstance(defaults, dict) else {}), **row} for row in rows]


def _parsed(row: Mapping[str, Any]) -> Signature:
    """The signature of a row, by the loader's own rules. Raises `UserError`."""
    name = row.get("id")
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise UserError(f"signature {name!r}: the id must be lower-case words joined by hyphens", _HINT)
    (signature,) = parse_family(FAMILY, yaml.safe_dump({"signatures": [dict(row)]}))
    return signature


def shipped_signatures() -> tuple[Signature, ...]:
    """Those that come with the program."""
    return load_signatures(FileSignatureStore())


def active_signatures(folder: SignatureFolder) -> tuple[Signature, ...] | None:
    """The shipped and the promoted ones; None where nothing was promoted and the shipped ones are all."""
    promoted = [entry.signature for entry in folder.promoted()]
    if not promoted:
        return None
    shipped = shipped_signatures()
    known = {each.id for each in shipped}
    folder.warnings += [f"signature {each.id}: one that comes with the program has that id; not used"
                        for each in promoted if each.id in known]  # fmt: skip
    return (*shipped, *(each for each in promoted if each.id not in known))
