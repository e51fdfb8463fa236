"""What policies may know of runtimes, by name."""

from __future__ import annotations

from collections.abc import Sequence

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.scheduler import Policy
from schedmate.scheduler.policies import alike, by_submission, never
from schedmate.simulator.estimates import Estimates, Hostile, Perfect, Predicted, Requested

NO_REQUESTED = "the trace has no requested times"
ESTIMATES = ("requested", "perfect", "predicted", "hostile")


def estimates_named(name: str) -> Estimates:
    """Fresh ones: those that learn are used up by one replay. Raises `UserError` for another name."""
    if name == "requested":
        return Requested()
    if name == "perfect":
        return Perfect()
    if name == "hostile":
        return Hostile()
    if name != "predicted":
        raise UserError(f"estimates {name!r}: not known", f"one of {', '.join(ESTIMATES)}")
    from schedmate.pipeline import online_predictor

    return Predicted(online_predictor())


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
