"""The output folder. The demo only ever replaces files that it wrote itself, and knows them by its manifest."""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from prompts.errors import UserError

MANIFEST = ".schedmate-demo.json"
_ANOTHER = "choose another folder with --out"


class OutFolder:
    """Writes files below one folder and remembers them. Errors are `UserError` with the path in words."""

    def __init__(self, root: Path) -> None:
        """Make the folder, or empty it of what an earlier demo wrote. Anything else in it is left alone."""
        self.root = root
        self._written: list[str] = []
        self._folders: set[Path] = set()
        if root.exists() and not root.is_dir():
            raise UserError(f"{root}: is a file, not a folder", _ANOTHER)
        try:
            root.mkdir(parents=True, exist_ok=True)
            if any(root.iterdir()):
                self._remove_own()
            self._save()
        except OSError as error:
            raise UserError(f"{root}: can not be written ({error.strerror or error})", _ANOTHER) from None

    def write(self, name: str, text: str) -> Path:
        """Write one file, ``name`` relative with forward slashes. Never replaces a file that was there."""
        path = self.root / name
        try:
            if path.parent not in self._folders:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._folders.add(path.parent)
            with path.open("x", encoding="utf-8", newline="") as file:
                file.write(text)
        except FileExistsError:
            raise UserError(f"{path}: is in the way and was not written by the demo", _ANOTHER) from None
        except OSError as error:
            raise UserError(f"{path}: can not be written ({error.strerror or error})", _ANOTHER) from None
        self._written.append(name)
        return path

    def close(self) -> None:
        """Save the list of what was written."""
        self._save()

    def _save(self) -> None:
        body = {"made_by": "schedmate demo", "files": self._written}
        (self.root / MANIFEST).write_text(json.dumps(body, indent=0) + "\n", encoding="utf-8")

    def _remove_own(self) -> None:
        for name in _own_files(self.root):
            path = self.root / name
            if path.parent.resolve().is_relative_to(self.root.resolve()):
                path.unlink(missing_ok=True)
        folders = [path for path in self.root.rglob("*") if path.is_dir() and not path.is_symlink()]
        for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
            if not any(folder.iterdir()):
                folder.rmdir()


def _own_files(root: Path) -> list[str]:
    try:
        names = json.loads((root / MANIFEST).read_text(encoding="utf-8"))["files"]
        paths = [PurePosixPath(name) for name in names]
    except FileNotFoundError:
        raise UserError(f"{root}: is not empty and was not made by the demo", _ANOTHER) from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{root / MANIFEST}: is damaged, so what the demo wrote is not known", _ANOTHER) from None
    return [str(path) for path in paths if not path.is_absolute() and ".." not in path.parts]
