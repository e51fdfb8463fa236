"""Files that an operator names: small ones read whole, and outputs that may only ever replace a file."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from pathlib import Path

from prompts.errors import UserError

_MOST_BYTES = 1 << 20


def read_small(path: Path, hint: str) -> str:
    """The text of a small file, such as a configuration.

    Raises `UserError`, with ``hint`` to tell what is wanted, for what is no readable text file of at most 1 MiB:
    pipes and devices are refused, they may never end.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise UserError(f"{path}: is {_kind(mode)}, not a file", hint)
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: {getattr(error, 'strerror', None) or error}", hint) from None
    if len(data) > _MOST_BYTES:
        raise UserError(f"{path}: larger than {_MOST_BYTES >> 20} MiB", hint)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UserError(f"{path}: not a text file", hint) from None


def check_output(path: Path, hint: str) -> None:
    """Refuse to write to what is no file: replacing a device would take it from the whole machine.

    Raises `UserError` with ``hint``.
    """
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error})", hint) from None
    if not stat.S_ISREG(mode):
        raise UserError(f"{path}: cannot be written: it is {_kind(mode)}", hint)


def check_not_an_input(path: Path, inputs: Iterable[Path], hint: str) -> None:
    """Refuse to write over what is read, by whatever name or link. Raises `UserError` with ``hint``."""
    for each in inputs:
        try:
            same = path.samefile(each)
        except (OSError, ValueError):  # one of them is not there
            continue
        if same:
            raise UserError(f"{path}: is {each}, which is read", hint)


def _kind(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
