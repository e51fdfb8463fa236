"""Reading what `schedmate simulate --json` printed, which anybody may have changed since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from prompts.errors import UserError

_LARGEST_BYTES = 256 << 20
_HINT = "make it with `schedmate simulate ... --json > FILE`"
_NEEDED = ("trace", "cluster", "estimates", "policies")


def read_document(path: Path) -> dict[str, Any]:
    """A document of `schedmate simulate --json`. Raises `UserError` for anything else."""
    try:
        if not path.is_file():
            raise UserError(f"{path}: not a file", _HINT)
        if path.stat().st_size > _LARGEST_BYTES:
            raise UserError(f"{path}: larger than {_LARGEST_BYTES >> 20} MiB", _HINT)
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror or error}", _HINT) from None
    except (ValueError, RecursionError):
        raise UserError(f"{path}: not JSON", _HINT) from None
    if not isinstance(found, dict) or not all(key in found for key in _NEEDED) or not _whole(found["policies"]):
        raise UserError(f"{path}: not what `schedmate simulate --json` prints", _HINT)
    return found


def _whole(policies: Any) -> bool:
    needed = (
        "jobs",
        "estimates",
        "sor_while_arriving",
        "jct_s",
        "queueing_s",
        "bounded_slowdown",
        "sor",
        "gfr",
        "jwtd_s",
        "makespan_s",
    )
    return (
        isinstance(policies, dict)
        and bool(policies)
        and all(isinstance(p, dict) and all(key in p for key in needed) for p in policies.values())
    )


def check_document(path: Path, name: str, document: Mapping[str, Any]) -> None:
    """Raises `UserError` for a document of which not everything can be shown: alone, so that it is known which."""
    from schedmate.comparison.page import page
    from schedmate.comparison.runs import runs_of

    try:
        page(runs_of([(name, document)]))
    except (TypeError, ValueError, KeyError, AttributeError, IndexError, ArithmeticError, StopIteration) as error:
        what = f"not what `schedmate simulate --json` prints ({type(error).__name__}: {str(error)[:120]})"
        raise UserError(f"{path}: {what}", _HINT) from None
