"""Works out the priorities of all waiting jobs anew, for policies with `Factors`, whenever their period is over."""

from __future__ import annotations

import math

from schedmate.scheduler.state import State
from schedmate.scheduler.transaction import Transaction


def prioritise(state: State, tx: Transaction, now: float) -> None:
    """Comes first in a cycle. Who had a reservation has to be the first again to keep it."""
    factors, accounts = state.policy.factors, state.accounts
    if factors is None or accounts is None:
        return
    if now >= state.standing.at_s + factors.period_s:
        state.standing = accounts.standing(now)
        for slot in state.queue.slots():
            key = -factors.priority(state.table.present(slot), state.standing, state.cluster.spec.gpus, now)
            if state.table.entries[slot][0] != key:
                tx.reorder(slot, key)
                state.gained = True
        for lane in state.queue.lanes:
            lane.forget()
    waits = any(lane.order.first() is not None for lane in state.queue.lanes)
    state.rank_s = state.standing.at_s + factors.period_s if waits else math.inf
