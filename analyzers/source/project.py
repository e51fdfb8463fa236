"""The project that a work dir lies in: a job is often started in a folder of a package that was installed in place."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

_MARKS = ("setup.py", "pyproject.toml", "setup.cfg", ".git")
_LEVELS_MAX = 6


def project_of(workdir: str) -> str:
    """The nearest folder at or above ``workdir`` (a real path) that is a project's top; else ``workdir`` itself.

    A folder above counts only while it belongs to the work dir's owner and nobody else may write there, so that a file
    that somebody puts into a shared folder (``/tmp/setup.py``) opens nothing. A home folder is never a project, even
    where its owner keeps it in git: what else lies in it is nobody's business.
    """
    try:
        owner = Path(workdir).stat().st_uid
    except (OSError, ValueError):
        return workdir
    folder = Path(workdir)
    for _ in range(_LEVELS_MAX):
        try:
            status = folder.stat()
            if status.st_uid != owner or status.st_mode & stat.S_IWOTH:
                return workdir
            if _is_home(folder, owner):
                return workdir
            if any(os.path.lexists(folder / mark) for mark in _MARKS):
                return str(folder)
        except OSError:
            return workdir
        if folder.parent.parent == folder.parent:  # never the root of the file system
            return workdir
        folder = folder.parent
    return workdir


def _is_home(folder: Path, owner: int) -> bool:
    try:
        home = pwd.getpwuid(owner).pw_dir
    except KeyError:  # nobody has that number
        home = ""
    return folder.parent == Path("/home") or (home not in ("", "/") and os.path.realpath(home) == str(folder))
