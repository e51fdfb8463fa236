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
