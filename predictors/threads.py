"""One thread for small models: threads that wait for each other spin, and on a busy machine cost tenfold.

Measured on two cores kept busy by others: training on 500 jobs took 101 s with a thread per core, 12 s with one. The
small matrices of `effects` are no better: 400 jobs predicted one by one took 397 s with a thread per core, 29 s with
one; on idle cores 37 s and 18 s.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache, wraps
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
R = TypeVar("R")

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


def small_matrices() -> AbstractContextManager[object]:
    """While it lasts, linear algebra uses one thread. It takes microseconds."""
    limit: AbstractContextManager[object] = _algebra().limit(limits=1, user_api="blas")
    return limit


def in_one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """A function of small matrices that uses one thread wherever it is called from: it then rounds alike, too."""

    @wraps(function)
    def limited(*args: P.args, **keywords: P.kwargs) -> R:
        with small_matrices():
            return function(*args, **keywords)

    return limited


@cache
def _algebra() -> ThreadpoolController:
    """The libraries that numpy and scipy bring."""
    import scipy.linalg  # noqa: F401  # else its library is not found

    return ThreadpoolController()


@cache
def _controller() -> ThreadpoolController:
    """Looks through the loaded libraries once, which takes milliseconds."""
    return ThreadpoolController()
