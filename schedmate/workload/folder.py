"""The output folder of a command that writes many files: it only ever replaces its own, which its manifest names."""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path, PurePosixPath
from typing import TextIO

from prompts.errors import UserError

_ANOTHER = "choose another folder with --out"


class OutFolder:
    """Writes files below one folder and remembers them. Errors are `UserError` with the path in words.

    ``maker`` is the command in words, such as ``demo``; each has a manifest of its own.
    """

    def __init__(self, root: Path, maker: str) -> None:
        """Make the folder, or empty it of what the maker wrote earlier. Anything else in it is left alone."""
        self.root = root
        self.manifest = root / manifest_name(maker)
        self._maker = f"schedmate {maker}"
        self._written: list[str] = []
        self._prefix = ""
        self._folders: set[Path] = set()
        if root.exists() and not root.is_dir():
            raise UserError(f"{root}: is a file, not a folder", _ANOTHER)
        try:
            root.mkdir(parents=True, exist_ok=True)
            if any(root.iterdir()):
                self._remove_own()
            self._save()
        except OSError as error:
            raise _unwritable(root, error) from None

    def write(self, name: str, text: str) -> Path:
        """Write one file, ``name`` relative with forward slashes. Never replaces a file that was there."""
        with self.open(name) as file:
            try:
                file.write(text)
                file.flush()
            except OSError as error:
                raise _unwritable(self.root / name, error) from None
        return self.root / name

    def open(self, name: str) -> TextIO:
        """Open a new file to be written bit by bit; the caller closes it."""
        path = self.root / name
        try:
            if path.parent not in self._folders:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._folders.add(path.parent)
            file = path.open("x", encoding="utf-8", newline="")
        except FileExistsError:
            raise UserError(f"{path}: is in the way and was not written by `{self._maker}`", _ANOTHER) from None
        except OSError as error:
            raise _unwritable(path, error) from None
        self._written.append(self._prefix + name)
        return file

    def below(self, name: str) -> OutFolder:
        """The same, with a sub-folder for root; what is written there is remembered here."""
        inner = copy(self)
        inner.root, inner._prefix = self.root / name, f"{self._prefix}{name}/"
        return inner

    def close(self) -> None:
        """Save the list of what was written."""
        self._save()

    def _save(self) -> None:
        body = {"made_by": self._maker, "files": self._written}
        self.manifest.write_text(json.dumps(body, indent=0) + "\n", encoding="utf-8")

    def _remove_own(self) -> None:
        for name in self._own_files():
            path = self.root / name
            if path.parent.resolve().is_relative_to(self.root.resolve()):
                path.unlink(missing_ok=True)
        folders = [path for path in self.root.rglob("*") if path.is_dir() and not path.is_symlink()]
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()

    def _own_files(self) -> list[str]:
        try:
            names = json.loads(self.manifest.read_text(encoding="utf-8"))["files"]
            paths = [PurePosixPath(name) for name in names]
        except FileNotFoundError:
            raise UserError(f"{self.root}: is not empty and was not made by `{self._maker}`", _ANOTHER) from None
        except (ValueError, KeyError, TypeError):
            what = f"is damaged, so what `{self._maker}` wrote is not known"
            raise UserError(f"{self.manifest}: {what}", _ANOTHER) from None
        return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]


def _unwritable(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: can not be written ({error.strerror or error})", _ANOTHER)


def manifest_name(maker: str) -> str:
    """The file in which a command remembers what it wrote."""
    return f".schedmate-{maker}.json"
