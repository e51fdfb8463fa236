"""Files that an operator names: small ones read whole, and outputs, which take the place of a file when they are whole
and never that of an input."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from prompts.errors import UserError

_MOST_BYTES = 1 << 20
#: A name may have 255 bytes in all; so much of the target's stands in that of its temporary file.
_KEPT_NAME_CHARS = 40


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


def refuse_inputs(path: Path, inputs: Iterable[Path], hint: str) -> None:
    """Refuse to write over what the same command reads, under whatever name: symbolic and hard links are followed.

    Raises `UserError` with ``hint``.
    """
    for each in inputs:
        with contextlib.suppress(OSError, ValueError):  # one that is not there can not be lost
            if path.samefile(each):
                raise UserError(f"{path}: is {each} itself, which is read here", hint)


@contextmanager
def whole_file(path: Path, hint: str) -> Iterator[IO[bytes]]:
    """A stream into a temporary file beside ``path`` that takes its place once it is whole and on the disk.

    Where the block raises, the disk is full or the process is killed, what was there stays as it was. A symbolic link
    is followed, permissions of a replaced file are kept. Raises `UserError` with ``hint`` where it can not be written.
    """
    check_output(path, hint)
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name[:_KEPT_NAME_CHARS]}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as stream:
            with contextlib.suppress(OSError):  # there is none yet, or it is somebody else's
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})", hint) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_whole(path: Path, text: str, hint: str) -> None:
    """Write a text such that whoever opens the file finds the old content or the new one; see `whole_file`."""
    with whole_file(path, hint) as stream:
        stream.write(text.encode("utf-8", "replace"))


def _kind(mode: int) -> str:
    return "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
