"""One thread for small models: threads that wait for each other spin, and on a busy machine cost tenfold.

Measured on two cores kept busy by others: training on 500 jobs took 101 s with a thread per core, 12 s with one.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

#: From here on a tree's rows are worth dividing among cores.
MANY_ROWS = 100_000


def few_threads(rows: int) -> AbstractContextManager[object]:
    """While it lasts, compiled loops over ``rows`` rows use one thread; over `MANY_ROWS` or more, what is configured.

    Call it after scikit-learn's estimators are imported, or their thread pool isn't found.
    """
    if rows >= MANY_ROWS:
        return nullcontext()
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="openmp")
    return limit


@cache
def _controller() -> ThreadpoolController:
    """Looks through the loaded libraries once, which takes milliseconds."""
    return ThreadpoolController()
