"""A diagnosis in the light of earlier ones: the same failure elsewhere clears the nodes, jobs of several people that
end on one node blame it, and who failed the same way before need not try again."""

from __future__ import annotations

from dataclasses import replace

from analyzers.failures.past.lemons import NodeStanding, rank_nodes
from analyzers.failures.past.starts import SUSPECT, short_name
from analyzers.ports import FailureStore
from analyzers.types import Diagnosis, FailureRecord, PastNote

#: Nodes are judged by what ran on them in this time.
WINDOW_S = 30 * 86_400.0
#: From so many earlier failures of the same work in the same way on, another try is not worth it.
ENOUGH_TRIES = 2
_MOST_SAME = 200
_MOST_SHOWN = 5
#: A failure that no frame of the job's own code is known for is called its code's after so many other places.
_PLACES_WITHOUT_FRAME = 2
_SAME_DATA_JOBS = 2
_UNSURE_BELOW = 0.75


def judge(found: Diagnosis, this: FailureRecord, store: FailureStore) -> Diagnosis:
    """``found`` with what the store says about it. ``this`` is its record; it need not be in the store, and does not
    count as its own past."""
    if found.category == "none":
        return found
    same = [
        each
        for each in store.same_failure(this.failure, limit=_MOST_SAME)
        if not (_same_job(each, this) and each.attempt == this.attempt) and _same_work(each, this)
    ]
    found, data = _data(found, this, store)
    found, elsewhere = _elsewhere(found, this, same, of_data=data)
    if not elsewhere and not data:
        found = _node(found, this, store)
    return _repeated(found, this, same)


def _same_work(one: FailureRecord, other: FailureRecord) -> bool:
    """Whether two records are runs of the same program: one job, one user's work, or one frame of own code."""
    if _same_job(one, other):
        return True
    return one.user == other.user and ((bool(one.work) and one.work == other.work) or (one.own_code and other.own_code))


def _same_job(one: FailureRecord, other: FailureRecord) -> bool:
    """Whether two records are of one job: of one id and, as far as both tell it, one user."""
    return one.job_id == other.job_id and (one.user == other.user or not (one.user and other.user))


def _data(found: Diagnosis, this: FailureRecord, store: FailureStore) -> tuple[Diagnosis, bool]:
    """Other jobs that stumbled over the same file, on other nodes: it is the file."""
    others = [
        each
        for each in store.same_data(this.data, limit=_MOST_SAME)
        if not _same_job(each, this) and not _share_nodes(each, this)
    ]
    jobs = tuple(dict.fromkeys(each.job_id for each in others))
    if len(jobs) < _SAME_DATA_JOBS or found.category not in ("data", "unknown", "user-code", "storage"):
        return found, False
    says = f"{_count(len(jobs), 'other job')} stumbled over the same file {this.data}, so it is the file."
    found = _noted(found, PastNote("same-data", says, jobs[:_MOST_SHOWN], ()))
    if found.category == "data" or found.confidence >= 0.9:
        return found, True
    return replace(
        found, category="data", subcategory="same-file", confidence=0.8, culprit_nodes=(), node_proof=None,
        retryable=False, action="fix_data_or_skip",
    ), True  # fmt: skip


def _elsewhere(
    found: Diagnosis, this: FailureRecord, same: list[FailureRecord], *, of_data: bool
) -> tuple[Diagnosis, bool]:
    """The same failure of the same work on other nodes: it is not the nodes."""
    others = [each for each in same if each.nodes and this.nodes and not _share_nodes(each, this)]
    if not others or this.culprits:
        return found, False
    nodes = tuple(sorted({short_name(node) for each in others for node in each.nodes}))
    jobs = tuple(dict.fromkeys(each.job_id for each in others))
    shown = ", ".join(nodes[:_MOST_SHOWN]) + (" and others" if len(nodes) > _MOST_SHOWN else "")
    says = f"The same failure happened on {_count(len(nodes), 'other node')} ({shown}), so the nodes are not to blame."
    found = _noted(found, PastNote("same-failure-elsewhere", says, jobs[:_MOST_SHOWN], nodes[:_MOST_SHOWN]))
    found = replace(found, culprit_nodes=(), node_proof=None)
    if found.category == "user-code":
        return replace(found, confidence=max(found.confidence, 0.9)), True
    enough = this.own_code or len(others) >= _PLACES_WITHOUT_FRAME
    if of_data or found.category not in ("unknown", "infrastructure-hardware") or not enough:
        return found, True
    sure = min(0.9, 0.6 + 0.1 * len(others) + (0.1 if this.own_code else 0.0))
    return replace(
        found, category="user-code", subcategory="fails-everywhere", confidence=round(sure, 2), retryable=False,
        action="fix_code", summary=f"The job fails the same way wherever it runs: {found.summary}",
    ), True  # fmt: skip


def _node(found: Diagnosis, this: FailureRecord, store: FailureStore) -> Diagnosis:
    """A node of this job that ends jobs of others, where nothing better is known."""
    if not this.nodes_told or this.own_code or (found.category not in SUSPECT and found.confidence >= _UNSURE_BELOW):
        return found
    here = {short_name(node) for node in this.nodes}
    earlier = (each for each in store.since(this.at_s - WINDOW_S) if each.at_s <= this.at_s)
    past = (each for each in earlier if not _same_job(each, this))
    bad = [each for each in rank_nodes(past) if each.named and each.node in here]
    if not bad:
        return found
    for each in bad:
        found = _noted(found, PastNote("node-ends-jobs", _standing(each), (), (each.node,)))
    if found.culprit_nodes or len(bad) > 1:
        return found
    hardware = found.category == "infrastructure-hardware"
    return replace(
        found,
        category="infrastructure-hardware",
        subcategory=found.subcategory if hardware else "node-ends-jobs",
        confidence=max(found.confidence, 0.75),
        culprit_nodes=(bad[0].node,),
        node_proof="several-jobs",
        retryable=True,
        action="cordon_node_and_restart",
        summary=found.summary if hardware else f"Node {bad[0].node} ends the jobs that run on it; {found.summary}",
    )


def _standing(each: NodeStanding) -> str:
    return (
        f"Node {each.node} may be at fault for {_count(each.failures, 'failure')} in {_count(each.starts, 'start')} "
        f"({each.expected:.1f} would be expected), of {_count(each.users, 'user')}."
    )


def _repeated(found: Diagnosis, this: FailureRecord, same: list[FailureRecord]) -> Diagnosis:
    """The same work failed the same way before, and not because of where it ran."""
    lasting = [each for each in same if each.retryable is False or found.retryable is False]
    if len(lasting) < ENOUGH_TRIES or this.culprits or found.culprit_nodes:
        return found
    jobs = tuple(dict.fromkeys(each.job_id for each in lasting))
    says = f"It failed this way {len(lasting)} times before: do not run it again unchanged."
    return replace(_noted(found, PastNote("repeated", says, jobs[:_MOST_SHOWN], ())), retryable=False)


def _share_nodes(one: FailureRecord, other: FailureRecord) -> bool:
    return bool({short_name(node) for node in one.nodes} & {short_name(node) for node in other.nodes})


def _noted(found: Diagnosis, note: PastNote) -> Diagnosis:
    return replace(found, past=(*found.past, note), explanation=f"{found.explanation} {note.says}".strip())


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
