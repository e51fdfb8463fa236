"""Diagnosis by the signatures that come with the program and those that an operator promoted."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from analyzers.failures import Diagnoser, examine
from analyzers.types import Diagnosis
from schedmate.config import Settings
from schedmate.signatures.folder import SignatureFolder, active_signatures, shipped_signatures

if TYPE_CHECKING:
    from analyzers.failures import Signature
    from analyzers.failures.events import Scan
    from analyzers.failures.topology import Topology


def examine_with_own(path: Path, settings: Settings) -> tuple[Diagnosis, Scan, Topology, tuple[str, ...]]:
    """As `analyzers.failures.examine`, and which files of the folder ``signatures.dir`` could not be used.

    What others promote meanwhile is seen at the next call.
    """
    if not settings.text("signatures.dir"):
        return (*examine(path), ())
    folder = SignatureFolder(settings.path("signatures.dir"))
    diagnoser, warnings = _diagnoser(folder.path, folder.state())
    return (*(diagnoser.examine(path) if diagnoser is not None else examine(path)), warnings)


def signatures_in_use(settings: Settings) -> tuple[tuple[Signature, ...], tuple[str, ...]]:
    """All signatures that `examine_with_own` goes by, and which files could not be used."""
    if not settings.text("signatures.dir"):
        return shipped_signatures(), ()
    folder = SignatureFolder(settings.path("signatures.dir"))
    return active_signatures(folder) or shipped_signatures(), tuple(folder.warnings)


@lru_cache(maxsize=2)
def _diagnoser(path: Path, _state: tuple[tuple[str, int, int], ...]) -> tuple[Diagnoser | None, tuple[str, ...]]:
    folder = SignatureFolder(path)
    active = active_signatures(folder)
    return (None if active is None else Diagnoser(active)), tuple(folder.warnings)
