"""Why a job failed: category, rank, node, the line that tells it, what to do."""

from analyzers.failures.diagnosis import Diagnoser, diagnose, examine, investigate
from analyzers.failures.plan import RUNS_AGAIN, cost_in_words, plan_of
from analyzers.failures.signatures import FileSignatureStore, Signature, load_signatures
from analyzers.failures.timeline import Moment, moments

__all__ = [
    "RUNS_AGAIN", "Diagnoser", "FileSignatureStore", "Moment", "Signature", "cost_in_words", "diagnose", "examine",
    "investigate", "load_signatures", "moments", "plan_of",
]  # fmt: skip
