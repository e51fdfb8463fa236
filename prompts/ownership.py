"""Whose a folder is in which we keep what we will believe later."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def only_ours(folder: Path) -> bool:
    """Whether it is a folder of ours that nobody else can write to: what others put there could say anything."""
    try:
        status = folder.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def why_not_believed(path: Path) -> str:
    """Why a file or folder of rules that a person keeps is not to be believed; empty where it is.

    It must belong to whoever runs the program or to the system (root), and not everybody may write to it. A group may:
    on many systems each user has a group of their own. Raises `OSError`.
    """
    status = path.stat()
    if status.st_uid not in (os.geteuid(), 0):
        return f"it belongs to another user (number {status.st_uid})"
    return "everybody can write to it" if status.st_mode & stat.S_IWOTH else ""
