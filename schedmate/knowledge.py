"""What policies may know of runtimes, by name."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.scheduler import Policy
from schedmate.scheduler.policies import alike, by_submission, never
from schedmate.simulator.estimates import Estimates, Hostile, Perfect, Predicted, Requested
from schedmate.simulator.wrong_hints import (
    ONE_MINUTE_S,
    SIGMA,
    Constant,
    Noisy,
    OneLies,
    Owners,
    Reversed,
    liar_among,
)

NO_REQUESTED = "the trace has no requested times"

#: Estimates that are wrong on purpose.
WRONG = ("noisy", "constant", "one-minute", "reversed", "one-lies", "hostile")
ESTIMATES = ("requested", "perfect", "predicted", *WRONG)

#: No hints are noisier than this: the middle one of a hundred is off by a factor of a thousand.
_MOST_SIGMA = 10.0


def check_estimates(name: str) -> None:
    """Raises `UserError` for a name that there is not."""
    kind, colon, sigma = name.partition(":")
    if kind not in ESTIMATES or (colon and kind != "noisy"):
        raise UserError(f"estimates {name!r}: not known", f"give one of {', '.join(ESTIMATES)}")
    if colon:
        _sigma(sigma)


def is_wrong(name: str) -> bool:
    """Whether estimates of that name are wrong on purpose."""
    return name.partition(":")[0] in WRONG


def estimates_named(name: str, records: Sequence[JobRecord] = (), seed: int = 1) -> Estimates:
    """Fresh ones: those that learn are used up by one replay. Raises `UserError` for another name.

    ``records`` are the jobs of the replay, of whose owners one is drawn for `one-lies`; ``seed`` is that of what is
    drawn. `noisy` may say by how much, as in ``noisy:0.5``: the standard deviation of the logarithm.
    """
    check_estimates(name)
    kind, _, sigma = name.partition(":")
    match kind:
        case "requested":
            return Requested()
        case "perfect":
            return Perfect()
        case "noisy":
            return Noisy(_sigma(sigma) if sigma else SIGMA, seed)
        case "constant":
            return Constant()
        case "one-minute":
            return Constant(ONE_MINUTE_S, "one-minute")
        case "reversed":
            return Reversed()
        case "one-lies":
            owners = Owners(seed)
            return OneLies(liar_among(records, owners, seed), owners)
        case "hostile":
            return Hostile(seed)
    from schedmate.pipeline import online_predictor

    return Predicted(online_predictor())


def _sigma(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not 0 <= found <= _MOST_SIGMA:
        raise UserError(f"estimates noisy:{text}: not a standard deviation", f"give a number from 0 to {_MOST_SIGMA:g}")
    return found


def uses_estimates(policy: Policy, tenants: bool = False) -> bool:
    """Whether what is known of runtimes can change what the policy does: not for first in, first out, but with tenants
    for it too, because the head of one queue gets a reservation that the other queues must not delay."""
    if tenants:
        return True
    plain_order = policy.order in (by_submission, alike) and policy.reserve_from in (None, never)
    return policy.needs_estimates or policy.reservations is not None or not plain_order


def lacks_users(policy: Policy, records: Sequence[JobRecord]) -> bool:
    """Whether a policy has no meaning for jobs because nobody says whose they are."""
    return policy.needs_users and not any(record.user for record in records)


def why_not(policy: Policy, estimates: str, records: Sequence[JobRecord]) -> str | None:
    """Why a trace can not support a policy with such estimates; None if it can."""
    if lacks_users(policy, records):
        return "the trace does not say whose its jobs are"
    if not uses_estimates(policy):
        return None
    requested = any(record.requested_s is not None for record in records)
    if estimates == "requested" and policy.needs_estimates and not requested:
        return NO_REQUESTED
    if estimates == "predicted" and not requested and not any(record.user or record.name for record in records):
        return "nothing to predict from: the trace has no users, job names or requested times"
    return None
