"""Why a job failed: category, rank, node, the line that tells it, what to do."""

from analyzers.failures.diagnosis import Diagnoser, diagnose, examine, investigate
from analyzers.failures.signatures import FileSignatureStore, Signature, load_signatures
from analyzers.failures.timeline import Moment, moments

__all__ = [
    "Diagnoser", "FileSignatureStore", "Moment", "Signature", "diagnose", "examine", "investigate", "load_signatures",
    "moments",
]  # fmt: skip
