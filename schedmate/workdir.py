"""The folder of a job, as given on the command line."""

from __future__ import annotations

from pathlib import Path

from prompts.errors import UserError


def work_folder(path: Path) -> Path:
    """``path`` if it is a folder that can be listed. Raises `UserError` otherwise."""
    try:
        if path.is_dir():
            next(path.iterdir(), None)
            return path
        exists = path.exists()
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: can not be read ({error.__class__.__name__})", "check its permissions") from None
    if exists:
        raise UserError(f"{path}: is not a folder", f"name the job's folder, perhaps {path.parent}")
    raise UserError(f"{path}: no such folder", "name the job's folder")
