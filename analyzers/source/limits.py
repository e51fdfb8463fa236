"""How long one reading may take."""

from __future__ import annotations

import time

#: Processor time of the reading thread in s: following the launch and walking the program. A usual job takes 0.02 s.
CPU_S_MAX = 2.0
#: What the idioms may take on top of that, in s: they see whatever was met until then.
IDIOMS_CPU_S_MAX = 1.0
#: By the clock, in s. Longer than the processor time, so that a busy machine gives the same facts as an idle one.
WALL_S_MAX = 10.0
TOO_LONG = "the job is too large to be read to its end in the time one submission may take; facts may be missing"


class BudgetExceededError(Exception):
    """A reading took more steps or time than one job may cost."""


class Deadline:
    """When a reading has to stop. It belongs to the thread that made it.

    ``cut``: whether it was ever found to have passed; what was read then depends on the machine's speed.
    """

    __slots__ = ("_cpu_s", "_wall_s", "cut")

    def __init__(self, cpu_s: float = CPU_S_MAX) -> None:
        self.cut = False
        self.restart(cpu_s)

    def restart(self, cpu_s: float) -> None:
        """So much processor time from now on."""
        self._cpu_s = time.thread_time() + cpu_s
        self._wall_s = time.monotonic() + WALL_S_MAX

    def passed(self) -> bool:
        """Whether the time is up."""
        if time.thread_time() > self._cpu_s or time.monotonic() > self._wall_s:
            self.cut = True
            return True
        return False

    def check(self) -> None:
        """Raise `BudgetExceededError` when the time is up."""
        if self.passed():
            raise BudgetExceededError
