"""Errors meant for people: one line that says what was wrong, where, and what to do about it."""

from __future__ import annotations


class UserError(Exception):
    """Something the caller can put right.

    The command line prints ``str(error)`` on one line and exits with 2; the service answers with problem+json.

    Parameters
    ----------
    what : str
        What was wrong and where, for example ``"trace.csv, line 7: duration is negative (-3)"``.
    hint : str
        What to do about it, for example ``"correct the row or pass --skip-bad-rows"``. May be empty.
    """

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(f"{what}; {hint}" if hint else what)
        self.what = what
        self.hint = hint
