"""The steps of a scheduling cycle, one file each; each is ``(state, transaction, now) -> None``."""

from __future__ import annotations

from collections.abc import Callable

from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction

Action = Callable[[State, Transaction, float], None]
