"""A circuit breaker: an endpoint that fails again and again is left alone for a while, so that nobody waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

FAILURES = 5
FIRST_PAUSE_S = 15.0
LONGEST_PAUSE_S = 600.0


class Breaker:
    """After `FAILURES` failures in a row nothing is let through for `FIRST_PAUSE_S` seconds. Then one request is; when
    it fails as well the pause is twice as long, up to `LONGEST_PAUSE_S`; when it succeeds everything is as before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._pause_s = FIRST_PAUSE_S
        self._closed_until = 0.0
        self._trying = False

    def closed_for_s(self) -> float:
        """0 when a request may be made, else the seconds until one may. Whoever is let through while the endpoint is
        on probation must report with `succeeded`, `failed` or `given_up`."""
        with self._lock:
            if self._failures < FAILURES:
                return 0.0
            left_s = self._closed_until - self._clock()
            if left_s > 0 or self._trying:
                return max(left_s, 1.0)
            self._trying = True
            return 0.0

    def succeeded(self) -> None:
        """The endpoint answered, whatever it said."""
        with self._lock:
            self._failures, self._pause_s, self._trying = 0, FIRST_PAUSE_S, False

    def failed(self) -> None:
        """It could not be had."""
        with self._lock:
            self._failures += 1
            if self._trying:
                self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            if self._failures >= FAILURES:
                self._closed_until = self._clock() + self._pause_s
            self._trying = False

    def given_up(self) -> None:
        """It was not asked after all."""
        with self._lock:
            self._trying = False
