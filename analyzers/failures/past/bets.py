"""What a bad node may be like, as a grid, and sums of what bets on each of its points are worth.

Worths are natural logarithms, one for each point of the grid (or rows of them).
"""

from __future__ import annotations

import numpy as np

from analyzers.failures.past.starts import Counts, Indexes

#: How a bad node shows itself: the share of its failures that the platform tells of, the share that only the job's log
#: calls a node's fault, and how likely that is: the kernel's log tells most often.
_SHOWS = ((0.05, 0.05, 0.25), (0.5, 0.05, 0.3), (0.05, 0.5, 0.2), (0.45, 0.45, 0.25))
#: Shares of its jobs that a bad node ends, one as likely as another, each with each of those.
ENDS, BY_PLATFORM, BY_LOG, _LIKELY = (
    np.array([(ends, *shows)[at] for ends in np.linspace(0.05, 0.95, 19) for shows in _SHOWS]) for at in range(4)
)
LOG_PRIOR = np.log(_LIKELY / _LIKELY.mean())


def one_for_each(users: Indexes, each: Counts) -> Counts:
    """The sum over users of what their failures are worth together, but no more than the best single one of them."""
    found = set(users.tolist())
    if len(found) == len(users):
        return np.asarray(each.sum(axis=0))
    worth = np.zeros(len(ENDS))
    for user in found:
        mine = each[users == user]
        worth += np.minimum(mine.sum(axis=0), mine.max(axis=0))
    return worth


def log_sum(worths: list[Counts]) -> Counts:
    """The logarithm of the sum of worths, point by point."""
    found: Counts = np.logaddexp.reduce(np.stack(worths), axis=0)
    return found


def log10_mean(worth: Counts) -> float:
    """The worth of a bet that is spread over the grid, in powers of ten."""
    highest = worth.max()
    return float((highest + np.log(np.exp(worth - highest).mean())) / np.log(10))


def mean(worth: Counts) -> float:
    """The share of its jobs that the node ends, as likely as the worths make it."""
    weight = np.exp(worth - worth.max())
    return float((weight * ENDS).sum() / weight.sum())


def interval(worth: Counts) -> tuple[float, float, float]:
    """That share: 5 %, mean, 95 %."""
    weight = np.exp(worth - worth.max())
    order = np.argsort(ENDS, kind="stable")
    upto = np.cumsum(weight[order]) / weight.sum()
    low, high = (float(ENDS[order][np.searchsorted(upto, share)]) for share in (0.05, 0.95))
    return round(low, 2), round(mean(worth), 2), round(high, 2)
