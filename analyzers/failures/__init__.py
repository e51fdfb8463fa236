"""Why a job failed: category, rank, node, the line that tells it, what to do."""

from analyzers.failures.diagnosis import diagnose
from analyzers.failures.signatures import FileSignatureStore, Signature, load_signatures

__all__ = ["FileSignatureStore", "Signature", "diagnose", "load_signatures"]
